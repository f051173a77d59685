//! Both applications at work: instances that count words, instances that join payments with orders
//! and sum them, and the writers of what these read.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;

use super::{APPLICATION, Payments, application_at, records_writer, report, sums};
use crate::tool::Conversation;
use crate::words::{self, Words};
use crate::{Tool, await_some};

/// Number of instances of an application.
const INSTANCES: usize = 3;
/// Orders with their payments, and lines of words, of one call.
const PAIRS: usize = 40;
const LINES: usize = 40;
/// Level of the log of instances.
const LEVEL: &str = "INFO";
/// Number of an instance's last output lines that are kept for a report.
const KEPT_LINES: usize = 100;
/// Longest wait for the threads of an instance.
const THREADS_WAIT: Duration = Duration::from_secs(20);

/// An application of which instances run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Words,
    Sums,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Words, Self::Sums];

    /// Name of its group.
    pub(super) fn group(self) -> &'static str {
        match self {
            Self::Words => "word-count",
            Self::Sums => APPLICATION,
        }
    }

    fn awaited(self) -> &'static str {
        match self {
            Self::Words => "every word counted",
            Self::Sums => "every payment summed",
        }
    }
}

/// A process of an application.
pub(super) struct Instance {
    pub(super) kind: Kind,
    pub(super) process: Conversation,
    /// The last lines that it has printed.
    pub(super) lines: VecDeque<String>,
}

impl Instance {
    /// Reads what it has printed.
    fn read(&mut self) {
        while let Some(line) = self.process.line_now() {
            self.keep(line);
        }
    }

    fn keep(&mut self, line: String) {
        self.lines.push_back(line);
        if self.lines.len() > KEPT_LINES {
            self.lines.pop_front();
        }
    }

    /// Threads of the instance, each with its state and its active tasks; `None` if the instance
    /// does not respond.
    pub(super) fn threads(&mut self) -> Option<String> {
        self.read();
        self.process.say("");
        let asked = Instant::now();
        while asked.elapsed() < THREADS_WAIT {
            match self.process.line_now() {
                Some(line) => match line.strip_prefix("threads ") {
                    Some(threads) => return Some(threads.to_owned()),
                    None => self.keep(line),
                },
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        None
    }
}

/// Tasks that a coordinator has assigned to members of a group, and that no thread has.
#[derive(Debug)]
pub struct Untold {
    /// Name of the group.
    pub group: &'static str,
    /// Id of its coordinator.
    pub coordinator: i64,
    /// Names of the tasks.
    pub tasks: Vec<String>,
}

/// The instances and their input. Dropping it kills them, after a report if the test fails.
pub struct Applications {
    bootstrap: String,
    scratch: PathBuf,
    /// Further settings of each instance.
    settings: Vec<String>,
    limit: Duration,
    begun: Instant,
    instances: Vec<Instance>,
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
        for kind in Kind::ALL.into_iter().flat_map(|kind| [kind; INSTANCES]) {
            let instance = all.spawn(kind);
            all.instances.push(instance);
        }
        all
    }

    /// Number of the instances.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    fn spawn(&mut self, kind: Kind) -> Instance {
        let state = self.scratch.join(format!("state-{}", self.named));
        self.named += 1;
        let mut tool = match kind {
            Kind::Words => words::application_at(LEVEL, &self.bootstrap, &state),
            Kind::Sums => application_at(LEVEL, &self.bootstrap, &state),
        };
        tool.args(super::SETTINGS);
        for setting in &self.settings {
            tool.arg(setting);
        }
        Instance { kind, process: tool.spawn(), lines: VecDeque::new() }
    }

    /// Time since the start.
    pub fn running(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Kills one instance without an orderly end, and starts another one with no state.
    pub fn replace(&mut self, which: usize) {
        self.write();
        let kind = self.instances[which].kind;
        let next = self.spawn(kind);
        println!("instance {which} of {kind:?} killed");
        std::mem::replace(&mut self.instances[which], next).process.kill();
    }

    /// Writes more, waits for the results of everything written, and prints the fault that they
    /// have survived.
    pub fn survive(&mut self, fault: &str) {
        self.progress();
        self.survived(fault);
    }

    /// Prints a fault after which all results are there.
    pub fn survived(&self, fault: &str) {
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

    /// Waits until everything written so far has its result.
    pub fn await_results(&mut self) {
        let limit = self.limit;
        for kind in Kind::ALL {
            await_some(kind.awaited(), limit, || self.has_results(kind).then_some(()));
        }
    }

    /// True if everything written so far has its result within this time.
    pub fn have_results_within(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        Kind::ALL.into_iter().all(|kind| {
            while !self.has_results(kind) {
                if begun.elapsed() > limit {
                    return false;
                }
            }
            true
        })
    }

    fn has_results(&mut self, kind: Kind) -> bool {
        self.tend();
        self.results(kind) >= self.expected(kind)
    }

    /// The groups with tasks that are assigned and that no thread has. A group of which an instance
    /// does not answer is left out.
    pub fn untold_tasks(&mut self) -> Vec<Untold> {
        let mut found = Vec::new();
        for kind in Kind::ALL {
            let instances = self.instances.iter_mut().filter(|instance| instance.kind == kind);
            let threads: Option<Vec<String>> = instances.map(Instance::threads).collect();
            let Some(threads) = threads else { continue };
            let taken: BTreeSet<&str> =
                threads.iter().flat_map(|threads| threads.split([' ', ';'])).collect();
            let group = described(&self.bootstrap, kind.group());
            let assigned =
                group["tasks"].as_array().into_iter().flatten().filter(|task| !task["member"].is_null());
            let name = |task: &Value| {
                format!("{}_{}", task["subtopology"].as_str().unwrap_or_default(), task["partition"])
            };
            let tasks: Vec<String> =
                assigned.map(name).filter(|name| !taken.contains(name.as_str())).collect();
            if !tasks.is_empty() {
                let coordinator = group["coordinator"].as_i64().unwrap_or(-1);
                found.push(Untold { group: kind.group(), coordinator, tasks });
            }
        }
        found
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
        for instance in &mut self.instances {
            instance.read();
            assert!(!instance.process.has_ended(), "an instance of {:?} has ended", instance.kind);
        }
    }

    /// Ends the input and then the instances. Each word must have been counted once, each payment
    /// with an order added once, and both groups must be without lag.
    pub fn judge(mut self) {
        self.lines.await_end(self.limit);
        self.records.await_end(self.limit);
        self.await_results();
        for group in Kind::ALL.map(Kind::group) {
            await_some(&format!("no lag of {group}"), self.limit, || {
                let group = described(&self.bootstrap, group);
                (group["state"] == "Stable" && group["lag"] == 0).then_some(())
            });
        }
        for instance in std::mem::take(&mut self.instances) {
            instance.process.finish(self.limit);
        }
        let (counts, sums) = (words::counts(&self.bootstrap), sums(&self.bootstrap));
        println!("{} instances, {} counts and {} sums committed", self.named, counts.len(), sums.len());
        self.words.assert_counted(&counts);
        self.payments.assert_summed(&sums);
    }
}

impl Drop for Applications {
    fn drop(&mut self) {
        if std::thread::panicking() {
            report::print(&self.bootstrap, &mut self.instances);
        }
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
