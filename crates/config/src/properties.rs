//! The `.properties` syntax: comments, line ends, continuation lines, separators and escapes as
//! Java reads them. Java reads every byte as a character of ISO 8859-1. Here, a file that is valid
//! UTF-8 is read as UTF-8, and a byte order mark of UTF-8 is no part of the first key.

use std::borrow::Cow;
use std::str::Chars;

/// One `key = value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The line the entry starts on, from 1.
    pub line: usize,
    /// Key of the setting.
    pub key: String,
    /// Value of the setting.
    pub value: String,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line the entry starts on, from 1.
    pub line: usize,
    /// Description of the fault.
    pub reason: &'static str,
}

/// The entries of a file in order.
///
/// # Errors
/// A line cannot be read.
pub fn parse(file: impl AsRef<[u8]>) -> Result<Vec<Property>, SyntaxError> {
    let text = decode(file.as_ref())?;
    let mut entries = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let first = first.trim_start_matches(is_blank);
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while ends_with_continuation(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start_matches(is_blank)),
                None => break,
            }
        }
        let line = index + 1;
        let (key, value) = split(&logical);
        let unescape = |part| unescape(part).map_err(|reason| SyntaxError { line, reason });
        entries.push(Property { line, key: unescape(key)?, value: unescape(value)? });
    }
    Ok(entries)
}

/// The text of a file, with the same line end everywhere.
fn decode(file: &[u8]) -> Result<Cow<'_, str>, SyntaxError> {
    if file.starts_with(b"\xff\xfe") || file.starts_with(b"\xfe\xff") {
        let reason = "the byte order mark of UTF-16: save the file as UTF-8";
        return Err(SyntaxError { line: 1, reason });
    }
    let file = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    let text = match std::str::from_utf8(file) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => file.iter().map(|byte| char::from(*byte)).collect(),
    };
    let has_returns = text.contains('\r');
    Ok(if has_returns { text.replace("\r\n", "\n").replace('\r', "\n").into() } else { text })
}

/// True if an odd number of backslashes ends the line, which continues it; an even number is
/// escaped backslashes.
fn ends_with_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Splits a line at the first unescaped `=`, `:` or blank; blanks around one `=` or `:` belong to
/// the separator.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line
        .char_indices()
        .find(|(_, c)| {
            let ends = !escaped && (*c == '=' || *c == ':' || is_blank(*c));
            escaped = !escaped && *c == '\\';
            ends
        })
        .map_or(line.len(), |(at, _)| at);
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(is_blank))
}

fn unescape(text: &str) -> Result<String, &'static str> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => plain.push(unicode(&mut chars)?),
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}

/// A character by its escapes: one, or two for a pair of surrogates.
fn unicode(chars: &mut Chars<'_>) -> Result<char, &'static str> {
    let first = code_unit(chars)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Ok(character);
    }
    let mut second = chars.as_str().strip_prefix("\\u").ok_or(ESCAPE)?.chars();
    let pair = [first, code_unit(&mut second)?];
    *chars = second;
    char::decode_utf16(pair).next().and_then(Result::ok).ok_or(ESCAPE)
}

fn code_unit(chars: &mut Chars<'_>) -> Result<u16, &'static str> {
    let digits = chars.as_str().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let digits = digits.ok_or(ESCAPE)?;
    *chars = chars.as_str()[4..].chars();
    u16::from_str_radix(digits, 16).map_err(|_| ESCAPE)
}

const ESCAPE: &str = "\\u must be followed by four hexadecimal digits of a character";

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}
