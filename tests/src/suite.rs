//! The foreign suites: the tests of other people's clients, run against Levada and against a real
//! Kafka.
//!
//! To add one: a line in [`SUITES`] and its command. What Levada knowingly does not pass is in
//! [`KNOWN`].

mod catalogue;
pub mod outcome;
pub mod report;

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use crate::Node;
use crate::node::Kind;
use crate::paths;
use outcome::{Outcome, Outcomes};

pub use catalogue::{KNOWN, SUITES};

/// One client's tests.
pub struct Suite {
    /// Its name on the command line and in the report.
    pub name: &'static str,
    /// Source of the tests.
    pub source: &'static str,
    /// Configuration of the broker.
    options: &'static [(&'static str, &'static str)],
    /// The port that its tests require; then the suite has a separate network.
    port: Option<u16>,
    /// Starts the brokers itself.
    own_brokers: bool,
    /// The command that runs it against a broker at this address.
    command: fn(Kind, &str) -> Command,
    /// Reads the output of the command.
    parse: fn(&str) -> Outcomes,
}

impl Suite {
    /// Runs the tests against a new broker, in the network of the process. Blocks until they are
    /// done.
    pub fn run(&self, kind: Kind) {
        let mut node = Node::of(kind);
        for (key, value) in self.options {
            node = node.option(key, value);
        }
        if let Some(port) = self.port {
            node = node.port(port);
        }
        if !self.own_brokers {
            node.start();
        }
        let mut command = (self.command)(kind, &node.bootstrap());
        let file =
            |path: PathBuf| File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let log = self.log(kind);
        command.stdout(file(log.clone())).stderr(file(log.with_extension("err")));
        // A suite of which a test fails fails as a whole: what became of the tests is in the log.
        command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        if !self.own_brokers {
            node.assert_running("after the suite");
        }
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
        self.port.is_some()
    }
}

/// A broker's name on the command line.
pub fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Levada => "levada",
        Kind::Kafka => "kafka",
    }
}

/// The tests that pass on Kafka and not on Levada, without those that are known.
pub fn unexpected<'a>(suite: &str, levada: &'a Outcomes, kafka: &'a Outcomes) -> Vec<&'a str> {
    let passed = kafka.iter().filter(|(_, outcome)| **outcome == Outcome::Passed);
    let missing = passed.filter(|(test, _)| levada.get(*test) != Some(&Outcome::Passed));
    let is_known = |test: &str| KNOWN.iter().any(|known| known.suite == suite && known.covers(test));
    missing.map(|(test, _)| test.as_str()).filter(|test| !is_known(test)).collect()
}

#[cfg(test)]
mod tests;
