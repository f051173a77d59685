//! Sizes in bytes as people write and read them: `50MiB`, `1.5GB`, `4096`.

use indicatif::HumanBytes;
use levada_terminal::output;

/// Units with their bytes: powers of 1024, and of 1000.
const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

/// Reads a number of bytes, at least 1; a unit may follow the number.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let expected = || "expected a size such as 50MiB, 1.5GB or 4096".to_owned();
    let text = text.trim();
    let end = text.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix("/s").unwrap_or(&unit);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(expected)?;
    let scaled = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(*scale),
        Err(_) => {
            let scaled = number.parse::<f64>().map_err(|_| expected())? * *scale as f64;
            (scaled < i64::MAX as f64).then_some(scaled as u64)
        }
    };
    scaled.filter(|bytes| (1..=i64::MAX.unsigned_abs()).contains(bytes)).ok_or_else(expected)
}

/// A size for a table's cell.
pub(crate) fn shown(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| output::NOTHING.to_owned(), |bytes| HumanBytes(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_units_are_parsed() {
        fn check(text: &str, expected: u64) {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        check("4096", 4096);
        check("50MiB", 50 << 20);
        check("50 mib", 50 << 20);
        check("50MiB/s", 50 << 20);
        check("1.5GB", 1_500_000_000);
        check("2k", 2048);
        check("9223372036854775807", i64::MAX.unsigned_abs());
        for text in ["", "0", "-1", "MiB", "1.2.3", "5 apples", "9999999TiB", "1e5", "inf"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
