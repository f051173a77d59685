//! The foreign suites: the tests of other people's clients, run against Levada and against a real
//! Kafka.
//!
//! To add one: a line in [`SUITES`] and its command.

mod brokers;
mod catalogue;
pub mod outcome;
mod proxied;
pub mod report;

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use crate::node::Kind;
use crate::paths;
use brokers::{Brokers, Stage};
use outcome::{Outcome, Outcomes};

pub use catalogue::SUITES;

/// One client's tests.
pub struct Suite {
    /// Name of the suite on the command line and in the report.
    pub name: &'static str,
    /// Source of the tests.
    pub source: &'static str,
    /// Configuration of the brokers.
    options: &'static [(&'static str, &'static str)],
    /// The brokers that it needs. A suite with fixed ports has a separate network.
    brokers: Brokers,
    /// The command that runs it against brokers at these addresses.
    command: fn(Kind, &str) -> Command,
    /// Reads the output of the command.
    parse: fn(&str) -> Outcomes,
}

impl Suite {
    /// Runs the tests against new brokers, in the network of the process. Blocks until they are
    /// done.
    pub fn run(&self, kind: Kind) {
        let mut stage = Stage::start(self.brokers, kind, self.options);
        let mut command = (self.command)(kind, &stage.bootstrap());
        stage.introduce(&mut command);
        let file =
            |path: PathBuf| File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let log = self.log(kind);
        command.stdout(file(log.clone())).stderr(file(log.with_extension("err")));
        let suite = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        stage.attend(suite);
        stage.assert_running();
    }

    /// Outcomes of the last run.
    pub fn outcomes(&self, kind: Kind) -> Outcomes {
        let log = self.log(kind);
        let said = std::fs::read(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let outcomes = (self.parse)(&String::from_utf8_lossy(&said));
        assert!(!outcomes.is_empty(), "{} ran no test: {}", self.name, log.display());
        outcomes
    }

    /// Directory of the output of the tests.
    pub fn log(&self, kind: Kind) -> PathBuf {
        let results = paths::suite_results();
        std::fs::create_dir_all(&results).unwrap_or_else(|error| panic!("{}: {error}", results.display()));
        results.join(format!("{}-{}.log", self.name, word(kind)))
    }

    /// True if the suite needs a network where no other broker listens.
    pub fn needs_own_network(&self) -> bool {
        matches!(self.brokers, Brokers::One(Some(_)) | Brokers::Five)
    }
}

/// A broker's name on the command line.
pub fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Levada => "levada",
        Kind::Kafka => "kafka",
    }
}

/// The tests that pass on Kafka and not on Levada.
pub fn kafka_only<'a>(levada: &'a Outcomes, kafka: &'a Outcomes) -> Vec<&'a str> {
    let passed = kafka.iter().filter(|(_, outcome)| **outcome == Outcome::Passed);
    let missing = passed.filter(|(test, _)| levada.get(*test) != Some(&Outcome::Passed));
    missing.map(|(test, _)| test.as_str()).collect()
}

#[cfg(test)]
mod tests;
