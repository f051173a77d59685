//! Backslash escapes: of formats and separators, and of text that is no plain text.

use std::borrow::Cow;

pub use levada_base::is_steering;

/// The byte of an escape; `rest` begins after the backslash and is moved past the escape.
pub fn escape(rest: &mut &[u8]) -> Result<u8, String> {
    let (letter, after) = rest.split_first().ok_or("a lone \\ at the end; \\\\ is a backslash")?;
    *rest = after;
    match letter {
        b'n' => Ok(b'\n'),
        b't' => Ok(b'\t'),
        b'r' => Ok(b'\r'),
        b'0' => Ok(0),
        b'\\' => Ok(b'\\'),
        b'x' => {
            let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *rest = rest.get(2..).unwrap_or_default();
            byte.ok_or_else(|| "\\x must be followed by two hexadecimal digits".to_owned())
        }
        other => Err(format!(
            "unknown escape \\{}; the escapes are \\n \\t \\r \\0 \\\\ \\xNN",
            other.escape_ascii()
        )),
    }
}

/// A text with its escapes replaced.
pub fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(if *byte == b'\\' { escape(&mut rest)? } else { *byte });
    }
    Ok(bytes)
}

/// Bytes as readable text on one line, with characters that steer a terminal and invalid UTF-8
/// escaped.
pub fn printable(bytes: &[u8]) -> String {
    escaped(bytes, &[])
}

/// Like [`printable`], but ends of lines and tabs stay, which are harmless on a terminal.
pub fn shown_on_terminal(bytes: &[u8]) -> String {
    escaped(bytes, &['\n', '\t'])
}

fn escaped(bytes: &[u8], kept: &[char]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                c if kept.contains(&c) => text.push(c),
                '\n' | '\r' | '\t' => text.extend(c.escape_default()),
                c if c.is_ascii_control() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
                c if is_steering(c) => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Text in JSON, whose own rules allow characters that steer a terminal, with these escaped as JSON
/// has it. Ends of lines, which are outside of JSON's texts, stay.
pub fn quiet_json(text: &str) -> Cow<'_, str> {
    let steers = |one: char| one != '\n' && is_steering(one);
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        if steers(one) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(one)));
        } else {
            escaped.push(one);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::{printable, quiet_json, shown_on_terminal};

    #[test]
    fn non_text_bytes_are_escaped() {
        assert_eq!(printable("a é\n\t\0\u{85}".as_bytes()), "a é\\n\\t\\x00\\u{85}");
        assert_eq!(printable(b"\xffa"), "\\xffa");
    }

    #[test]
    fn terminal_controls_are_escaped() {
        let hostile = "a\n\tb\u{1b}[2J\u{9b}m\u{202e}c";
        assert_eq!(shown_on_terminal(hostile.as_bytes()), "a\n\tb\\x1b[2J\\u{9b}m\\u{202e}c");
        assert_eq!(printable(hostile.as_bytes()), "a\\n\\tb\\x1b[2J\\u{9b}m\\u{202e}c");
        let json = serde_json::to_string(hostile).unwrap();
        let quiet = quiet_json(&json);
        assert_eq!(quiet, "\"a\\n\\tb\\u001b[2J\\u009bm\\u202ec\"");
        assert_eq!(serde_json::from_str::<String>(&quiet).unwrap(), hostile);
        assert_eq!(quiet_json("{\n  \"é\"\n}"), "{\n  \"é\"\n}");
    }
}
