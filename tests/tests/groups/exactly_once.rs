//! Transactions under faults: producers write and abort, disconnect, are fenced and come too late;
//! copiers consume, transform and produce; brokers and copiers are killed, copiers are suspended
//! and resume when another has taken their place. In the end each committed record must have been
//! read and copied exactly once, in order, and no other.
//!
//! Python's clients use the first transaction protocol and the classic group protocol, Java's the
//! second and the new one. The plan of faults follows from the seed.
//!
//! Suite: long; 49 s; needs java, python
//! Soak: lasts 30 s
//! Soak: controllers 3

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use levada_testing::{lasting, seed};
use levada_tests::ledger::{self, Outcome};
use levada_tests::tool::Conversation;
use levada_tests::{Node, Tool, await_some, process};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;

const PARTITIONS: &str = "3";
/// Duration of the run at scale 1.
const RUN: Duration = Duration::from_secs(30);
/// Long enough for a session and a transaction to time out several times over.
const LIMIT: Duration = Duration::from_secs(120);
/// Number of records read of each topic before the next fault.
const PROGRESS_RECORDS: u64 = 50;

const OLD_COPY: &str = "copied-old";
const NEW_COPY: &str = "copied-new";
const TOPICS: [&str; 3] = ["input", OLD_COPY, NEW_COPY];
const OLD_WRITERS: [&str; 2] = ["writer-0", "writer-1"];
const NEW_WRITER: &str = "writer-2";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Disturbance {
    BrokerKilled,
    BrokerRestarted,
    CopierKilled,
    /// Stopped, and replaced by another of its name; after a while it continues where it was.
    CopierFrozen,
}

/// A copier's name and topic, and the process that has the name now.
struct Copier {
    name: &'static str,
    topic: &'static str,
    process: Conversation,
}

/// A process that has not been notified yet of its replacement.
struct Frozen {
    process: Conversation,
    until: Instant,
}

struct Stage {
    node: Node,
    /// Chooses faults; independent of timing.
    plan: StdRng,
    /// Seeds for the clients.
    seeds: StdRng,
    writers: Vec<Conversation>,
    copiers: Vec<Copier>,
    frozen: Vec<Frozen>,
    replaced: Vec<Conversation>,
    reader: Conversation,
    /// Number of records of each topic the reader has seen.
    seen: [u64; TOPICS.len()],
    done: BTreeMap<Disturbance, u32>,
}

impl Stage {
    fn set(mut node: Node, seed: u64) -> Self {
        let (plan, mut seeds) = (StdRng::seed_from_u64(seed), StdRng::seed_from_u64(!seed));
        node.start();
        for topic in TOPICS {
            Tool::python("topics.py").args([&node.bootstrap(), topic, PARTITIONS]).run();
        }
        let mut writers: Vec<_> = OLD_WRITERS
            .iter()
            .map(|name| {
                client(&node, false, ["writer", name])
                    .args([&seed_of(&mut seeds), &path(&node, name)])
                    .spawn()
            })
            .collect();
        let mut new_writer = client(&node, true, ["writer", NEW_WRITER]);
        writers.push(new_writer.args([&seed_of(&mut seeds), &path(&node, NEW_WRITER)]).spawn());
        let names = [("old-0", OLD_COPY), ("old-1", OLD_COPY), ("new-0", NEW_COPY)];
        let copiers = names
            .map(|(name, topic)| Copier { name, topic, process: copier(&node, name, topic, &mut seeds) })
            .into();
        let reader = reader(&node, "live", TOPICS);
        let (frozen, replaced, seen, done) = (Vec::new(), Vec::new(), [0; TOPICS.len()], BTreeMap::new());
        Self { node, plan, seeds, writers, copiers, frozen, replaced, reader, seen, done }
    }

    fn disturb(&mut self) {
        let disturbance = match self.plan.random_range(0..10) {
            0..4 => Disturbance::BrokerKilled,
            4 => Disturbance::BrokerRestarted,
            5..8 => Disturbance::CopierKilled,
            _ => Disturbance::CopierFrozen,
        };
        let which = self.plan.random_range(0..self.copiers.len());
        let frozen_for = Duration::from_millis(self.plan.random_range(2000..10_000));
        *self.done.entry(disturbance).or_default() += 1;
        println!("{disturbance:?} {which} {frozen_for:?}, seen {:?}", self.seen);
        match disturbance {
            Disturbance::BrokerKilled => {
                self.node.kill();
                self.node.start();
            }
            Disturbance::BrokerRestarted => self.node.restart(),
            Disturbance::CopierKilled => self.replace(which).kill(),
            Disturbance::CopierFrozen => {
                process::signal(self.copiers[which].process.pid(), Signal::STOP);
                let process = self.replace(which);
                self.frozen.push(Frozen { process, until: Instant::now() + frozen_for });
            }
        }
    }

    fn replace(&mut self, which: usize) -> Conversation {
        let copier_now = &mut self.copiers[which];
        let next = copier(&self.node, copier_now.name, copier_now.topic, &mut self.seeds);
        std::mem::replace(&mut copier_now.process, next)
    }

    /// Restarts failed copiers, resumes suspended ones when it is time, counts the records seen.
    fn tend(&mut self) {
        self.node.assert_running("under everything that goes wrong");
        for which in 0..self.copiers.len() {
            if self.copiers[which].process.has_ended() {
                self.replace(which).finish(LIMIT).iter().for_each(|last| println!("{which} {last}"));
            }
        }
        let now = Instant::now();
        for thawed in self.frozen.extract_if(.., |frozen| frozen.until <= now) {
            process::signal(thawed.process.pid(), Signal::CONT);
            self.replaced.push(thawed.process);
        }
        self.replaced.retain_mut(|process| !process.has_ended());
        assert!(!self.reader.has_ended(), "the reader has ended");
        while let Some(line) = self.reader.line_now() {
            let counts: Vec<u64> = line.split(' ').map(|count| count.parse().expect("a count")).collect();
            self.seen = counts.try_into().expect("a count for each topic");
        }
    }

    fn await_progress(&mut self) {
        let before = self.seen;
        await_some("progress of every topic", LIMIT, || {
            self.tend();
            let moved = |(now, before): (&u64, &u64)| now >= &(before + PROGRESS_RECORDS);
            self.seen.iter().zip(&before).all(moved).then_some(())
        });
    }

    /// Ends all clients, then returns the faults found.
    fn complaints(mut self) -> Vec<String> {
        for writer in self.writers.drain(..) {
            writer.finish(LIMIT);
        }
        let written = ledger::count(&reader(&self.node, "written", ["input"]).finish(LIMIT));
        await_some("copies of everything", LIMIT, || {
            self.tend();
            (self.frozen.is_empty() && self.seen.iter().all(|seen| *seen == written)).then_some(())
        });
        let copiers = self.copiers.into_iter().map(|copier| copier.process);
        for copier in copiers.chain(self.replaced) {
            copier.finish(LIMIT);
        }
        self.reader.finish(LIMIT);
        self.node.kill();
        self.node.start();
        reader(&self.node, "last", TOPICS).finish(LIMIT);
        let view = |name| ledger::view(&self.node.scratch().join(name));
        let (live, last) = (view("live"), view("last"));
        let journal = |name: &&str| ledger::journal(name, &self.node.scratch().join(name));
        let transactions: Vec<_> = OLD_WRITERS.iter().chain([&NEW_WRITER]).flat_map(journal).collect();
        for outcome in [Outcome::Committed, Outcome::Aborted, Outcome::Unknown] {
            let count = transactions.iter().filter(|transaction| transaction.outcome == outcome).count();
            println!("{count} transactions {outcome:?}");
            assert!(count > 0 || outcome == Outcome::Unknown, "too little happened");
        }
        println!("{} records committed; {:?}", last["input"].len(), self.done);
        let mut complaints = ledger::written(&transactions, &last["input"]);
        complaints.extend(ledger::same(&live, &last));
        for topic in [OLD_COPY, NEW_COPY] {
            complaints.extend(
                ledger::copied(&last["input"], &last[topic]).into_iter().map(|c| format!("{topic}: {c}")),
            );
        }
        self.node.stop();
        complaints
    }
}

fn client(node: &Node, new: bool, role_and_name: [&str; 2]) -> Tool {
    let [role, name] = role_and_name;
    let mut tool = if new { Tool::own_java("ExactlyOnce") } else { Tool::python("exactly_once.py") };
    tool.args([role, &node.bootstrap(), name, PARTITIONS]);
    tool
}

fn copier(node: &Node, name: &str, topic: &str, seeds: &mut StdRng) -> Conversation {
    client(node, topic == NEW_COPY, ["copier", name]).args([&seed_of(seeds), topic]).spawn()
}

fn reader<const N: usize>(node: &Node, name: &str, topics: [&str; N]) -> Conversation {
    let mut tool = Tool::python("exactly_once.py");
    tool.args(["reader", &node.bootstrap(), PARTITIONS, &path(node, name)]).args(topics).spawn()
}

fn seed_of(seeds: &mut StdRng) -> String {
    seeds.random::<u32>().to_string()
}

fn path(node: &Node, name: &str) -> String {
    node.scratch().join(name).display().to_string()
}

#[test]
fn exactly_once_holds_under_faults() {
    let duration = lasting(RUN);
    let node = Node::new()
        .option("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")
        .option("group.initial.rebalance.delay.ms", "0")
        .option("group.consumer.min.session.timeout.ms", "6000")
        .option("group.consumer.session.timeout.ms", "6000")
        .option("group.consumer.min.heartbeat.interval.ms", "500")
        .option("group.consumer.heartbeat.interval.ms", "500")
        .option("log.segment.bytes", "1048576");
    let mut stage = Stage::set(node, seed());
    let start = Instant::now();
    while start.elapsed() < duration {
        stage.await_progress();
        stage.disturb();
    }
    let complaints = stage.complaints();
    let first = &complaints[..complaints.len().min(10)];
    assert!(complaints.is_empty(), "{} complaints, first:\n{}", complaints.len(), first.join("\n"));
}
