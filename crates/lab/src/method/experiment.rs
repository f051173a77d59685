//! The interface between the method and an experiment.

use std::collections::BTreeMap;

use super::metric::{Metric, Sweep, Verdict};
use crate::error::LabError;

/// A measurement: cases that do the same work by different methods.
pub trait Experiment {
    /// Name on the command line: one word.
    fn name(&self) -> &'static str;

    /// Purpose of the experiment, in one sentence.
    fn shows(&self) -> String;

    /// Metrics of each run. The first metric ranks the cases.
    fn metrics(&self) -> Vec<Metric>;

    /// Cases in groups. The first case of a group is the baseline of the group.
    fn cases(&self) -> Vec<Case>;

    /// Axis of the picture; none for cases that differ in kind.
    fn sweep(&self) -> Option<Sweep> {
        None
    }

    /// Process that does the work of a case, and which a flame graph must sample; none for this
    /// process.
    fn worker(&self, case: &Case) -> Option<u32> {
        let _ = case;
        None
    }

    /// Reason why the work of a case does not match its name on this machine. The method calls this
    /// after the rounds.
    fn caveat(&self, case: &Case) -> Option<String> {
        let _ = case;
        None
    }

    /// Runs one case once. Timed runs of all cases alternate, so a run must leave nothing that
    /// affects the next one.
    ///
    /// # Errors
    /// The experiment cannot continue. If only this machine lacks something, the result is
    /// [`Outcome::Skipped`].
    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError>;
}

/// One method of doing the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Common description of the cases that the method compares.
    pub group: String,
    /// Name of the case within the group.
    pub name: String,
    /// Parameters of the case, for readers of the record.
    pub params: BTreeMap<String, String>,
}

impl Case {
    /// Creates a case without parameters.
    pub fn new(group: impl Into<String>, name: impl Into<String>) -> Self {
        Self { group: group.into(), name: name.into(), params: BTreeMap::new() }
    }

    /// Returns the case with one more parameter.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.params.insert(key.to_owned(), value.to_string());
        self
    }
}

/// Purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Checks every byte and times nothing.
    Integrity,
    /// Measures time. The run omits checks that would add to the measured cost.
    Timed,
}

/// Values by the name of their metric.
pub type Metrics = BTreeMap<String, f64>;

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Values of a timed run.
    Measured(Metrics),
    /// Verdict of a run that checks bytes.
    Checked(Verdict),
    /// Reason why this machine cannot run the case, with a remedy. The method does not run the case
    /// again.
    Skipped(String),
}
