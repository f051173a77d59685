//! `levada bench latency`: sends single records on a schedule, and measures the time from the
//! scheduled moment of each to its acknowledgement and to its arrival at a consumer.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use levada_base::batch;
use levada_base::compress::Compression;
use levada_client::{Cluster, Isolation, LATEST, Led, Topic};
use levada_terminal::failure::Failure;
use serde_json::json;

use super::Extent;
use super::load::{Records, Schedule};
use super::meter::{self, Done, Job, Meter};
use super::pipeline::{Pipeline, allowed, until};
use super::reader::{self, Fetched, Reader};
use super::report::Report;
use crate::produce::Acks;

/// Longest wait of the broker for the next record.
const WAIT_MS: i32 = 100;

/// Time that the consumer waits for records that were acknowledged.
const STRAGGLERS: Duration = Duration::from_secs(10);

/// Measure the latency of single records
///
/// Sends one record at a time on a fixed schedule, without waiting for responses. Latency counts
/// from the time at which a record was due, so a stall of the broker counts for every record that
/// was due during the stall. A consumer on a separate connection reads the records; both times come
/// from the clock of this process.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada bench latency clicks
  levada bench latency clicks --rate 5000 --duration 1m
  levada bench latency clicks --acks 1 --output json | jq .latency_us.end_to_end")]
pub(crate) struct Latency {
    /// Name of a topic for test records
    topic: String,
    /// Partition of the records
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    partition: i32,
    /// Records per second
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Bytes of each record's value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(16..=16_000_000))]
    record_size: u32,
    /// Acknowledgement to wait for: of all replicas, of the leader (1), or none (0)
    #[arg(long, value_name = "WHO", default_value = "all")]
    acks: Acks,
    #[command(flatten)]
    extent: Extent,
}

/// State that the producer and the consumer of a measurement share.
struct Shared<'a> {
    meter: &'a Meter,
    schedule: Schedule,
    partition: i32,
    /// Distinguishes the records of this measurement from others.
    run: [u8; 8],
    sent: AtomicU64,
    is_sent: AtomicBool,
    end_to_end: Mutex<Histogram<u64>>,
    /// Delay of a record after its due time: the client's part of the latency.
    send_delay: Mutex<Histogram<u64>>,
}

impl Latency {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut topic =
            allowed(cluster.topic(&self.topic, false, Led::These(&[self.partition])), &self.topic)?;
        let leader = topic.leader(self.partition)?;
        topic.leaders.retain(|partition, _| *partition == self.partition);
        let reader = self.reader(cluster, &topic, leader)?;
        let records = Records::new(self.record_size, Compression::None);
        let meter = Meter::new(&self.extent);
        let pipeline = Pipeline::open(cluster, &topic, leader, self.acks.acks(), &meter)?;
        let shared = Shared {
            meter: &meter,
            schedule: Schedule::new(Instant::now(), f64::from(self.rate)),
            partition: self.partition,
            run: rand::random(),
            sent: AtomicU64::new(0),
            is_sent: AtomicBool::new(false),
            end_to_end: Mutex::new(meter::histogram()),
            send_delay: Mutex::new(meter::histogram()),
        };
        let jobs: Vec<Job<'_>> = vec![
            Box::new(|| {
                let sent = shared.produce(pipeline, &records);
                shared.is_sent.store(true, Ordering::Release);
                allowed(sent, &self.topic)
            }),
            Box::new(|| reader::allowed(shared.consume(reader), &self.topic)),
        ];
        let measured = meter.run(jobs)?;
        let mut report = Report::new("latency", &topic, &measured);
        report.parameters.extend([
            ("partition", json!(self.partition)),
            ("rate", json!(self.rate)),
            ("record_size", json!(self.record_size)),
            ("acks", json!(self.acks.name())),
        ]);
        report.parameters.extend(self.extent.parameters());
        report.latency("acknowledged", &measured.tally.latencies);
        report.latency("end_to_end", &lock(&shared.end_to_end));
        report.latency("send_delay", &lock(&shared.send_delay));
        report.print(self.extent.format.format, out)
    }

    fn reader<'t>(
        &self,
        cluster: &mut Cluster,
        topic: &'t Topic,
        leader: i32,
    ) -> Result<Reader<'t>, Failure> {
        let ends = cluster.offsets_at([topic], LATEST, Isolation::Uncommitted)?;
        let end = ends.get(&(self.topic.clone(), self.partition)).map_or(0, |found| found.offset);
        let positions = BTreeMap::from([(self.partition, end)]);
        let reader = Reader::open(cluster, topic, leader, positions, WAIT_MS);
        reader::allowed(reader, &self.topic)
    }
}

impl Shared<'_> {
    fn produce(&self, mut pipeline: Pipeline<'_>, records: &Records) -> Result<(), Failure> {
        for n in 0.. {
            let due = self.schedule.due(n);
            loop {
                let now = Instant::now();
                pipeline.take(until(due, now))?;
                if self.meter.is_over() || Instant::now() >= due {
                    break;
                }
            }
            if self.meter.is_over() || self.meter.claim(due, 1) == 0 {
                break;
            }
            let value = [self.run, n.to_be_bytes()].concat();
            let mark = *value.first_chunk().expect("two halves of 8 bytes");
            let batch = records.marked(n, mark)?;
            if self.meter.counts(due) {
                meter::record(&mut lock(&self.send_delay), due.elapsed());
            }
            let done = Done { since: due, records: 1, bytes: records.size_bytes(), is_answered: true };
            pipeline.send(self.partition, batch, done)?;
            self.sent.store(n + 1, Ordering::Release);
        }
        pipeline.drain()
    }

    fn consume(&self, mut reader: Reader<'_>) -> Result<(), Failure> {
        let (mut seen, mut ended): (u64, Option<Instant>) = (0, None);
        loop {
            for fetched in reader.fetch()? {
                seen += self.receive(&fetched)?;
            }
            if self.is_sent.load(Ordering::Acquire) {
                let ended = *ended.get_or_insert_with(Instant::now);
                let sent = self.sent.load(Ordering::Acquire);
                if seen >= sent {
                    return Ok(());
                }
                if ended.elapsed() > STRAGGLERS {
                    return Err(Failure::new(format!(
                        "{} of {sent} records did not arrive at the consumer within 10 s after the last was sent",
                        sent - seen
                    )));
                }
            }
        }
    }

    /// Counts the latencies of a batch; returns the number of its records that belong to this
    /// measurement.
    fn receive(&self, fetched: &Fetched) -> Result<u64, Failure> {
        let now = Instant::now();
        let damaged = |error: batch::BatchError| Failure::new(format!("a batch cannot be read: {error}"));
        let mut seen = 0;
        for record in batch::records(&fetched.bytes).map_err(damaged)? {
            let value = record.map_err(damaged)?.value.unwrap_or_default();
            let Some((run, n)) = value.split_first_chunk::<8>() else { continue };
            let Some(n) = n.first_chunk().filter(|_| *run == self.run) else { continue };
            seen += 1;
            let due = self.schedule.due(u64::from_be_bytes(*n));
            if self.meter.counts(due) {
                meter::record(&mut lock(&self.end_to_end), now.saturating_duration_since(due));
            }
        }
        Ok(seen)
    }
}

fn lock(histogram: &Mutex<Histogram<u64>>) -> std::sync::MutexGuard<'_, Histogram<u64>> {
    histogram.lock().unwrap_or_else(PoisonError::into_inner)
}
