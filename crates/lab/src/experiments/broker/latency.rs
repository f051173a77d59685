//! Latency of a record from producer to consumer at a moderate rate, and the broker's cost per
//! record.

use std::time::Duration;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::live::{Live, StopCondition};
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic;
use crate::harness::bench::Bench;
use crate::harness::pace;
use crate::harness::process::Spent;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Latency<'b> {
    bench: &'b Bench,
    live: Live,
    nodes: Vec<Node>,
}

impl<'b> Latency<'b> {
    /// Starts the brokers.
    ///
    /// # Errors
    /// A broker does not start or refuses a request.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let live = Live {
            topic: "latency".to_owned(),
            partitions: 1,
            per_second: 1000.0,
            record_len: 1024,
            acks: 1,
            consumed: true,
        };
        let nodes = super::started(bench, systems)?;
        for node in &nodes {
            topic::create(node, &live.topic, live.partitions, &[])?;
        }
        Ok(Latency { bench, live, nodes })
    }
}

impl Experiment for Latency<'_> {
    fn name(&self) -> &'static str {
        "broker-latency"
    }

    fn shows(&self) -> String {
        let Live { per_second, record_len, .. } = self.live;
        format!(
            "time of a record of {record_len} bytes from its due time to a waiting consumer, at {per_second} a second, one record per request, \
             acks=1; and cost of the broker for each record"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let own = [Metric::less("cpu_us_per_record", "broker CPU a record", "µs")];
        pace::metrics("tail").chain(own).chain(pace::metrics("produce")).collect()
    }

    fn cases(&self) -> Vec<Case> {
        super::labels(&self.nodes)
            .map(|name| Case::new("", name).with("per_second", self.live.per_second))
            .collect()
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(&self.nodes, case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some(node) = self.nodes.iter().find(|node| node.system().label() == case.name) else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        let time = Duration::from_millis(self.bench.scale().choose(300, 1_000, 3_000, 10_000));
        let _others = super::alone(&self.nodes, node.system());
        let before = Spent::of(node.pid());
        let lived = self.live.run(self.bench, &[node], StopCondition::Time(time))?;
        let spent = Spent::since(node.pid(), &before);
        if pass == Pass::Integrity {
            let what = format!("{} records acknowledged and read in order", lived.records);
            return Ok(Outcome::Checked(Verdict { sound: lived.records > 0, what }));
        }
        let mut metrics = Metrics::new();
        lived.put(&mut metrics);
        metrics
            .insert("cpu_us_per_record".to_owned(), spent.as_secs_f64() * 1e6 / lived.records.max(1) as f64);
        Ok(Outcome::Measured(metrics))
    }
}
