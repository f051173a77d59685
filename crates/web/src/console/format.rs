//! Values as people read them: sizes, counts, times, durations, and bytes of records.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde::de::IgnoredAny;

/// Characters of a name that a link contains unescaped.
const IN_LINK: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a name for use in a link.
pub(super) fn linked(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, IN_LINK).to_string()
}

/// Bytes with a binary unit.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 10.0 => format!("{value:.2} {}", UNITS[unit]),
        _ if value < 100.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// A count with its digits in groups of three.
pub(super) fn count(value: impl Into<i128>) -> String {
    let value = value.into();
    let digits = value.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value < 0 {
        text.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun, which forms its plural with an s.
pub(super) fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number as i128), if number == 1 { "" } else { "s" })
}

/// A time in milliseconds since 1970, in UTC.
pub(super) fn time(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) if ms >= 0 => time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        _ => "none".to_owned(),
    }
}

/// A time in UTC as `<input type="datetime-local">` sends it, in milliseconds since 1970.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let civil: jiff::civil::DateTime = text.trim().parse().ok()?;
    Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

/// A duration in its two largest units, without a second one that is zero.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (units, parts) = match seconds {
        0 => return format!("{} ms", duration.as_millis()),
        1..60 => return format!("{seconds} s"),
        60..3600 => (["min", "s"], [seconds / 60, seconds % 60]),
        3600..86_400 => (["h", "min"], [seconds / 3600, seconds % 3600 / 60]),
        _ => (["d", "h"], [seconds / 86_400, seconds % 86_400 / 3600]),
    };
    match parts {
        [first, 0] => format!("{first} {}", units[0]),
        [first, second] => format!("{first} {} {second} {}", units[0], units[1]),
    }
}

/// A duration in milliseconds, which may be unknown.
pub(super) fn millis(ms: i64) -> String {
    match u64::try_from(ms) {
        Ok(ms) => duration(Duration::from_millis(ms)),
        Err(_) => "—".to_owned(),
    }
}

/// Bytes of a record in the form that shows most of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Shown {
    /// `json`, `text` or `hex`.
    pub(super) form: &'static str,
    pub(super) text: String,
    /// Bytes that are not shown.
    pub(super) left_out: usize,
}

/// JSON that its indents make longer than this many times is shown as text: deep nesting of short
/// values.
const INDENTED: usize = 8;

/// Shows at most this number of bytes: JSON with indents, other text unchanged, anything else as
/// hexadecimal digits.
pub(super) fn shown(bytes: &[u8], most: usize) -> Shown {
    let cut = &bytes[..bytes.len().min(most)];
    let left_out = bytes.len() - cut.len();
    let text = match std::str::from_utf8(cut) {
        Ok(text) => Some(text),
        // The cut may go through a character.
        Err(error) if left_out > 0 && error.valid_up_to() + 4 > cut.len() => {
            std::str::from_utf8(&cut[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    let printable = |text: &&str| !text.chars().any(|one| one.is_control() && !"\n\r\t".contains(one));
    match text.filter(printable) {
        Some(text) => match (left_out == 0).then(|| indented(text)).flatten() {
            Some(json) => Shown { form: "json", text: json, left_out },
            None => Shown { form: "text", text: text.to_owned(), left_out: bytes.len() - text.len() },
        },
        None => hex(bytes, most / 4),
    }
}

/// JSON with indents; none for text that is not an object or array, or that becomes too long.
///
/// Only the space between the tokens changes: a parsed value would lose digits of its numbers, the
/// order of its fields, and repeated fields.
fn indented(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let mut json = String::with_capacity(2 * text.len());
    let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    // True if the next token begins a line: after an opening bracket or a comma.
    let mut is_opened = false;
    for letter in text.chars() {
        if is_quoted {
            json.push(letter);
            is_quoted = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
            continue;
        }
        let is_end = matches!(letter, '}' | ']');
        if letter.is_ascii_whitespace() {
            continue;
        }
        depth = depth.saturating_sub(usize::from(is_end));
        if is_opened != is_end {
            json.push('\n');
            json.extend(std::iter::repeat_n("  ", depth));
        }
        json.push(letter);
        is_opened = matches!(letter, '{' | '[' | ',');
        depth += usize::from(matches!(letter, '{' | '['));
        match letter {
            ':' => json.push(' '),
            '"' => is_quoted = true,
            _ => {}
        }
        if json.len() > INDENTED * text.len() {
            return None;
        }
    }
    Some(json)
}

/// Sixteen bytes a line: their position, their digits, and their ASCII characters.
fn hex(bytes: &[u8], most: usize) -> Shown {
    let cut = &bytes[..bytes.len().min(most)];
    let mut text = String::with_capacity(cut.len() * 5);
    for (line, chunk) in cut.chunks(16).enumerate() {
        let mut digits = String::with_capacity(48);
        for byte in chunk {
            let _ = write!(digits, "{byte:02x} ");
        }
        let letters: String = chunk
            .iter()
            .map(|byte| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' })
            .collect();
        let _ = writeln!(text, "{:06x}  {digits:<48} {letters}", line * 16);
    }
    Shown { form: "hex", text, left_out: bytes.len() - cut.len() }
}

#[cfg(test)]
mod tests;
