//! A check as one command of many: its needs, its company, and the command line that repeats it.
//!
//! [`run`] runs a list of jobs side by side, prints each one's output as a whole when it has ended,
//! and sums up.

mod child;
mod idle;
mod queue;
mod runner;
mod verdict;

use std::process::Command;
use std::time::Duration;

pub(crate) use runner::run;

/// A command that exceeds its time limit is ended and counts as failed: otherwise its output would
/// never be printed.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The jobs that may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// All but another build: Cargo keeps the processors busy by itself.
    Build,
    /// A build and some others, the more of them the more they leave the processors idle.
    Shared,
    /// None, at the end: it measures time or memory, or keeps all processors busy.
    Alone,
}

/// Makes further jobs of a job's output.
pub(crate) type Then = Box<dyn FnOnce(&str) -> Result<Vec<Job>, String>>;

/// A command that succeeds or fails.
pub(crate) struct Job {
    name: String,
    company: Company,
    command: Command,
    /// Names of jobs that must succeed before this one starts.
    needs: &'static [&'static str],
    /// The command line that repeats it; names of tests may be appended.
    again: String,
    pub(crate) times: Times,
    then: Option<Then>,
}

/// Times of a job's command.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    /// The command runs repeatedly for this time, until it fails.
    lasts: Duration,
    /// The command gets this time as its duration.
    takes: Duration,
}

impl Times {
    /// Limit of each run.
    pub(crate) fn limit(self) -> Duration {
        LIMIT + self.lasts.max(self.takes)
    }
}

impl Job {
    /// A job without needs that is repeated by `again`.
    pub(crate) fn new(name: impl Into<String>, company: Company, command: Command, again: String) -> Self {
        Self { name: name.into(), company, command, needs: &[], again, times: Times::default(), then: None }
    }

    /// The job, to start only after these have succeeded.
    pub(crate) fn after(mut self, needs: &'static [&'static str]) -> Self {
        self.needs = needs;
        self
    }

    /// The job, repeated for this time.
    pub(crate) fn lasting(mut self, time: Duration) -> Self {
        self.times.lasts = time;
        self
    }

    /// The job, whose command gets this time as its duration.
    pub(crate) fn taking(mut self, time: Duration) -> Self {
        self.times.takes = time;
        self
    }

    /// The job, with jobs that follow from its output.
    pub(crate) fn then(mut self, then: Then) -> Self {
        self.then = Some(then);
        self
    }
}
