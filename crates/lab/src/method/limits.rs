//! The scale of an experiment, and its end.

use std::time::Duration;

/// Amount of work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Scale {
    /// For the test suite: does everything once and proves nothing but that it works.
    Tiny,
    /// A few seconds an experiment: a first look.
    Quick,
    /// Half a minute an experiment.
    #[default]
    Normal,
    /// Minutes an experiment, and files that are larger.
    Full,
}

impl Scale {
    /// One of four values.
    pub fn choose<T>(self, tiny: T, quick: T, normal: T, full: T) -> T {
        match self {
            Self::Tiny => tiny,
            Self::Quick => quick,
            Self::Normal => normal,
            Self::Full => full,
        }
    }

    /// The name in a record.
    pub fn label(self) -> &'static str {
        self.choose("tiny", "quick", "normal", "full")
    }
}

/// The end of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Timed rounds at most.
    pub rounds: u32,
    /// Timed rounds in any case.
    pub least_rounds: u32,
    /// No round is begun after this.
    pub time: Duration,
}

impl Limits {
    /// Meaning of a scale.
    pub fn of(scale: Scale) -> Self {
        Self {
            rounds: scale.choose(1, 15, 21, 51),
            least_rounds: scale.choose(1, 3, 15, 31),
            time: Duration::from_secs(scale.choose(0, 2, 60, 600)),
        }
    }

    /// Exactly this number of rounds, without a time limit.
    #[must_use]
    pub fn exactly(rounds: u32) -> Self {
        Self { rounds, least_rounds: rounds, time: Duration::MAX }
    }
}
