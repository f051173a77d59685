//! Precompressed variants of a file, and the selection by the client's preferences (RFC 9110,
//! 12.5.3).

use crate::request::{Head, members};

/// A content coding of a precompressed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Zstandard.
    Zstd,
    /// Brotli.
    Brotli,
    /// gzip.
    Gzip,
}

impl Encoding {
    /// All encodings, in the order of preference among encodings of equal weight for a client.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// The name in header fields.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The ending of the file's name.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::Zstd => ".zst",
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }
}

/// Chooses among the available encodings; none means the plain file, also if the client accepts
/// none of the available ones.
#[must_use]
pub fn choose(head: &Head<'_, '_>, there: impl Fn(Encoding) -> bool) -> Option<Encoding> {
    let wishes = || head.all("accept-encoding").flat_map(members).filter_map(wish);
    let weight = |name: &str| {
        let named = wishes().find(|(coding, _)| coding.eq_ignore_ascii_case(name.as_bytes()));
        let any = || wishes().find(|(coding, _)| *coding == b"*");
        named.or_else(any).map(|(_, weight)| weight)
    };
    let of = |encoding: Encoding| match encoding {
        Encoding::Gzip => weight("gzip").or_else(|| weight("x-gzip")).unwrap_or(0),
        other => weight(other.token()).unwrap_or(0),
    };
    // Without a word about it, the plain file is as good as any, and an encoded one is smaller.
    let plain =
        wishes().find(|(coding, _)| coding.eq_ignore_ascii_case(b"identity")).map_or(1, |(_, weight)| weight);
    let mut best: Option<(u16, Encoding)> = None;
    for encoding in Encoding::ALL.into_iter().filter(|encoding| there(*encoding)) {
        let weight = of(encoding);
        if weight > 0 && best.is_none_or(|(most, _)| weight > most) {
            best = Some((weight, encoding));
        }
    }
    best.filter(|(weight, _)| *weight >= plain).map(|(_, encoding)| encoding)
}

/// One member: the coding, and its weight in thousandths; nothing if it is malformed.
fn wish(member: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let coding = parts.next().filter(|coding| !coding.is_empty())?;
    let Some(parameter) = parts.next() else { return Some((coding, 1000)) };
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    Some((coding, quality(value)?))
}

/// A weight from 0 to 1 with three digits at most, in thousandths.
fn quality(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut thousandths = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    let mut unit = 100;
    for digit in fraction {
        thousandths +=
            u16::from(char::from(*digit).to_digit(10).and_then(|digit| u8::try_from(digit).ok())?) * unit;
        unit /= 10;
    }
    (thousandths <= 1000).then_some(thousandths)
}

#[cfg(test)]
mod tests;
