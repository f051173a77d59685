//! Listings of directories: a page for people, JSON for programs.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use httpdate::HttpDate;
use maud::{DOCTYPE, Markup, html};
use percent_encoding::percent_encode;
use rustix::fs::{AtFlags, Dir, FileType};
use serde::Serialize;

use crate::condition;
use crate::request::{Head, members};
use crate::root::{DiskWait, Opened};
use crate::site::{Found, Site};
use crate::target::PATH;

/// A directory with more names than this is listed up to so many.
pub(crate) const NAMES_MAX: usize = 20_000;

/// Bytes of listings that all clients together may have still to receive.
pub(crate) const LISTINGS_BYTES_MAX: usize = 64 << 20;

/// Memory of listings under way to clients, in total; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ListingBudget {
    used: Arc<AtomicUsize>,
    most: usize,
}

impl ListingBudget {
    /// A budget of so many bytes.
    pub(crate) fn new(most: usize) -> ListingBudget {
        ListingBudget { used: Arc::default(), most }
    }

    /// Counts a listing until its bytes are gone.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn hold(&self, listing: Vec<u8>) -> Result<Bytes, ListingFault> {
        let bytes = listing.capacity();
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.most);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.map_err(|_| ListingFault::NoRoom)?;
        Ok(Bytes::from_owner(HeldListing { listing, used: self.used.clone() }))
    }
}

/// A listing that counts.
struct HeldListing {
    listing: Vec<u8>,
    used: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for HeldListing {
    fn as_ref(&self) -> &[u8] {
        &self.listing
    }
}

impl Drop for HeldListing {
    fn drop(&mut self) {
        self.used.fetch_sub(self.listing.capacity(), Ordering::Relaxed);
    }
}

/// The reason why there is no listing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListingFault {
    /// The directory cannot be read.
    #[error("cannot read the directory: {0}")]
    Read(#[from] io::Error),
    /// Clients have too many listings still to receive.
    #[error("listings that clients have still to receive take all memory that they may")]
    NoRoom,
}

/// The form of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Html,
    Json,
}

impl Form {
    /// JSON for those who name it in Accept, a page for all others.
    pub(crate) fn wanted(head: &Head<'_, '_>) -> Form {
        let mut accepted = head.all("accept").flat_map(members);
        let names_json = |member: &[u8]| {
            let media = member.split(|byte| *byte == b';').next().unwrap_or_default();
            media.trim_ascii().eq_ignore_ascii_case(b"application/json")
        };
        if accepted.any(names_json) { Form::Json } else { Form::Html }
    }

    pub(crate) fn media(self) -> &'static str {
        match self {
            Form::Html => "text/html; charset=utf-8",
            Form::Json => "application/json",
        }
    }
}

/// One name of a directory.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Line {
    name: String,
    #[serde(rename = "type")]
    kind: Kind,
    /// Bytes of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// As HTTP writes dates.
    mtime: String,
    /// The name as a link has it.
    #[serde(skip)]
    link: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Directory,
    File,
}

/// Lists an open directory: directories first, then files, each by name. Waits for the disk.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn render(
    site: &Site,
    host: Option<&str>,
    (opened, path): (Opened, &[u8]),
    form: Form,
) -> io::Result<Vec<u8>> {
    let (lines, is_cut) = lines(site, host, (opened.file, path))?;
    let mut listing = match form {
        Form::Json => serde_json::to_vec(&lines)?,
        Form::Html => page(path, &lines, is_cut).into_string().into_bytes(),
    };
    listing.shrink_to_fit();
    Ok(listing)
}

fn lines(site: &Site, host: Option<&str>, (directory, path): (File, &[u8])) -> io::Result<(Vec<Line>, bool)> {
    let (mut lines, mut is_cut) = (Vec::new(), false);
    for name in Dir::read_from(&directory)? {
        let name = name?;
        let bytes = name.file_name().to_bytes();
        if matches!(bytes, b"." | b"..") || (bytes[0] == b'.' && !site.options().hidden) {
            continue;
        }
        if lines.len() == NAMES_MAX {
            is_cut = true;
            break;
        }
        // One that has gone meanwhile is not listed.
        let Ok(stat) = rustix::fs::statat(&directory, name.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let seen = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some((Kind::File, stat.st_size.cast_unsigned(), stat.st_mtime)),
            FileType::Directory => Some((Kind::Directory, 0, stat.st_mtime)),
            FileType::Symlink => behind_link(site, host, (path, bytes), stat.st_mtime),
            _ => None,
        };
        let Some((kind, size, modified)) = seen else { continue };
        let slash = if kind == Kind::Directory { "/" } else { "" };
        lines.push(Line {
            name: String::from_utf8_lossy(bytes).into_owned(),
            kind,
            size: (kind == Kind::File).then_some(size),
            mtime: HttpDate::from(condition::writable_time(modified)).to_string(),
            // "./" keeps a name with a colon from being taken for a scheme.
            link: format!("./{}{slash}", percent_encode(bytes, PATH)),
        });
    }
    lines.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
    Ok((lines, is_cut))
}

/// The file that a link leads to, if it may be followed; `own` is the link's own time.
fn behind_link(
    site: &Site,
    host: Option<&str>,
    (path, name): (&[u8], &[u8]),
    own: i64,
) -> Option<(Kind, u64, i64)> {
    let separator = if path.is_empty() { &b""[..] } else { b"/" };
    let path = [path, separator, name].concat();
    match site.find(host, (&path, false), DiskWait::Unlimited).ok()? {
        Found::File(file) => {
            Some((Kind::File, file.plain.file_version.len, file.plain.file_version.modified.0))
        }
        Found::Redirect => Some((Kind::Directory, 0, own)),
        _ => None,
    }
}

fn page(path: &[u8], lines: &[Line], is_cut: bool) -> Markup {
    let title = format!("/{}", String::from_utf8_lossy(path));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { "body{font-family:sans-serif;margin:2em}td{padding:.1em 1em .1em 0}td+td{text-align:right}" }
            }
            body {
                h1 { (title) }
                table {
                    @if !path.is_empty() {
                        tr { td { a href="../" { "../" } } td {} td {} }
                    }
                    @for line in lines {
                        tr {
                            td { a href=(line.link) { (line.name) @if line.kind == Kind::Directory { "/" } } }
                            td { @if let Some(size) = line.size { (size) } }
                            td { (line.mtime) }
                        }
                    }
                }
                @if is_cut {
                    p { "There are more names; the first " (NAMES_MAX) " are listed." }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
