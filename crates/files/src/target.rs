//! Request targets: split, decoded once, and normalised into the form that is opened, cached and
//! compared.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

use crate::request::Refusal;

/// Characters that are not escaped in the path of a URL.
pub(crate) const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A target, as far as its form shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A path that begins with a slash, and the authority of an absolute target.
    Path {
        /// Path as received, without the query.
        path: &'a [u8],
        /// Query, without the question mark.
        query: Option<&'a [u8]>,
        /// Host of an absolute target; it overrides the header field Host.
        authority: Option<&'a [u8]>,
    },
    /// The whole server, for OPTIONS.
    Server,
}

/// Splits a target into its parts.
///
/// # Errors
/// A form that no file can have.
pub fn split(target: &[u8]) -> Result<Target<'_>, Refusal> {
    if target == b"*" {
        return Ok(Target::Server);
    }
    if memchr::memchr(b'#', target).is_some() {
        return Err(Refusal::bad("a target has no fragment"));
    }
    let (authority, rest) = match target.first() {
        Some(b'/') => (None, target),
        _ => absolute(target)?,
    };
    let (path, query) = match memchr::memchr(b'?', rest) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let path = if path.is_empty() { &b"/"[..] } else { path };
    Ok(Target::Path { path, query, authority })
}

fn absolute(target: &[u8]) -> Result<(Option<&[u8]>, &[u8]), Refusal> {
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let Some(scheme) = scheme else { return Err(Refusal::bad("the target is neither a path nor a URL")) };
    let rest = &target[scheme.len()..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    if end == 0 {
        return Err(Refusal::bad("the URL has no host"));
    }
    Ok((Some(&rest[..end]), &rest[end..]))
}

/// A path in its canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// True if it ended with a slash, and so refers to a directory.
    pub directory: bool,
    /// True if a segment begins with a dot, `.well-known` at the front excepted.
    pub hidden: bool,
}

/// Appends the decoded path to `out`, without slashes at its ends or twice in a row: empty for the
/// root.
///
/// # Errors
/// An escape that is none, an escaped slash or NUL, and segments that lead upwards.
pub fn normalise(path: &[u8], out: &mut Vec<u8>) -> Result<Shape, Refusal> {
    let start = out.len();
    let mut shape = Shape { directory: true, hidden: false };
    for segment in path.split(|byte| *byte == b'/') {
        let before = out.len();
        if before > start && !segment.is_empty() {
            out.push(b'/');
        }
        let first = out.len();
        decode(segment, out)?;
        shape.directory = false;
        match &out[first..] {
            b"" | b"." => {
                out.truncate(before);
                shape.directory = true;
            }
            b".." => return Err(Refusal::bad("the path leads upwards")),
            [b'.', ..] => shape.hidden |= first > start || &out[first..] != b".well-known",
            _ => {}
        }
    }
    Ok(shape)
}

fn decode(segment: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let nul = || Refusal::bad("the path has a NUL");
    if memchr::memchr(0, segment).is_some() {
        return Err(nul());
    }
    let mut rest = segment;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let digits = rest.get(at + 1..at + 3).and_then(|two| Some((hex(two[0])?, hex(two[1])?)));
        let Some((high, low)) = digits else { return Err(Refusal::bad("the path has a broken escape")) };
        match high << 4 | low {
            0 => return Err(nul()),
            b'/' => return Err(Refusal::bad("the path has an escaped slash")),
            byte => out.push(byte),
        }
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Maximum number of bytes of a host name.
const HOST_BYTES_MAX: usize = 253;

/// The name in a Host field or an authority, in lower case and without port: the possible name of a
/// directory.
///
/// # Errors
/// The text is not a valid host.
pub fn host(authority: &[u8]) -> Result<Option<String>, Refusal> {
    let fault = || Refusal::bad("the host is malformed");
    if authority.is_empty() {
        return Ok(None);
    }
    if authority.first() == Some(&b'[') {
        let end = memchr::memchr(b']', authority).ok_or_else(fault)?;
        let (address, port) = (&authority[1..end], &authority[end + 1..]);
        let is_address = address.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
        return if is_address && is_port(port) { Ok(None) } else { Err(fault()) };
    }
    let end = memchr::memchr(b':', authority).unwrap_or(authority.len());
    let (name, port) = authority.split_at(end);
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.is_empty() || name.len() > HOST_BYTES_MAX || !name.iter().all(known) || !is_port(port) {
        return Err(fault());
    }
    let name = String::from_utf8_lossy(name).trim_end_matches('.').to_ascii_lowercase();
    Ok((!name.is_empty() && !name.starts_with('.')).then_some(name))
}

/// True if the text is valid in a Host field: empty, or a name or an address, with or without a
/// port. Names that no directory can have are included.
pub(crate) fn is_authority(authority: &[u8]) -> bool {
    if authority.first() == Some(&b'[') {
        return host(authority).is_ok();
    }
    let end = memchr::memchr(b':', authority).unwrap_or(authority.len());
    let (name, port) = authority.split_at(end);
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(byte);
    (authority.is_empty() || !name.is_empty()) && name.iter().all(known) && is_port(port)
}

fn is_port(port: &[u8]) -> bool {
    match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
