//! Both applications at work: instances that count words, instances that join payments with orders
//! and sum them, and the writers of what these read.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;

use super::{APPLICATION, Payments, application, records_writer, sums};
use crate::tool::Conversation;
use crate::words::{self, Words};
use crate::{Tool, await_some};

/// Instances of an application.
const INSTANCES: usize = 3;
/// Orders with their payments, and lines of words, of one call.
const PAIRS: usize = 40;
const LINES: usize = 40;

/// An application of which instances run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Words,
    Sums,
}

/// The instances and their input. Dropping it kills them.
pub struct Applications {
    bootstrap: String,
    scratch: PathBuf,
    /// Further settings of each instance.
    settings: Vec<String>,
    limit: Duration,
    begun: Instant,
    instances: Vec<(Kind, Conversation)>,
    /// Number of all instances that were.
    named: usize,
    lines: Conversation,
    records: Conversation,
    words: Words,
    payments: Payments,
}

impl Applications {
    /// Starts three instances of each application over existing topics. They keep their state below
    /// a directory, and their input follows from the seed.
    pub fn start(bootstrap: &str, scratch: &Path, settings: &[&str], (seed, limit): (u64, Duration)) -> Self {
        let mut all = Self {
            bootstrap: bootstrap.to_owned(),
            scratch: scratch.to_owned(),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            limit,
            begun: Instant::now(),
            instances: Vec::new(),
            named: 0,
            lines: words::writer(bootstrap).spawn(),
            records: records_writer(bootstrap).spawn(),
            words: Words::new(StdRng::seed_from_u64(seed)),
            payments: Payments::new(StdRng::seed_from_u64(seed)),
        };
        for kind in [Kind::Words, Kind::Sums].into_iter().flat_map(|kind| [kind; INSTANCES]) {
            let instance = all.spawn(kind);
            all.instances.push((kind, instance));
        }
        all
    }

    /// Number of the instances.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    fn spawn(&mut self, kind: Kind) -> Conversation {
        let state = self.scratch.join(format!("state-{}", self.named));
        self.named += 1;
        let mut tool = match kind {
            Kind::Words => words::application(&self.bootstrap, &state),
            Kind::Sums => application(&self.bootstrap, &state),
        };
        tool.args(super::SETTINGS);
        for setting in &self.settings {
            tool.arg(setting);
        }
        tool.spawn()
    }

    /// Time since the start.
    pub fn running(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Kills one instance without an orderly end, starts another one with no state, and waits for
    /// the results of everything written.
    pub fn replace(&mut self, which: usize) {
        self.write();
        let kind = self.instances[which].0;
        let next = self.spawn(kind);
        println!("instance {which} of {kind:?} killed");
        std::mem::replace(&mut self.instances[which].1, next).kill();
        self.survive(&format!("instance {which} killed and replaced"));
    }

    /// Waits for the results of everything written, and prints the fault that they have survived.
    pub fn survive(&mut self, fault: &str) {
        self.progress();
        println!("{} s: {fault}, all results there", self.running().as_secs());
    }

    /// Writes some of the input of both applications.
    pub fn write(&mut self) {
        (0..LINES).for_each(|_| self.lines.say(&self.words.line()));
        let pairs = (0..PAIRS).flat_map(|_| self.payments.pair());
        pairs.for_each(|line| self.records.say(&line));
    }

    /// Writes more, and waits until everything written so far has its result.
    pub fn progress(&mut self) {
        self.write();
        self.await_results();
    }

    fn await_results(&mut self) {
        let limit = self.limit;
        for (kind, name) in [(Kind::Words, "every word counted"), (Kind::Sums, "every payment summed")] {
            await_some(name, limit, || {
                self.tend();
                (self.results(kind) >= self.expected(kind)).then_some(())
            });
        }
    }

    /// Number of results that must be.
    fn expected(&self, kind: Kind) -> usize {
        match kind {
            Kind::Words => self.words.len(),
            Kind::Sums => self.payments.paid(),
        }
    }

    /// Number of results that a reader gets to now.
    fn results(&self, kind: Kind) -> usize {
        match kind {
            Kind::Words => words::counted(&self.bootstrap),
            Kind::Sums => super::summed(&self.bootstrap),
        }
    }

    /// Fails if an instance has ended.
    fn tend(&mut self) {
        for (kind, instance) in &mut self.instances {
            while instance.line_now().is_some() {}
            assert!(!instance.has_ended(), "an instance of {kind:?} has ended");
        }
    }

    /// Ends the input and then the instances. Each word must have been counted once, each payment
    /// with an order added once, and both groups must be without lag.
    pub fn judge(mut self) {
        self.lines.await_end(self.limit);
        self.records.await_end(self.limit);
        self.await_results();
        for group in ["word-count", APPLICATION] {
            await_some(&format!("no lag of {group}"), self.limit, || {
                let group = described(&self.bootstrap, group);
                (group["state"] == "Stable" && group["lag"] == 0).then_some(())
            });
        }
        for (_, instance) in self.instances {
            instance.finish(self.limit);
        }
        let (counts, sums) = (words::counts(&self.bootstrap), sums(&self.bootstrap));
        println!("{} instances, {} counts and {} sums committed", self.named, counts.len(), sums.len());
        self.words.assert_counted(&counts);
        self.payments.assert_summed(&sums);
    }
}

/// The group as the command line shows it; null before its first member, and while its coordinator
/// moves.
pub fn described(bootstrap: &str, application: &str) -> Value {
    let mut levada = Tool::levada();
    levada.args(["group", "describe", application, "--output", "json", "-b", bootstrap]);
    let (_, said) = levada.outcome();
    let groups: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
    groups[0].clone()
}
