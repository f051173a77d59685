//! The small text files beside the metadata log: `quorum-state`, `leader-epoch-checkpoint` and
//! `partition.metadata`, each replaced as a whole.

use std::io;
use std::path::{Path, PathBuf};

use levada_log::disk::Disk;
use levada_wire::primitives::Uuid;
use serde_json::{Value, json};

use super::StoreError;
use crate::metadata::uuid;

const QUORUM_STATE: &str = "quorum-state";

/// The last epoch this node has led or seen. 0 if nothing is known: an empty file is what a crash of the machine
/// leaves of one that was never synced, and the log knows the epochs as well.
pub(super) fn read_quorum_epoch(disk: &dyn Disk, dir: &Path) -> Result<i32, StoreError> {
    let path = dir.join(QUORUM_STATE);
    let text = read_text(disk, &path)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(0);
    }
    let damaged = |detail: &str| StoreError::Damaged { path: path.clone(), detail: detail.to_owned() };
    let state: Value = serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
    let epoch = state.get("leaderEpoch").and_then(Value::as_i64).ok_or_else(|| damaged("no leaderEpoch"))?;
    i32::try_from(epoch).ok().filter(|epoch| *epoch >= 0).ok_or_else(|| damaged("leaderEpoch out of range"))
}

/// Says that `node_id` leads in `epoch`, and where each epoch begins; whole after any crash. With voters in the log
/// (`kraft_version` 1) the files do not repeat them.
pub(super) fn write_leadership(
    disk: &dyn Disk,
    dir: &Path,
    (node_id, epoch): (i32, i32),
    kraft_version: i16,
    epochs: &[(i32, i64)],
) -> Result<(), StoreError> {
    let state = (dir.join(QUORUM_STATE), quorum_state(node_id, epoch, kraft_version));
    let mut text = format!("0\n{}\n", epochs.len());
    for (epoch, start_offset) in epochs {
        text.push_str(&format!("{epoch} {start_offset}\n"));
    }
    let files = [state, (dir.join("leader-epoch-checkpoint"), text)];
    let temporaries = files.each_ref().map(|(path, _)| temporary(path));
    for ((path, text), temporary) in files.iter().zip(&temporaries) {
        let written = disk.write_file(temporary, text.as_bytes());
        written.map_err(|source| StoreError::io("replace", path, source))?;
    }
    // Renamed before its bytes are safe, a file may be empty after a crash, or half.
    sync_together(disk, &temporaries.each_ref().map(|path| Synced::File(path)))?;
    for ((path, _), temporary) in files.iter().zip(&temporaries) {
        disk.rename(temporary, path).map_err(|source| StoreError::io("replace", path, source))?;
    }
    Ok(())
}

fn quorum_state(node_id: i32, epoch: i32, kraft_version: i16) -> String {
    // Written by hand rather than from a map: Kafka's order of the fields.
    if kraft_version >= 1 {
        let nobody = uuid::text(Uuid::ZERO);
        return format!(
            "{{\"leaderId\":{node_id},\"leaderEpoch\":{epoch},\"votedId\":-1,\"votedDirectoryId\":\"{nobody}\",\
             \"data_version\":1}}"
        );
    }
    let voters = json!([{ "voterId": node_id }]);
    format!(
        "{{\"clusterId\":\"\",\"leaderId\":{node_id},\"leaderEpoch\":{epoch},\"votedId\":-1,\
         \"appliedOffset\":0,\"currentVoters\":{voters},\"data_version\":0}}"
    )
}

/// Writes the metadata log's topic id.
pub(super) fn write_partition_metadata(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    let text = format!("version: 0\ntopic_id: {}", uuid::text(uuid::METADATA_TOPIC_ID));
    write_file(disk, &dir.join("partition.metadata"), text.as_bytes(), Access::Writable)
}

/// Who may write a file once it is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Access {
    Writable,
    /// As Kafka leaves finished snapshots.
    ReadOnly,
}

/// Replaces a file: whoever looks sees either the old or the new contents, whole. It lasts when the kernel gets to it, or
/// the caller calls [`sync_together`].
pub(super) fn write_file(
    disk: &dyn Disk,
    path: &Path,
    contents: &[u8],
    access: Access,
) -> Result<(), StoreError> {
    let temporary = temporary(path);
    let write = || -> io::Result<()> {
        write_anew(disk, &temporary, contents)?;
        if access == Access::ReadOnly {
            disk.protect(&temporary)?;
        }
        disk.rename(&temporary, path)
    };
    write().map_err(|source| StoreError::io("replace", path, source))
}

/// Replaces a file in `dir` by one that nobody may write to; when this returns it is on the device, with its name.
pub(super) fn write_durably(
    disk: &dyn Disk,
    (dir, path): (&Path, &Path),
    contents: &[u8],
) -> Result<(), StoreError> {
    let temporary = temporary(path);
    let write = || -> io::Result<()> {
        write_anew(disk, &temporary, contents)?;
        disk.sync_file(&temporary)?;
        disk.protect(&temporary)?;
        disk.rename(&temporary, path)?;
        disk.sync_dir(dir)
    };
    write().map_err(|source| StoreError::io("replace", path, source))
}

fn write_anew(disk: &dyn Disk, temporary: &Path, contents: &[u8]) -> io::Result<()> {
    // A leftover of a crash may be read-only.
    match disk.remove(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    disk.write_file(temporary, contents)
}

fn temporary(path: &Path) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    temporary.into()
}

/// A file or a directory that is to last.
pub(super) enum Synced<'a> {
    File(&'a Path),
    Dir(&'a Path),
}

/// Makes files and directories last, all at once: a journaling file system then commits once instead of once for
/// each, which is most of the time that a first start takes.
pub(super) fn sync_together(disk: &dyn Disk, paths: &[Synced<'_>]) -> Result<(), StoreError> {
    let sync = |one: &Synced<'_>| match one {
        Synced::File(path) => disk.sync_file(path).map_err(|source| StoreError::io("sync", path, source)),
        Synced::Dir(path) => disk.sync_dir(path).map_err(|source| StoreError::io("sync", path, source)),
    };
    std::thread::scope(|scope| {
        let waiting: Vec<_> = paths.iter().map(|one| scope.spawn(move || sync(one))).collect();
        waiting
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn read_text(disk: &dyn Disk, path: &Path) -> Result<Option<String>, StoreError> {
    let text = disk.read_file(path).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    });
    match text {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::io("read", path, source)),
    }
}
