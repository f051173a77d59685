//! Throughput of two connections compared with one. Both read from the page cache, and no thread is
//! bound to a processor.

use std::time::Instant;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::pace::joined;
use crate::harness::process::Spent;
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::record::Metric;

const FETCH_BYTES: i32 = 8 << 20;

const CASES: [(&str, usize); 2] = [("one connection", 1), ("two connections", 2)];

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Parallel {
    subjects: Vec<(Node, Filled)>,
}

impl Parallel {
    /// Starts the brokers without binding them to a processor, and fills a topic.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &Bench, systems: &Systems) -> Result<Self, LabError> {
        let bytes = bench.scale().choose(1 << 20, 128 << 20, 256 << 20, 512 << 20);
        bench.reserve(bytes * systems.all().len() as u64)?;
        let subject = |system| {
            let mut node = Node::new(bench, systems, system)?.anywhere();
            node.start(bench)?;
            topic::create(&node, "parallel", 1, &[])?;
            let place = TopicPartition { topic: "parallel".to_owned(), partition: 0 };
            let filled = topic::fill(&node, place, 16 << 10, bytes)?;
            topic::sync(&node, &filled.place)?;
            Ok((node, filled))
        };
        let subjects = systems.all().into_iter().map(subject).collect::<Result<_, LabError>>()?;
        Ok(Self { subjects })
    }
}

impl Experiment for Parallel {
    fn name(&self) -> &'static str {
        "broker-parallel"
    }

    fn shows(&self) -> String {
        format!(
            "throughput of two connections that fetch {FETCH_BYTES} bytes at a time from the page cache, compared with one; nothing is pinned"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        // The first metric ranks the cases: here it is the rate.
        super::moving().into_iter().rev().collect()
    }

    fn cases(&self) -> Vec<Case> {
        let of = |(node, _): &(Node, Filled)| {
            CASES.map(|(name, count)| Case::new(node.system().label(), name).with("connections", count))
        };
        self.subjects.iter().flat_map(of).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let own = self.subjects.iter().find(|(node, _)| node.system().label() == case.group);
        let count = CASES.iter().find(|(name, _)| *name == case.name);
        let (Some((node, filled)), Some((_, count))) = (own, count) else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(topic::verify(node.address(), filled, 0, FETCH_BYTES)?));
        }
        let (before, start) = (Spent::of(node.pid()), Instant::now());
        let bytes = std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..*count).map(|_| scope.spawn(|| replay::once(node, filled, FETCH_BYTES))).collect();
            readers.into_iter().map(|reader| joined(reader.join())).sum::<Result<u64, LabError>>()
        })?;
        let wall = start.elapsed();
        Ok(Outcome::Measured(super::moved(bytes, Spent::since(node.pid(), &before), wall)))
    }
}
