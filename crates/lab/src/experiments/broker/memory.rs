//! Growth of a broker's memory while records pass through it. Each run sends and reads the same
//! amount, so that the rounds show any further growth.

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::topic;
use crate::harness::bench::Bench;
use crate::harness::process;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::Metric;

const FETCH_BYTES: i32 = 8 << 20;

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Memory<'b> {
    bench: &'b Bench,
    nodes: Vec<Node>,
    /// Number of topics so far; each run creates a new one.
    topics: usize,
}

impl<'b> Memory<'b> {
    /// Starts the brokers.
    ///
    /// # Errors
    /// A broker does not start.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        Ok(Memory { bench, nodes: super::started(bench, systems)?, topics: 0 })
    }

    fn bytes(&self) -> u64 {
        self.bench.scale().choose(1 << 20, 128 << 20, 1 << 30, 5 << 30)
    }
}

impl Experiment for Memory<'_> {
    fn name(&self) -> &'static str {
        "broker-memory"
    }

    fn shows(&self) -> String {
        format!(
            "a broker's memory after another {} MB sent to it and fetched from it",
            self.bytes() / 1_000_000
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::less("resident_mb", "memory", "MB")]
    }

    fn cases(&self) -> Vec<Case> {
        super::labels(&self.nodes).map(|name| Case::new("", name).with("bytes", self.bytes())).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some(node) = self.nodes.iter().find(|node| node.system().label() == case.name) else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        let bytes = if pass == Pass::Integrity { 1 << 20 } else { self.bytes() };
        self.bench.reserve(bytes)?;
        self.topics += 1;
        let place = TopicPartition { topic: format!("memory-{:04}", self.topics), partition: 0 };
        topic::create(node, &place.topic, 1, &[("file.delete.delay.ms", "1000")])?;
        let filled = topic::fill(node, place, 64 << 10, bytes)?;
        let outcome = if pass == Pass::Integrity {
            Outcome::Checked(topic::verify(node.address(), &filled, 0, FETCH_BYTES)?)
        } else {
            replay::once(node, &filled, FETCH_BYTES)?;
            let resident = process::resident_bytes(node.pid()) as f64 / 1e6;
            Outcome::Measured(Metrics::from([("resident_mb".to_owned(), resident)]))
        };
        topic::delete(node, &filled.place.topic)?;
        Ok(outcome)
    }
}
