//! The interface between the method and an experiment.

use std::collections::BTreeMap;

use super::metric::{Metric, Sweep, Verdict};
use crate::error::LabError;

/// A measurement: cases that do the same work in different ways.
pub trait Experiment {
    /// One word, as on the command line.
    fn name(&self) -> &'static str;

    /// Purpose, in a sentence.
    fn shows(&self) -> String;

    /// Metrics of each run. The first one ranks the cases.
    fn metrics(&self) -> Vec<Metric>;

    /// Cases, by group. The first case of a group is the baseline of the group.
    fn cases(&self) -> Vec<Case>;

    /// Axis of the picture; `None` for cases that differ in kind.
    fn sweep(&self) -> Option<Sweep> {
        None
    }

    /// The process that does the work of a case, if it is not this one: a flame graph shows its
    /// time.
    fn worker(&self, case: &Case) -> Option<u32> {
        let _ = case;
        None
    }

    /// The reason why a case differs from its name on this machine; called after the rounds.
    fn caveat(&self, case: &Case) -> Option<String> {
        let _ = case;
        None
    }

    /// Runs one case once. Timed runs of all cases alternate, so nothing may be left over from one
    /// for the next.
    ///
    /// # Errors
    /// The experiment cannot continue. What merely does not exist on this machine is
    /// [`Outcome::Skipped`].
    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError>;
}

/// One way of doing the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Common description of the cases that are compared.
    pub group: String,
    /// Its name within the group.
    pub name: String,
    /// Parameters, for readers of the record.
    pub params: BTreeMap<String, String>,
}

impl Case {
    /// A case without parameters.
    pub fn new(group: impl Into<String>, name: impl Into<String>) -> Self {
        Self { group: group.into(), name: name.into(), params: BTreeMap::new() }
    }

    /// The same with a parameter.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.params.insert(key.to_owned(), value.to_string());
        self
    }
}

/// Purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Every byte is checked; nothing is timed.
    Integrity,
    /// For the clock. Checks are omitted if they would add to the measured cost.
    Timed,
}

/// Values by the name of their metric.
pub type Metrics = BTreeMap<String, f64>;

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A timed run.
    Measured(Metrics),
    /// A run that was checked.
    Checked(Verdict),
    /// This machine cannot do it: why, and what would help. The case is left out from here on.
    Skipped(String),
}
