//! The parts of a result: quantities, axes, and the verdict of the integrity check.

use serde::{Deserialize, Serialize};

/// Picture of cases that differ in a parameter, with one curve for each name of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Parameter on the horizontal axis. Its values are numbers, and sizes in bytes if its name
    /// ends in `_bytes`.
    pub across: String,
    /// Parameter that has a separate picture for each of its values; none for a single picture.
    pub panel: Option<String>,
}

/// A quantity that an experiment measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Name of the quantity among the values of a run.
    pub name: String,
    /// Name for readers.
    pub label: String,
    /// Unit such as `s/GB`, `GB/s` or `µs`; empty for a count.
    pub unit: String,
    /// Direction of an improvement.
    pub better: Better,
}

/// Direction of an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A smaller value is better.
    Less,
    /// A greater value is better.
    More,
    /// Neither direction is better: the quantity explains others.
    Neither,
}

impl Metric {
    /// A quantity whose smaller values are better.
    pub fn less(name: &str, label: &str, unit: &str) -> Self {
        let (label, unit) = (label.to_owned(), unit.to_owned());
        Self { name: name.to_owned(), label, unit, better: Better::Less }
    }

    /// A quantity whose greater values are better.
    pub fn more(name: &str, label: &str, unit: &str) -> Self {
        Self { better: Better::More, ..Self::less(name, label, unit) }
    }

    /// A quantity that explains others.
    pub fn neither(name: &str, label: &str, unit: &str) -> Self {
        Self { better: Better::Neither, ..Self::less(name, label, unit) }
    }
}

/// Result of an integrity check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// True if every byte arrived unchanged.
    pub sound: bool,
    /// Description of the check: bytes, checksums, counts.
    pub what: String,
}

impl Verdict {
    /// Compares the number of bytes and their checksum with the expected ones.
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
