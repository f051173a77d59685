//! A check as one command of many: its needs, its company, and the command line that repeats it.
//!
//! [`run`] runs a list of jobs side by side, prints each one's output as a whole when it has ended,
//! and sums up.

mod child;
mod idle;
mod queue;
mod runner;
mod summary;
mod verdict;

use std::process::Command;
use std::time::Duration;

pub(crate) use runner::run;

/// Time limit of a command. A command that exceeds it is killed and counts as failed: otherwise its
/// output would never be printed.
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

/// Derives further jobs from a job's output.
pub(crate) type Then = Box<dyn FnOnce(&str) -> Result<Vec<Job>, String>>;

/// Returns, when a job could start, the reason to skip it.
pub(crate) type Check = Box<dyn FnOnce() -> Result<(), String>>;

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
    check: Option<Check>,
    /// True if the last line of the output shows the progress of the job.
    is_narrated: bool,
}

/// Times of a job's command.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    /// The command runs repeatedly for this time, until it fails.
    lasts: Duration,
    /// The command gets this time as its duration.
    takes: Duration,
    /// The expected duration, if the job has one.
    expected: Option<Duration>,
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
        let times = Times::default();
        let name = name.into();
        Self { name, company, command, needs: &[], again, times, then: None, check: None, is_narrated: false }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
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

    /// The job, with its expected duration in seconds.
    pub(crate) fn expecting(mut self, seconds: u64) -> Self {
        self.times.expected = Some(Duration::from_secs(seconds));
        self
    }

    /// The job, to be left out if the check returns a reason when the job could start.
    pub(crate) fn if_ready(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    /// The job, whose last line is printed while it runs.
    pub(crate) fn narrated(mut self) -> Self {
        self.is_narrated = true;
        self
    }

    /// The job, whose command gets this environment variable.
    pub(crate) fn setting(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The job, with jobs that follow from its output.
    pub(crate) fn then(mut self, then: Then) -> Self {
        self.then = Some(then);
        self
    }
}
