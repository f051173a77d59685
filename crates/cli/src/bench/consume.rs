//! `levada bench consume`: all partitions of a topic, from their start, again and again.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use levada_client::{Cluster, EARLIEST, FoundOffset, Isolation, LATEST, Led};
use serde_json::json;

use super::Extent;
use super::meter::{Done, Job, Meter};
use super::produce::by_leader;
use super::reader::{Reader, allowed};
use super::report::Report;
use levada_terminal::failure::Failure;

/// Longest wait of a broker for records; there are always some.
const WAIT_MS: i32 = 100;

/// Measure the throughput of consuming
///
/// One connection to each leader with one fetch at a time. The command reads each partition from
/// its start to the end that it had when the command started, and then from its start again. It
/// verifies the checksums of batches, and does not decompress them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada bench consume clicks
  levada bench consume clicks --records 10000000 --warm-up 0s --output json | jq .bytes_per_s")]
pub(crate) struct Consume {
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    extent: Extent,
}

/// The work of one connection.
struct Lane<'a> {
    reader: Reader<'a>,
    /// Start and end of each partition.
    ranges: BTreeMap<i32, (i64, i64)>,
    meter: &'a Meter,
    records: Option<u64>,
}

impl Consume {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let topic = allowed(cluster.topic(&self.topic, false, Led::Every), &self.topic)?;
        let mut at = |moment| cluster.offsets_at([&topic], moment, Isolation::Uncommitted);
        let (starts, ends) = (at(EARLIEST)?, at(LATEST)?);
        let meter = Meter::new(&self.extent);
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for (leader, partitions) in by_leader(&topic) {
            let range = |partition: &i32| {
                let place = (self.topic.clone(), *partition);
                let offset =
                    |found: &BTreeMap<_, FoundOffset>| found.get(&place).map_or(0, |found| found.offset);
                (*partition, (offset(&starts), offset(&ends)))
            };
            let ranges: BTreeMap<i32, (i64, i64)> =
                partitions.iter().map(range).filter(|(_, (start, end))| start < end).collect();
            if ranges.is_empty() {
                continue;
            }
            let positions = ranges.iter().map(|(partition, (start, _))| (*partition, *start)).collect();
            let reader = Reader::open(cluster, &topic, leader, positions, WAIT_MS)?;
            let lane = Lane { reader, ranges, meter: &meter, records: self.extent.records };
            jobs.push(Box::new(move || lane.run()));
        }
        if jobs.is_empty() {
            let what = format!("topic {} has no records", self.topic);
            return Err(Failure::with_next(what, format!("levada bench produce {} fills it", self.topic)));
        }
        let measured = allowed(meter.run(jobs), &self.topic)?;
        let mut report = Report::new("consume", &topic, &measured);
        report.parameters.push(("max_wait_ms", json!(WAIT_MS)));
        report.parameters.extend(self.extent.parameters());
        report.latency("fetch", &measured.tally.latencies);
        report.print(self.extent.format.format, out)
    }
}

impl Lane<'_> {
    fn run(mut self) -> Result<(), Failure> {
        while !self.meter.is_over() && self.records.is_none_or(|limit| self.meter.records() < limit) {
            let since = Instant::now();
            let batches = self.reader.fetch()?;
            let records = batches.iter().map(|batch| batch.records).sum();
            let bytes = batches.iter().map(|batch| batch.bytes.len() as u64).sum();
            if !batches.is_empty() {
                self.meter.note(&Done { since, records, bytes, is_answered: true });
            }
            for (partition, (start, end)) in &self.ranges {
                if self.reader.position(*partition) >= *end {
                    self.reader.seek(*partition, *start);
                }
            }
        }
        Ok(())
    }
}
