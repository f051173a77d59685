//! Cost of produce requests: batches of several sizes from one connection, acknowledged by the
//! leader.

use std::time::Instant;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::floor;
use crate::experiments::broker::harness::frames::{self, TopicPartition};
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::record::{Metric, Verdict};

/// Batch sizes. The largest batch that brokers accept by default is slightly above 1 MiB.
const SIZES: [(&str, usize); 4] =
    [("16 KiB", 16 << 10), ("64 KiB", 64 << 10), ("256 KiB", 256 << 10), ("1 MiB", 1 << 20)];

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Produce<'b> {
    bench: &'b Bench,
    nodes: Vec<Node>,
    /// Number of topics so far; each run creates a new one.
    topics: usize,
}

impl<'b> Produce<'b> {
    /// Starts the brokers.
    ///
    /// # Errors
    /// A broker does not start.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        Ok(Produce { bench, nodes: super::started(bench, systems)?, topics: 0 })
    }

    /// Runs a case once. Returns its cost, or with `verify` the result of a check of all records.
    fn once(&mut self, case: &Case, (len, bytes): (usize, u64), verify: bool) -> Result<Outcome, LabError> {
        self.topics += 1;
        let place = TopicPartition { topic: format!("produce-{:04}", self.topics), partition: 0 };
        let (batch, records) = frames::batch(len, 1024, 1)?;
        let batches = usize::try_from(bytes.div_ceil(len as u64)).unwrap_or(usize::MAX);
        let filled = Filled { place, batch_len: batch.len(), records, batches };
        let frame = frames::produce(&filled.place, batch.freeze(), 1)?;
        self.bench.reserve(filled.bytes())?;
        let pinned = self.bench.places().pin_receiver();
        let start = Instant::now();
        let mut outcome = None;
        let (cpu, wall) = match self.nodes.iter().find(|node| node.system().label() == case.name) {
            Some(node) => {
                topic::create(node, &filled.place.topic, 1, &[("file.delete.delay.ms", "1000")])?;
                let mut connection = Connection::open(node.address())?;
                // The first batch creates files.
                topic::send(&mut connection, &frame, &Filled { batches: 1, ..filled.clone() }, 0)?;
                let (before, start) = (Spent::of(node.pid()), Instant::now());
                topic::send(&mut connection, &frame, &filled, filled.offset(1))?;
                let spent = (Spent::since(node.pid(), &before), start.elapsed());
                if verify {
                    let all = Filled { batches: filled.batches + 1, ..filled.clone() };
                    outcome = Some(topic::verify(node.address(), &all, 0, 8 << 20)?);
                }
                topic::delete(node, &filled.place.topic)?;
                spent
            }
            None => {
                let file = self.bench.file()?;
                let cpu = floor::beside(
                    self.bench,
                    |stream| floor::produce(&filled, frame.len(), &file, stream),
                    |address| topic::send(&mut Connection::open(address)?, &frame, &filled, 0),
                )?;
                let len = file.metadata().map_err(LabError::step("cannot read the length of a file"))?.len();
                outcome =
                    verify.then(|| Verdict { sound: len == filled.bytes(), what: format!("{len} bytes") });
                (cpu, start.elapsed())
            }
        };
        drop(pinned);
        Ok(match outcome {
            Some(verdict) => Outcome::Checked(verdict),
            None => Outcome::Measured(super::moved(filled.bytes(), cpu, wall)),
        })
    }
}

impl Experiment for Produce<'_> {
    fn name(&self) -> &'static str {
        "broker-produce"
    }

    fn shows(&self) -> String {
        format!(
            "cost of a broker for records of 1 KiB in batches of several sizes (one connection, acks=1, {} requests in flight), compared with \
             a bare loop that receives, writes and answers",
            topic::IN_FLIGHT
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        super::moving()
    }

    fn cases(&self) -> Vec<Case> {
        let names = super::labels(&self.nodes).chain([floor::LABEL]);
        super::by_size(&SIZES, names, "batch_bytes")
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(&self.nodes, case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some((_, len)) = SIZES.iter().find(|(label, _)| *label == case.group) else {
            return Ok(Outcome::Skipped("no such size".to_owned()));
        };
        let bytes = self.bench.scale().choose(1 << 20, 32 << 20, 96 << 20, 256 << 20);
        let bytes = if pass == Pass::Integrity { bytes.min(16 << 20) } else { bytes };
        self.once(case, (*len, bytes.max(2 * *len as u64)), pass == Pass::Integrity)
    }
}
