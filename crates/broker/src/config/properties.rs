//! The `.properties` syntax: comments, continuation lines, separators and escapes as Java reads
//! them.

/// One `key = value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The line the entry starts on, from 1.
    pub line: usize,
    /// The settings.
    pub key: String,
    /// To what.
    pub value: String,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line the entry starts on, from 1.
    pub line: usize,
    /// The reason.
    pub reason: &'static str,
}

/// The entries of a file in order.
///
/// # Errors
/// A line cannot be read.
pub fn parse(text: &str) -> Result<Vec<Property>, SyntaxError> {
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

/// An odd number of backslashes at the end continues the line; an even number is escaped
/// backslashes.
fn ends_with_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first unescaped `=`, `:` or blank; blanks around one `=` or `:` belong to
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

fn unicode(chars: &mut std::str::Chars<'_>) -> Result<char, &'static str> {
    const REASON: &str = "\\u must be followed by four hexadecimal digits of a character";
    let digits = chars.as_str().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let digits = digits.ok_or(REASON)?;
    *chars = chars.as_str()[4..].chars();
    u32::from_str_radix(digits, 16).ok().and_then(char::from_u32).ok_or(REASON)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}
