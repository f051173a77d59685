//! The amount of work of an experiment, and the condition that ends it.

use std::time::Duration;

/// Amount of work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Scale {
    /// For the test suite: runs everything once, to show only that it works.
    Tiny,
    /// A few seconds per experiment, for a first impression.
    Quick,
    /// Half a minute per experiment.
    #[default]
    Normal,
    /// Minutes per experiment, with larger files.
    Full,
}

impl Scale {
    /// Returns the value for this scale.
    pub fn choose<T>(self, tiny: T, quick: T, normal: T, full: T) -> T {
        match self {
            Self::Tiny => tiny,
            Self::Quick => quick,
            Self::Normal => normal,
            Self::Full => full,
        }
    }

    /// Name in a record.
    pub fn label(self) -> &'static str {
        self.choose("tiny", "quick", "normal", "full")
    }
}

/// Limits that end an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of timed rounds.
    pub rounds: u32,
    /// Minimum number of timed rounds, even after `time`.
    pub least_rounds: u32,
    /// Time after which no further round begins.
    pub time: Duration,
}

impl Limits {
    /// Default limits of a scale.
    pub fn of(scale: Scale) -> Self {
        Self {
            rounds: scale.choose(1, 15, 21, 51),
            least_rounds: scale.choose(1, 3, 15, 31),
            time: Duration::from_secs(scale.choose(0, 2, 60, 600)),
        }
    }

    /// Limits with exactly this number of rounds and no time limit.
    #[must_use]
    pub fn exactly(rounds: u32) -> Self {
        Self { rounds, least_rounds: rounds, time: Duration::MAX }
    }
}
