//! Cost of an idle broker.

use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::process::{self, Spent};
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::Metric;

const PARTITIONS: i32 = 10;

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Idle<'b> {
    bench: &'b Bench,
    subjects: Vec<(Node, Filled)>,
}

impl<'b> Idle<'b> {
    /// Starts the brokers and sends them a few records.
    ///
    /// # Errors
    /// A broker does not start or refuses a request.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let subject = |node: Node| {
            topic::create(&node, "idle", PARTITIONS, &[])?;
            let filled = topic::fill(
                &node,
                TopicPartition { topic: "idle".to_owned(), partition: 0 },
                1 << 10,
                100 << 10,
            )?;
            Ok((node, filled))
        };
        let subjects =
            super::started(bench, systems)?.into_iter().map(subject).collect::<Result<_, LabError>>()?;
        Ok(Idle { bench, subjects })
    }
}

impl Experiment for Idle<'_> {
    fn name(&self) -> &'static str {
        "broker-idle"
    }

    fn shows(&self) -> String {
        format!("processor time and memory of a broker with {PARTITIONS} partitions and no connection")
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_ms_per_s", "CPU", "ms/s"),
            Metric::less("wakeups_per_s", "wake-ups", "/s"),
            Metric::less("resident_mb", "memory", "MB"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        self.subjects.iter().map(|(node, _)| Case::new("", node.system().label())).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some((node, filled)) = self.subjects.iter().find(|(node, _)| node.system().label() == case.name)
        else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(topic::verify(node.address(), filled, 0, 1 << 20)?));
        }
        let time = Duration::from_millis(self.bench.scale().choose(50, 1_000, 3_000, 10_000));
        let (before, wakeups, start) = (Spent::of(node.pid()), process::wakeups(node.pid()), Instant::now());
        std::thread::sleep(time);
        let seconds = start.elapsed().as_secs_f64();
        let woken = process::wakeups(node.pid()).saturating_sub(wakeups);
        Ok(Outcome::Measured(Metrics::from([
            ("cpu_ms_per_s".to_owned(), Spent::since(node.pid(), &before).as_secs_f64() * 1e3 / seconds),
            ("wakeups_per_s".to_owned(), woken as f64 / seconds),
            ("resident_mb".to_owned(), process::resident_bytes(node.pid()) as f64 / 1e6),
        ])))
    }
}
