//! The vocabulary of a result: quantities, axes, and the outcome of the byte check.

use serde::{Deserialize, Serialize};

/// Picture of cases that differ in a parameter: one curve for each name of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// The parameter that goes across; its values are numbers, and sizes if its name ends in
    /// `_bytes`.
    pub across: String,
    /// The parameter that distinguishes pictures; none: all is one picture.
    pub panel: Option<String>,
}

/// A quantity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name among the values of a run.
    pub name: String,
    /// Name for people.
    pub label: String,
    /// In the usual form: `s/GB`, `GB/s`, `µs`, or empty for a count.
    pub unit: String,
    /// The direction that is good.
    pub better: Better,
}

/// The direction that is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is.
    Less,
    /// More is.
    More,
    /// Neither: it explains others.
    Neither,
}

impl Metric {
    /// A quantity of which less is better.
    pub fn less(name: &str, label: &str, unit: &str) -> Self {
        let (label, unit) = (label.to_owned(), unit.to_owned());
        Self { name: name.to_owned(), label, unit, better: Better::Less }
    }

    /// A quantity of which more is better.
    pub fn more(name: &str, label: &str, unit: &str) -> Self {
        Self { better: Better::More, ..Self::less(name, label, unit) }
    }

    /// A quantity that explains others.
    pub fn neither(name: &str, label: &str, unit: &str) -> Self {
        Self { better: Better::Neither, ..Self::less(name, label, unit) }
    }
}

/// Result of a check of the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// True if everything arrived as it was.
    pub sound: bool,
    /// Description of the check: bytes, checksums, counts.
    pub what: String,
}

impl Verdict {
    /// Bytes that arrived, by count and checksum.
    pub fn of_bytes(expected: (u64, u64), arrived: (u64, u64)) -> Self {
        if expected == arrived {
            let what = format!("{} bytes, CRC-64 {:016x}", arrived.0, arrived.1);
            return Self { sound: true, what };
        }
        let what = format!(
            "{} bytes with CRC-64 {:016x} instead of {} with {:016x}",
            arrived.0, arrived.1, expected.0, expected.1
        );
        Self { sound: false, what }
    }
}
