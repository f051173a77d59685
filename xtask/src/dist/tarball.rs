//! Archives of entries, byte for byte the same for the same entries.

use tar::{Builder, EntryType, Header};

use super::contents::{Content, Entry};

/// Owner of everything in an archive, as user and as group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    pub(crate) name: &'static str,
}

pub(crate) const ROOT: Owner = Owner { id: 0, name: "root" };

/// A tar archive of the entries, whose times are `epoch`. `owner` returns the owner of an entry.
pub(crate) fn archive(
    entries: &[Entry],
    epoch: u64,
    owner: impl Fn(&Entry) -> Owner,
) -> Result<Vec<u8>, String> {
    let mut builder = Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_gnu();
        let owner = owner(entry);
        header.set_mode(entry.mode);
        header.set_uid(owner.id);
        header.set_gid(owner.id);
        header.set_mtime(epoch);
        let named = header.set_username(owner.name).and_then(|()| header.set_groupname(owner.name));
        let slash = match entry.content {
            Content::Directory => {
                header.set_entry_type(EntryType::Directory);
                "/"
            }
            Content::Link(ref target) => {
                let named = header.set_username(owner.name).and_then(|()| header.set_groupname(owner.name));
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                named
                    .and_then(|()| builder.append_link(&mut header, &entry.path, target))
                    .map_err(|error| format!("{}: {error}", entry.path))?;
                continue;
            }
            Content::File(_) => {
                header.set_entry_type(EntryType::Regular);
                ""
            }
        };
        header.set_size(entry.bytes().len() as u64);
        let path = format!("{}{slash}", entry.path);
        named
            .and_then(|()| builder.append_data(&mut header, &path, entry.bytes()))
            .map_err(|error| format!("{path}: {error}"))?;
    }
    builder.into_inner().map_err(|error| format!("archive: {error}"))
}
