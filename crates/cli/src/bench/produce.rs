//! `levada bench produce`: batches for all partitions of a topic, as fast as the broker accepts
//! them or at a rate.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use levada_client::{Cluster, Led, Topic};
use serde_json::json;

use super::Extent;
use super::load::{Records, Schedule};
use super::meter::{Done, Job, Meter};
use super::pipeline::{LOOK, Pipeline, allowed, until};
use super::report::Report;
use crate::produce::{Acks, Codec};
use levada_terminal::failure::Failure;

/// Maximum number of requests without a response on a connection, where no rate is given: the
/// default of Kafka's producers.
const IN_FLIGHT_MAX: usize = 5;

/// At a rate, a batch holds the records of this part of a second.
const BATCHES_PER_SECOND: u64 = 100;

/// Measure the throughput of producing
///
/// One connection to each leader, without idempotence. Without --rate, five requests are in flight
/// at the same time, and latency counts from sending. With --rate, batches leave by a schedule that
/// does not wait for responses, and latency counts from the moment at which a batch was due.
/// Records are random bytes without a key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada bench produce clicks
  levada bench produce clicks --record-size 1000 --acks 1 -z lz4 --duration 30s
  levada bench produce clicks --rate 50000 --output json | jq '.latency_us.acknowledged.\"p99.9\"'")]
pub(crate) struct Produce {
    /// Name of a topic for test records
    topic: String,
    /// Bytes of each record's value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    record_size: u32,
    /// Largest batch before compression, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 128_000, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    batch_bytes: u32,
    /// Records per second [default: as many as the broker accepts]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    rate: Option<u32>,
    /// Acknowledgement to wait for: of all replicas, of the leader (1), or none (0)
    #[arg(long, value_name = "WHO", default_value = "all")]
    acks: Acks,
    /// Compress batches
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none")]
    compression: Codec,
    #[command(flatten)]
    extent: Extent,
}

/// The work of one connection.
struct Lane<'a> {
    pipeline: Pipeline<'a>,
    partitions: Vec<i32>,
    records: &'a Records,
    meter: &'a Meter,
    /// Number of records of a full batch.
    batch_records: u64,
    record_bytes: u64,
    schedule: Option<Schedule>,
}

impl Produce {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let topic = allowed(cluster.topic(&self.topic, false, Led::Every), &self.topic)?;
        let records = Records::new(self.record_size, self.compression.compression());
        let meter = Meter::new(&self.extent);
        let start = Instant::now();
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for (leader, partitions) in by_leader(&topic) {
            let share = partitions.len() as f64 / topic.leaders.len() as f64;
            let lane = Lane {
                pipeline: Pipeline::open(cluster, &topic, leader, self.acks.acks(), &meter)?,
                partitions,
                records: &records,
                meter: &meter,
                batch_records: self.batch_records(share),
                record_bytes: u64::from(self.record_size),
                schedule: self.rate.map(|rate| Schedule::new(start, f64::from(rate) * share)),
            };
            jobs.push(Box::new(move || lane.run()));
        }
        let measured = allowed(meter.run(jobs), &self.topic)?;
        let mut report = Report::new("produce", &topic, &measured);
        report.parameters.extend([
            ("record_size", json!(self.record_size)),
            ("batch_bytes", json!(self.batch_bytes)),
            ("rate", json!(self.rate)),
            ("acks", json!(self.acks.name())),
            ("compression", json!(self.compression.compression().name())),
            ("in_flight", json!(self.rate.is_none().then_some(IN_FLIGHT_MAX))),
        ]);
        report.parameters.extend(self.extent.parameters());
        report.latency("acknowledged", &measured.tally.latencies);
        report.print(self.extent.format.format, out)
    }

    /// Records of a full batch on a connection with this share of the partitions.
    fn batch_records(&self, share: f64) -> u64 {
        let full = u64::from(self.batch_bytes / self.record_size).max(1);
        match self.rate {
            Some(rate) => ((f64::from(rate) * share) as u64 / BATCHES_PER_SECOND).clamp(1, full),
            None => full,
        }
    }
}

impl Lane<'_> {
    fn run(mut self) -> Result<(), Failure> {
        let mut sent = 0;
        for partition in (0..self.partitions.len()).cycle() {
            let partition = self.partitions[partition];
            let Some(since) = self.wait(sent)? else { break };
            let count = self.meter.claim(since, self.batch_records);
            if count == 0 {
                break;
            }
            let batch = self.records.batch(sent, count)?;
            let since = if self.schedule.is_some() { since } else { Instant::now() };
            let done = Done { since, records: count, bytes: count * self.record_bytes, is_answered: true };
            self.pipeline.send(partition, batch, done)?;
            sent += count;
        }
        self.pipeline.drain()
    }

    /// Waits until the next batch may leave; returns the moment at which it was due, or nothing at
    /// the end.
    fn wait(&mut self, sent: u64) -> Result<Option<Instant>, Failure> {
        self.pipeline.take(Duration::ZERO)?;
        loop {
            if self.meter.is_over() {
                return Ok(None);
            }
            let now = Instant::now();
            match self.schedule {
                None if self.pipeline.in_flight() < IN_FLIGHT_MAX => return Ok(Some(now)),
                None => self.pipeline.take(LOOK)?,
                // A batch is due with its last record.
                Some(schedule) => match schedule.due(sent + self.batch_records - 1) {
                    due if due <= now => return Ok(Some(due)),
                    due => self.pipeline.take(until(due, now))?,
                },
            }
        }
    }
}

/// Partitions by the broker that leads them.
pub(super) fn by_leader(topic: &Topic) -> BTreeMap<i32, Vec<i32>> {
    let mut lanes: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (partition, leader) in &topic.leaders {
        lanes.entry(*leader).or_default().push(*partition);
    }
    lanes
}
