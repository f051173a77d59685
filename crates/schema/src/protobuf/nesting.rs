//! Depth of the brackets in a file, which is limited because the compiler recurses for each one.

/// Maximum number of brackets that may be open at the same time.
const OPEN_MAX: usize = 64;

/// Too many brackets are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {OPEN_MAX} brackets are open at byte {at}")]
pub(super) struct TooDeep {
    at: usize,
}

/// Checks the depth of the brackets outside of strings and comments.
pub(super) fn check(text: &str) -> Result<(), TooDeep> {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'') => at = after_string(bytes, at + 1, quote),
            b'/' if bytes.get(at + 1) == Some(&b'/') => at = after(bytes, at + 2, b"\n"),
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = after(bytes, at + 2, b"*/"),
            byte => {
                match byte {
                    b'{' | b'[' | b'(' | b'<' => open += 1,
                    b'}' | b']' | b')' | b'>' => open = open.saturating_sub(1),
                    _ => {}
                }
                if open > OPEN_MAX {
                    return Err(TooDeep { at });
                }
                at += 1;
            }
        }
    }
    Ok(())
}

/// The position after a string, which ends at its quote or at the end of the line.
fn after_string(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' => return at,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The position after the next `end`, or the end of the text.
fn after(bytes: &[u8], from: usize, end: &[u8]) -> usize {
    let found = bytes.get(from..).and_then(|rest| rest.windows(end.len()).position(|one| one == end));
    found.map_or(bytes.len(), |at| from + at + end.len())
}
