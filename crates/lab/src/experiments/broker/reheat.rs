//! Recovery of evicted pages. Closed segments are in the page cache, except for a small part that
//! was evicted once. The experiment measures the device reads of each later pass of a consumer, and
//! the rate of the pass compared with a pass without missing pages.

use std::fs::File;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levada_io::Extent;
use levada_io::residency;
use rustix::fs::Advice;

use crate::error::LabError;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::experiments::broker::{Fill, Systems};
use crate::harness::bench::Bench;
use crate::harness::process;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::Metric;

const SIZES: [(&str, i32); 2] = [("50 MiB", 50 << 20), ("1 MiB", 1 << 20)];

const BATCH_LEN: usize = 16 << 10;

/// One byte in this number is evicted.
const SHARE: u64 = 256;

/// Number of hot passes before the eviction. One more follows the cold passes, so that a change of
/// the processor's speed affects both sides of the comparison.
const HOT_PASSES: usize = 2;

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Reheat<'b> {
    bench: &'b Bench,
    subjects: Vec<(Node, Filled)>,
}

impl<'b> Reheat<'b> {
    /// Starts the brokers and writes slightly more than two segments for each.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let segment_bytes: u64 = bench.scale().choose(2 << 20, 64 << 20, 512 << 20, 1 << 30);
        let bytes = 2 * segment_bytes + segment_bytes / 8;
        let subjects = super::filled(
            bench,
            systems,
            Fill { topic: "reheat", segment_bytes, batch_len: BATCH_LEN, bytes },
        )?;
        Ok(Reheat { bench, subjects })
    }

    fn once(&self, (node, filled): &(Node, Filled), max_bytes: i32) -> Result<Option<Metrics>, LabError> {
        let files = topic::sync(node, &filled.place)?;
        files.iter().try_for_each(heat)?;
        let pinned = self.bench.places().pin_receiver();
        let pass = || Sweep::over(node, filled, max_bytes);
        pass()?;
        let mut hot = (0..HOT_PASSES).map(|_| pass()).collect::<Result<Vec<_>, _>>()?;
        let Some(evicted) = evict_some(&files[0])? else { return Ok(None) };
        let (first, second) = (pass()?, pass()?);
        hot.push(pass()?);
        drop(pinned);
        let mut times: Vec<Duration> = hot.iter().map(|pass| pass.time).collect();
        times.sort_unstable();
        let hot = times[times.len() / 2].as_secs_f64();
        let rate = |pass: &Sweep| 100.0 * hot / pass.time.as_secs_f64().max(f64::MIN_POSITIVE);
        let mut metrics = Metrics::from([
            ("hot_gb_per_s".to_owned(), filled.bytes() as f64 / 1e9 / hot.max(f64::MIN_POSITIVE)),
            ("evicted_mb".to_owned(), evicted as f64 / 1e6),
            ("first_by_hot".to_owned(), rate(&first)),
            ("second_by_hot".to_owned(), rate(&second)),
        ]);
        for (name, pass) in [("first_device_mb", first), ("second_device_mb", second)] {
            metrics.extend(pass.device_bytes.map(|bytes| (name.to_owned(), bytes as f64 / 1e6)));
        }
        Ok(Some(metrics))
    }
}

/// Cost of one consumer that reads everything.
pub(super) struct Sweep {
    pub(super) time: Duration,
    /// Bytes that the broker read from the device; none if the kernel does not report them.
    pub(super) device_bytes: Option<u64>,
}

impl Sweep {
    /// Reads everything on a new connection.
    pub(super) fn over(node: &Node, filled: &Filled, max_bytes: i32) -> Result<Self, LabError> {
        let before = process::device_bytes(node.pid());
        let start = Instant::now();
        replay::once(node, filled, max_bytes)?;
        let time = start.elapsed();
        let after = process::device_bytes(node.pid());
        Ok(Self { time, device_bytes: after.zip(before).map(|(after, before)| after - before) })
    }
}

/// Reads a file into the page cache.
fn heat(file: &File) -> Result<(), LabError> {
    let mut reader = file.try_clone().map_err(LabError::step("cannot share a file"))?;
    std::io::Seek::rewind(&mut reader).map_err(LabError::step("cannot read a segment"))?;
    std::io::copy(&mut reader, &mut std::io::sink()).map_err(LabError::step("cannot read a segment"))?;
    Ok(())
}

/// Evicts a range in the middle of a file from the page cache and returns the number of evicted
/// bytes; none if the kernel keeps the pages or does not report them.
fn evict_some(file: &File) -> Result<Option<u64>, LabError> {
    let file = file.try_clone().map_err(LabError::step("cannot share a file"))?;
    let bytes = file.metadata().map_err(LabError::step("cannot read the size of a segment"))?.len();
    let len = (bytes / SHARE).max(16 << 10);
    // No large folio of the page cache crosses this boundary.
    let offset = (bytes / 2).next_multiple_of(2 << 20).min(bytes - len);
    let extent = Extent { file: Arc::new(file), offset, len };
    rustix::fs::fadvise(&extent.file, offset, NonZeroU64::new(len), Advice::DontNeed)
        .map_err(LabError::step("cannot evict pages"))?;
    Ok(residency::cached_bytes(&extent).map(|cached| len - cached).filter(|missing| *missing > 0))
}

impl Experiment for Reheat<'_> {
    fn name(&self) -> &'static str {
        "broker-reheat"
    }

    fn shows(&self) -> String {
        format!(
            "bytes that the first and the second pass of a consumer read from the device after one byte in {SHARE} of the first sealed segment \
             has left the page cache, and the rate of these passes divided by that of a pass without missing pages"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::more("hot_gb_per_s", "hot", "GB/s"),
            Metric::neither("evicted_mb", "pushed out", "MB"),
            Metric::less("first_device_mb", "first pass: device", "MB"),
            Metric::more("first_by_hot", "first pass: rate by hot", "%"),
            Metric::less("second_device_mb", "second pass: device", "MB"),
            Metric::more("second_by_hot", "second pass: rate by hot", "%"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let names = self.subjects.iter().map(|(node, _)| node.system().label());
        let cases = |(label, bytes): &(&'static str, i32)| {
            let (label, bytes) = (*label, *bytes);
            names.clone().map(move |name| Case::new(label, name).with("fetch_bytes", bytes))
        };
        SIZES.iter().flat_map(cases).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let size = SIZES.iter().find(|(label, _)| *label == case.group);
        let subject = self.subjects.iter().find(|(node, _)| node.system().label() == case.name);
        let Some(((_, max_bytes), subject)) = size.zip(subject) else {
            return Ok(Outcome::Skipped("no such case".to_owned()));
        };
        if pass == Pass::Integrity {
            for file in topic::sync(&subject.0, &subject.1.place)? {
                heat(&file)?;
                evict_some(&file)?;
            }
            return Ok(Outcome::Checked(topic::verify(subject.0.address(), &subject.1, 0, *max_bytes)?));
        }
        let nodes = self.subjects.iter().map(|(node, _)| node);
        let _others = super::alone(nodes, subject.0.system());
        Ok(match self.once(subject, *max_bytes)? {
            Some(metrics) => Outcome::Measured(metrics),
            None => Outcome::Skipped(
                "this file system does not drop pages from the page cache; use another --dir".to_owned(),
            ),
        })
    }
}
