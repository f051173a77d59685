//! Backslash escapes: of formats and separators, and of text that is no plain text.

/// The byte of an escape; `rest` begins after the backslash and is moved past the escape.
pub(crate) fn escape(rest: &mut &[u8]) -> Result<u8, String> {
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
pub(crate) fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(if *byte == b'\\' { escape(&mut rest)? } else { *byte });
    }
    Ok(bytes)
}

/// Bytes as readable text, with control characters and invalid UTF-8 escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' | '\r' | '\t' => text.extend(c.escape_default()),
                c if c.is_ascii_control() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
                c if c.is_control() => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn bytes_are_escaped_where_they_are_no_text() {
        assert_eq!(printable("a é\n\t\0\u{85}".as_bytes()), "a é\\n\\t\\x00\\u{85}");
        assert_eq!(printable(b"\xffa"), "\\xffa");
    }
}
