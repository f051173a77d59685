//! Range requests (RFC 9110, 14): the requested bytes of a file.

/// More ranges than this in one request are not served: the whole file is.
pub const RANGES_MAX: usize = 16;

/// Bytes from `start` up to but not including `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl Span {
    /// Length of the range, bytes.
    #[must_use]
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// True if the range has no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end == self.start
    }
}

/// Result of a Range field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The whole file: the field is malformed, of another unit, or covers more than the file, or
    /// the file is empty.
    Whole,
    /// A single range, never empty.
    One(Span),
    /// Several, in the order of the request, none of them empty.
    Many(Vec<Span>),
    /// No range is in the file.
    Unsatisfiable,
}

/// Reads a Range field for a file of `len` bytes.
///
/// Ranges that overlap so far that they are longer than the file together are not served, nor more
/// than [`RANGES_MAX`]: the response is the whole file once.
#[must_use]
pub fn resolve(field: &[u8], len: u64) -> Ranges {
    let Some(list) = list(field) else { return Ranges::Whole };
    let mut spans = [None; RANGES_MAX];
    let (mut asked, mut count) = (0, 0);
    for spec in list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        // An empty member of a list is ignored.
        if spec.is_empty() {
            continue;
        }
        asked += 1;
        if asked > RANGES_MAX {
            return Ranges::Whole;
        }
        match one(spec, len) {
            RequestedRange::Malformed | RequestedRange::Empty => return Ranges::Whole,
            RequestedRange::Beyond => {}
            RequestedRange::Within(span) => {
                spans[count] = Some(span);
                count += 1;
            }
        }
    }
    let spans = || spans.iter().take(count).flatten().copied();
    match count {
        _ if asked == 0 => Ranges::Whole,
        0 => Ranges::Unsatisfiable,
        1 => spans().next().map_or(Ranges::Whole, Ranges::One),
        _ if spans().map(|span| u128::from(span.len())).sum::<u128>() > u128::from(len) => Ranges::Whole,
        _ => Ranges::Many(spans().collect()),
    }
}

/// Part after `bytes=`.
fn list(field: &[u8]) -> Option<&[u8]> {
    const UNIT: &[u8] = b"bytes=";
    let (unit, list) = field.split_at_checked(UNIT.len())?;
    unit.eq_ignore_ascii_case(UNIT).then_some(list)
}

enum RequestedRange {
    Malformed,
    Beyond,
    /// The start of an empty file, which no Content-Range can express.
    Empty,
    Within(Span),
}

fn one(spec: &[u8], len: u64) -> RequestedRange {
    let Some(dash) = memchr::memchr(b'-', spec) else { return RequestedRange::Malformed };
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    let within = |start: u64, end: u64| {
        if start < end {
            RequestedRange::Within(Span { start, end })
        } else if len == 0 && start == 0 {
            RequestedRange::Empty
        } else {
            RequestedRange::Beyond
        }
    };
    match (number(first), number(last)) {
        (Number::None, Number::Is(suffix)) => within(len.saturating_sub(suffix), len),
        (Number::Is(start), Number::None) => within(start, len),
        (Number::Is(start), Number::Is(end)) if start <= end => within(start, len.min(end.saturating_add(1))),
        _ => RequestedRange::Malformed,
    }
}

enum Number {
    None,
    Is(u64),
    Malformed,
}

/// A number; a number that is too large becomes the maximum.
fn number(digits: &[u8]) -> Number {
    if digits.is_empty() {
        return Number::None;
    }
    digits.iter().fold(Number::Is(0), |sum, digit| match (sum, digit) {
        (Number::Is(sum), b'0'..=b'9') => {
            Number::Is(sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
        }
        _ => Number::Malformed,
    })
}

#[cfg(test)]
mod tests;
