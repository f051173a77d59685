//! Time from the launch of a broker to its first response.

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::topic;
use crate::harness::bench::Bench;
use crate::harness::process;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const EMPTY: &str = "on an empty directory";

/// Maximum number of partitions of one topic. Kafka's controller changes at most 10 000 partitions
/// in a request.
const TOPIC_PARTITIONS: i32 = 1000;

/// The experiment, which starts brokers in its runs.
#[derive(Debug)]
pub struct Start<'b> {
    bench: &'b Bench,
    systems: Systems,
    partitions: i32,
    /// Brokers with many partitions. The first run of a system creates its broker, which is stopped
    /// between runs.
    large: Vec<Node>,
}

impl<'b> Start<'b> {
    /// Creates the experiment without a broker.
    ///
    /// # Errors
    /// None.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let partitions = bench.scale().choose(10, 200, 2_000, 10_000);
        Ok(Start { bench, systems: systems.clone(), partitions, large: Vec::new() })
    }

    fn full(&self) -> String {
        format!("with {} partitions", self.partitions)
    }

    /// Returns a stopped broker whose directory contains the partitions.
    fn large(&mut self, system: System) -> Result<&mut Node, LabError> {
        let found = self.large.iter().position(|node| node.system() == system);
        let index = match found {
            Some(index) => index,
            None => {
                let mut node = Node::new(self.bench, &self.systems, system)?;
                node.start(self.bench)?;
                let (mut left, mut topics) = (self.partitions, 0);
                while left > 0 {
                    let count = left.min(TOPIC_PARTITIONS);
                    topic::create(&node, &format!("start-{topics}"), count, &[])?;
                    (left, topics) = (left - count, topics + 1);
                }
                node.stop()?;
                self.large.push(node);
                self.large.len() - 1
            }
        };
        Ok(&mut self.large[index])
    }
}

impl Experiment for Start<'_> {
    fn name(&self) -> &'static str {
        "broker-start"
    }

    fn shows(&self) -> String {
        "time of a broker from its launch to its first answer, and its memory then; Kafka's directory is formatted before".to_owned()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("start_ms", "start", "ms"),
            Metric::less("resident_mb", "memory", "MB"),
            Metric::less("descriptors", "descriptors", ""),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let systems = self.systems.all();
        let of = |group: String| systems.iter().map(move |system| Case::new(&group, system.label()));
        of(EMPTY.to_owned()).chain(of(self.full())).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let system = self.systems.all().into_iter().find(|system| system.label() == case.name);
        let Some(system) = system else { return Ok(Outcome::Skipped("no such broker".to_owned())) };
        let bench = self.bench;
        let mut fresh;
        let node = if case.group == EMPTY {
            fresh = Node::new(bench, &self.systems, system)?;
            fresh.prepare()?;
            &mut fresh
        } else {
            self.large(system)?
        };
        let took = node.start(bench)?;
        let (resident, descriptors) = (process::resident_bytes(node.pid()), process::descriptors(node.pid()));
        if pass == Pass::Integrity {
            topic::create(node, "proof", 1, &[])?;
            let place = super::harness::frames::TopicPartition { topic: "proof".to_owned(), partition: 0 };
            let filled = topic::fill(node, place, 1 << 10, 10 << 10)?;
            let verdict: Verdict = topic::verify(node.address(), &filled, 0, 1 << 20)?;
            topic::delete(node, "proof")?;
            node.stop()?;
            return Ok(Outcome::Checked(verdict));
        }
        node.stop()?;
        Ok(Outcome::Measured(Metrics::from([
            ("start_ms".to_owned(), took.as_secs_f64() * 1e3),
            ("resident_mb".to_owned(), resident as f64 / 1e6),
            ("descriptors".to_owned(), descriptors as f64),
        ])))
    }
}
