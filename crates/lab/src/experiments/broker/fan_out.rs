//! Bytes read from the device for consumers that read the same old records one after another, with
//! enough memory to hold all records.

use crate::error::LabError;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::experiments::broker::reheat::Sweep;
use crate::experiments::broker::{Fill, Systems};
use crate::harness::bench::Bench;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::Metric;

const CONSUMERS: usize = 4;

/// Default fetch size of Kafka's consumer for a partition, in bytes.
const FETCH_BYTES: i32 = 1 << 20;

const BATCH_LEN: usize = 16 << 10;

/// Largest share of the log in the page cache at which a run is valid: beyond it, the brokers would
/// read too little from the device.
const STILL_WARM: f64 = 0.02;

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct FanOut<'b> {
    bench: &'b Bench,
    subjects: Vec<(Node, Filled)>,
}

impl<'b> FanOut<'b> {
    /// Starts the brokers and writes their logs.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let bytes: u64 = bench.scale().choose(4 << 20, 256 << 20, 1 << 30, 4 << 30);
        let segment_bytes = (bytes / 8).max(1 << 20);
        let subjects = super::filled(
            bench,
            systems,
            Fill { topic: "fan-out", segment_bytes, batch_len: BATCH_LEN, bytes },
        )?;
        Ok(FanOut { bench, subjects })
    }

    fn once(&self, node: &Node, filled: &Filled) -> Result<Option<Metrics>, LabError> {
        if topic::evict(node, &filled.place)?.is_none_or(|share| share > STILL_WARM) {
            return Ok(None);
        }
        let pinned = self.bench.places().pin_receiver();
        let sweeps = (0..CONSUMERS).map(|_| Sweep::over(node, filled, FETCH_BYTES));
        let sweeps = sweeps.collect::<Result<Vec<_>, _>>()?;
        drop(pinned);
        let rate = |sweep: &Sweep| filled.bytes() as f64 / 1e9 / sweep.time.as_secs_f64();
        let mut metrics = Metrics::from([
            ("first_gb_per_s".to_owned(), rate(&sweeps[0])),
            ("last_gb_per_s".to_owned(), rate(&sweeps[CONSUMERS - 1])),
        ]);
        let device: Option<u64> = sweeps.iter().map(|sweep| sweep.device_bytes).sum();
        let by_log = device.map(|bytes| bytes as f64 / filled.bytes() as f64);
        metrics.extend(by_log.map(|by_log| ("device_by_log".to_owned(), by_log)));
        Ok(Some(metrics))
    }
}

impl Experiment for FanOut<'_> {
    fn name(&self) -> &'static str {
        "broker-fan-out"
    }

    fn shows(&self) -> String {
        format!(
            "rate of {CONSUMERS} consumers, one after the other, of a log that is on the device only and fits into memory; bytes that the \
             device read for all of them, as a multiple of the length of the log"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::more("first_gb_per_s", "first consumer", "GB/s"),
            Metric::more("last_gb_per_s", "last consumer", "GB/s"),
            Metric::less("device_by_log", "device by log", ""),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let case = |(node, filled): &(Node, Filled)| {
            Case::new("", node.system().label())
                .with("log_bytes", filled.bytes())
                .with("fetch_bytes", FETCH_BYTES)
        };
        self.subjects.iter().map(case).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let subject = self.subjects.iter().find(|(node, _)| node.system().label() == case.name);
        let Some((node, filled)) = subject else {
            return Ok(Outcome::Skipped("no such broker".to_owned()));
        };
        if pass == Pass::Integrity {
            topic::evict(node, &filled.place)?;
            return Ok(Outcome::Checked(topic::verify(node.address(), filled, 0, FETCH_BYTES)?));
        }
        let _others = super::alone(self.subjects.iter().map(|(node, _)| node), node.system());
        Ok(match self.once(node, filled)? {
            Some(metrics) => Outcome::Measured(metrics),
            None => Outcome::Skipped(
                "this file system does not drop pages from the page cache; use another --dir".to_owned(),
            ),
        })
    }
}
