//! Conditional requests (RFC 9110, 13): checks if the client already has the file, or expects
//! another version of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::request::Head;

/// Identity of a version of a file.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    /// A strong entity tag with its quotes.
    pub etag: &'a [u8],
    /// The last modification, in whole seconds; none if the file's time distinguishes no versions.
    pub modified: Option<SystemTime>,
}

/// The outcome of all conditions of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The request is processed as if it had no conditions.
    Proceed,
    /// 304: the client has this version.
    NotModified,
    /// 412: the client's conditions exclude this version.
    Failed,
}

/// Evaluates the conditions of a GET or HEAD request in the order of RFC 9110, 13.2.2.
#[must_use]
pub fn evaluate(head: &Head<'_, '_>, current: Validators<'_>) -> Verdict {
    if let Some(matched) = any_match(head, "if-match", current.etag, Comparison::Strong) {
        if !matched {
            return Verdict::Failed;
        }
    } else if let (Some(since), Some(modified)) =
        (head.if_unmodified_since().and_then(date), current.modified)
        && modified > since
    {
        return Verdict::Failed;
    }
    if let Some(matched) = any_match(head, "if-none-match", current.etag, Comparison::Weak) {
        return if matched { Verdict::NotModified } else { Verdict::Proceed };
    }
    // The date of this version and no later one: a file that was replaced by an older one has an
    // earlier date than the version that the client has.
    match head.if_modified_since().and_then(date) {
        Some(since) if current.modified == Some(since) => Verdict::NotModified,
        _ => Verdict::Proceed,
    }
}

/// True if a Range field applies: there is no If-Range, or it names this version. A date does so
/// only for a file that was not modified in the second before `now`, since another version of the
/// same second would have the same date.
#[must_use]
pub fn range_applies(if_range: Option<&[u8]>, current: Validators<'_>, now: SystemTime) -> bool {
    let Some(value) = if_range else { return true };
    if value.first() == Some(&b'"') {
        return value == current.etag;
    }
    let Some(modified) = current.modified else { return false };
    modified + Duration::from_secs(1) < now && date(value) == Some(modified)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// True if one of the tags of a field is the current one; nothing if there is no such field.
fn any_match(head: &Head<'_, '_>, name: &'static str, etag: &[u8], comparison: Comparison) -> Option<bool> {
    let mut values = head.all(name).peekable();
    values.peek()?;
    let same = |tag: &[u8]| match (tag, comparison) {
        (b"*", _) => true,
        (_, Comparison::Weak) => tag.strip_prefix(b"W/").unwrap_or(tag) == etag,
        (_, Comparison::Strong) => tag == etag,
    };
    Some(values.flat_map(tags).any(same))
}

/// The members of a list of tags: a comma between quotes is a part of a tag.
fn tags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let cut = list.split(move |byte| {
        quoted ^= *byte == b'"';
        *byte == b',' && !quoted
    });
    cut.map(<[u8]>::trim_ascii).filter(|tag| !tag.is_empty())
}

/// The last second that HTTP can write: its years have four digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// The time of this number of seconds since 1970, or the nearest that HTTP can express.
pub(crate) fn writable_time(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(LAST_SECOND))
}

fn date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()
}

#[cfg(test)]
mod tests;
