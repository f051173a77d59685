//! Listings of directories: a page for people, JSON for programs.

use std::cmp::Ordering;
use std::ffi::CStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicUsize};

use bytes::Bytes;
use httpdate::HttpDate;
use maud::{Markup, html};
use percent_encoding::percent_encode;
use rustix::fs::{AtFlags, Dir, FileType};
use serde::Serialize;

use crate::request::Head;
use crate::root::{DiskWait, Opened};
use crate::site::{Found, Site};
use crate::target::PATH;
use crate::{condition, page};

/// Maximum number of names in a listing.
pub(crate) const NAMES_MAX: usize = 20_000;

/// Maximum bytes of listings that clients have not received yet, for all clients together.
pub(crate) const LISTINGS_BYTES_MAX: usize = 64 << 20;

/// Memory of all listings that are being generated or sent; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ListingBudget {
    used: Arc<AtomicUsize>,
    most: usize,
}

impl ListingBudget {
    /// A budget of this number of bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { used: Arc::default(), most }
    }

    /// A part of the budget, empty at first.
    fn part(&self) -> BudgetPart {
        BudgetPart { budget: self.clone(), bytes: 0 }
    }
}

/// Bytes of one listing, counted before they are allocated and until they are dropped.
#[derive(Debug)]
struct BudgetPart {
    budget: ListingBudget,
    bytes: usize,
}

impl BudgetPart {
    /// Counts further bytes.
    ///
    /// # Errors
    /// There is no room for them.
    fn add(&mut self, bytes: usize) -> Result<(), ListingFault> {
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.budget.most);
        let taken = self.budget.used.fetch_update(atomic::Ordering::Relaxed, atomic::Ordering::Relaxed, fits);
        taken.map_err(|_| ListingFault::NoRoom)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Releases all but the memory of a finished listing, which counts until its bytes are dropped.
    ///
    /// # Errors
    /// The listing is larger than the counted bytes, and there is no room for the rest.
    fn hold(mut self, listing: Vec<u8>) -> Result<Bytes, ListingFault> {
        self.add(listing.capacity().saturating_sub(self.bytes))?;
        self.budget.used.fetch_sub(self.bytes - listing.capacity(), atomic::Ordering::Relaxed);
        self.bytes = listing.capacity();
        Ok(Bytes::from_owner(HeldListing { listing, _part: self }))
    }
}

impl Drop for BudgetPart {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, atomic::Ordering::Relaxed);
    }
}

/// A listing, with its part of the memory budget.
struct HeldListing {
    listing: Vec<u8>,
    _part: BudgetPart,
}

impl AsRef<[u8]> for HeldListing {
    fn as_ref(&self) -> &[u8] {
        &self.listing
    }
}

/// The reason why there is no listing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListingFault {
    /// The directory cannot be read.
    #[error("cannot read the directory: {0}")]
    Read(#[from] io::Error),
    /// Too many listings are made, or have still to be received.
    #[error("listings that clients have not received yet use all of their memory limit")]
    NoRoom,
}

/// The form of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Html,
    Json,
}

impl Form {
    /// JSON if the Accept field names it, otherwise a page.
    pub(crate) fn wanted(head: &Head<'_, '_>) -> Self {
        if head.accepts(b"application/json") { Self::Json } else { Self::Html }
    }

    pub(crate) fn media(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

/// The order of the lines among directories, and among files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    column: Column,
    descending: bool,
}

/// A column of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    Size,
    Time,
}

impl Column {
    /// The columns with their names in a query, and their headings.
    const ALL: [(Self, &'static str, &'static str); 3] =
        [(Self::Name, "name", "Name"), (Self::Size, "size", "Size"), (Self::Time, "time", "Modified (UTC)")];
}

impl Order {
    /// The default order: ascending by name.
    const USUAL: Self = Self { column: Column::Name, descending: false };

    /// The order of a query: `sort=COLUMN`, with a minus sign before the column for descending
    /// order. Any other query does not change the usual order.
    pub(crate) fn wanted(query: Option<&[u8]>) -> Self {
        let mut members = query.unwrap_or_default().split(|byte| *byte == b'&');
        let Some(name) = members.find_map(|member| member.strip_prefix(b"sort=")) else { return Self::USUAL };
        let (descending, name) = name.strip_prefix(b"-").map_or((false, name), |name| (true, name));
        let named = Column::ALL.into_iter().find(|(_, known, _)| known.as_bytes() == name);
        named.map_or(Self::USUAL, |(column, ..)| Self { column, descending })
    }

    /// The order that the heading of a column leads to: names from the first, sizes and times from
    /// the largest, and the reverse for the column that is in force.
    fn after(self, column: Column) -> Self {
        let is_same = self.column == column;
        Self { column, descending: if is_same { !self.descending } else { column != Column::Name } }
    }

    fn compare(self, one: &Line, other: &Line) -> Ordering {
        let ascending = match self.column {
            Column::Name => one.name.cmp(&other.name),
            Column::Size => one.size.cmp(&other.size),
            Column::Time => one.modified.cmp(&other.modified),
        };
        let wanted = if self.descending { ascending.reverse() } else { ascending };
        one.kind.cmp(&other.kind).then(wanted).then_with(|| one.name.cmp(&other.name))
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
    /// Modification time in the form of HTTP dates.
    mtime: String,
    /// Modification time in seconds since 1970.
    #[serde(skip)]
    modified: i64,
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

/// Memory of a line in addition to its texts: its element in a growing vector, which for a short
/// time has an old and a new allocation; the new one may be half empty.
const LINE_BYTES: usize = 3 * size_of::<Line>();

/// Maximum number of bytes of markup, or of names of fields, around the texts of a line.
const MARKUP_BYTES: usize = 192;

impl Line {
    /// Bytes of the line itself.
    fn bytes(&self) -> usize {
        LINE_BYTES + self.name.capacity() + self.mtime.capacity() + self.link.capacity()
    }

    /// Maximum number of bytes that the line takes in a listing of either form.
    fn rendered_bytes_max(&self) -> usize {
        MARKUP_BYTES + escaped_bytes_max(&self.name) + escaped_bytes_max(&self.link)
    }
}

/// Maximum number of bytes of a text in HTML or JSON, where an escaped character has at most six
/// bytes.
fn escaped_bytes_max(text: &str) -> usize {
    let is_escaped = |byte: &u8| byte.is_ascii_control() || b"&<>\"'\\".contains(byte);
    text.len() + 5 * text.bytes().filter(is_escaped).count()
}

/// A wanted listing of a directory.
#[derive(Debug)]
pub(crate) struct ListingTask {
    pub(crate) opened: Opened,
    pub(crate) host: Option<String>,
    /// The path of the directory in its root.
    pub(crate) path: Vec<u8>,
    pub(crate) form: Form,
    pub(crate) order: Order,
    pub(crate) budget: ListingBudget,
}

impl ListingTask {
    /// Lists the open directory: directories first, then files, each in the wanted order. Counts
    /// memory against the budget before allocating it. Waits for the disk.
    ///
    /// # Errors
    /// The directory cannot be read, or the budget has no room.
    pub(crate) fn run(self, site: &Site) -> Result<Bytes, ListingFault> {
        let mut part = self.budget.part();
        let (lines, is_cut) = self.lines(site, &mut part)?;
        let path = String::from_utf8_lossy(&self.path);
        let bytes = lines.iter().map(Line::rendered_bytes_max).sum::<usize>();
        let bytes = bytes + page::FRAME_BYTES + 2 * escaped_bytes_max(&path);
        part.add(bytes)?;
        let mut listing = Vec::with_capacity(bytes);
        match self.form {
            Form::Json => serde_json::to_writer(&mut listing, &lines).map_err(io::Error::from)?,
            Form::Html => write_page(&mut listing, &frame(&path, self.order, is_cut), &lines),
        }
        debug_assert!(listing.capacity() == bytes, "{} bytes instead of {bytes}", listing.len());
        drop(lines);
        listing.shrink_to_fit();
        part.hold(listing)
    }

    fn lines(&self, site: &Site, part: &mut BudgetPart) -> Result<(Vec<Line>, bool), ListingFault> {
        let (mut lines, mut is_cut) = (Vec::new(), false);
        for name in Dir::read_from(&self.opened.file).map_err(io::Error::from)? {
            let name = name.map_err(io::Error::from)?;
            let bytes = name.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") || (bytes[0] == b'.' && !site.options().hidden) {
                continue;
            }
            if lines.len() == NAMES_MAX {
                is_cut = true;
                break;
            }
            // A file that was removed in the meantime is omitted.
            if let Some(line) = self.line(site, name.file_name()) {
                part.add(line.bytes())?;
                lines.push(line);
            }
        }
        lines.sort_by(|one, other| self.order.compare(one, other));
        Ok((lines, is_cut))
    }

    /// The line of a name; none if it is not listed.
    fn line(&self, site: &Site, name: &CStr) -> Option<Line> {
        let bytes = name.to_bytes();
        let stat = rustix::fs::statat(&self.opened.file, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let (kind, size, modified) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (Kind::File, stat.st_size.cast_unsigned(), stat.st_mtime),
            FileType::Directory => (Kind::Directory, 0, stat.st_mtime),
            FileType::Symlink => behind_link(site, self.host.as_deref(), (&self.path, bytes), stat.st_mtime)?,
            _ => return None,
        };
        let slash = if kind == Kind::Directory { "/" } else { "" };
        Some(Line {
            name: String::from_utf8_lossy(bytes).into_owned(),
            kind,
            size: (kind == Kind::File).then_some(size),
            modified,
            mtime: HttpDate::from(condition::writable_time(modified)).to_string(),
            // "./" keeps a name with a colon from being taken for a scheme.
            link: format!("./{}{slash}", percent_encode(bytes, PATH)),
        })
    }
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

/// Writes a page line by line, so that it needs no memory besides its own.
fn write_page(page: &mut Vec<u8>, frame: &Markup, lines: &[Line]) {
    let (before, after) = frame.0.split_once(PLACE_OF_LINES).expect("the frame has a place for lines");
    page.extend_from_slice(before.as_bytes());
    for line in lines {
        page.extend_from_slice(row(line).into_string().as_bytes());
    }
    page.extend_from_slice(after.as_bytes());
}

/// Marks the position of the lines in a frame. No path contains this character.
const PLACE_OF_LINES: char = '\0';

fn frame(path: &str, order: Order, is_cut: bool) -> Markup {
    let content = html! {
        table {
            thead { tr { @for (column, name, heading) in Column::ALL { (head(order, column, (name, heading))) } } }
            tbody {
                @if !path.is_empty() {
                    tr { td { a href="../" { "../" } } td {} td {} }
                }
                (PLACE_OF_LINES)
            }
        }
        @if is_cut {
            p { "There are more names; the first " (NAMES_MAX) " are listed." }
        }
    };
    page::page(&format!("/{path}"), &content)
}

/// The heading of a column: a link to the order by it.
fn head(order: Order, column: Column, (name, heading): (&str, &str)) -> Markup {
    let sign = if order.after(column).descending { "-" } else { "" };
    let sorted =
        (order.column == column).then_some(if order.descending { "descending" } else { "ascending" });
    html! {
        th scope="col" aria-sort=[sorted] { a href={ "?sort=" (sign) (name) } { (heading) } }
    }
}

fn row(line: &Line) -> Markup {
    html! {
        tr {
            td { a href=(line.link) { (line.name) @if line.kind == Kind::Directory { "/" } } }
            @match line.size {
                Some(size) => td title={ (size) " bytes" } { (page::size(size)) },
                None => td {},
            }
            td title=(line.mtime) { (page::time(line.modified)) }
        }
    }
}

#[cfg(test)]
mod tests;
