//! Live producers and tail consumers: for each partition one connection sends a record whenever one
//! is due, and another one reads the records. A record's number is its offset, so both have the
//! time at which it was due. An experiment may omit the consumers.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use levada_base::batch::BatchView;

use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition, Wanted};
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic;
use crate::harness::bench::Bench;
use crate::harness::pace::{self, FixedRate, Latencies, joined};
use crate::method::experiment::Metrics;

/// Records to send, and their rate.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) topic: String,
    pub(crate) partitions: i32,
    /// Records a second, of all partitions together.
    pub(crate) per_second: f64,
    pub(crate) record_len: usize,
    /// As in Produce: 1, or -1 for all replicas in sync.
    pub(crate) acks: i16,
    /// Consumers read the records.
    pub(crate) consumed: bool,
}

/// Outcome.
#[derive(Debug)]
pub(crate) struct LiveResult {
    /// From when a record was due until it was acknowledged.
    pub(crate) produce: Latencies,
    /// Time from the due time of a record until a consumer had it.
    pub(crate) tail: Latencies,
    /// Records sent and acknowledged, and read if there are consumers.
    pub(crate) records: u64,
}

/// The end of the load.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StopCondition<'a> {
    /// After this time.
    Time(Duration),
    /// Set to end the load.
    Told(&'a AtomicBool),
}

/// Counted as `u64::MAX` while it is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// Number of records of a lane that has failed: nothing more is sent and awaited.
const FAILED: u64 = 0;

/// Time that a consumer waits for a record before it repeats the request.
const MAX_WAIT_MS: i32 = 100;

/// The share of a second at the beginning that is not counted: connections warm up.
const WARM_UP: f64 = 0.1;

impl Live {
    /// Runs until it is over and every record has arrived. Partitions are led by these brokers in
    /// turn.
    pub(crate) fn run(
        &self,
        bench: &Bench,
        leaders: &[&Node],
        until: StopCondition<'_>,
    ) -> Result<LiveResult, LabError> {
        let per_second = self.per_second / f64::from(self.partitions);
        let begin = Instant::now() + Duration::from_millis(20);
        let lanes = (0..self.partitions).zip(leaders.iter().cycle()).map(|(partition, node)| {
            let place = TopicPartition { topic: self.topic.clone(), partition };
            let base = topic::end(node, &place)?;
            // Partitions take turns.
            let shift = Duration::from_secs_f64(f64::from(partition) / self.per_second);
            let pace = FixedRate::new(begin + shift, per_second);
            let (batch, _) = frames::batch(self.record_len + 90, self.record_len, 1)?;
            let frame = frames::produce(&place, batch.freeze(), self.acks)?;
            let warm_up = (per_second * WARM_UP) as u64;
            Ok(ProducerLane {
                place,
                base,
                pace,
                frame: frame.to_vec(),
                warm_up,
                last: AtomicU64::new(UNKNOWN),
            })
        });
        let lanes: Vec<ProducerLane> = lanes.collect::<Result<_, LabError>>()?;
        let mut lived = LiveResult { produce: Latencies::new()?, tail: Latencies::new()?, records: 0 };
        std::thread::scope(|scope| {
            let running: Vec<_> = lanes
                .iter()
                .zip(leaders.iter().cycle())
                .map(|(lane, node)| {
                    let connection = Connection::open(node.address())?;
                    let mut sender = connection.sender()?;
                    let sends = scope.spawn(move || {
                        pace::settle(bench);
                        lane.send(&mut sender, until)
                    });
                    let hears = scope.spawn(move || {
                        pace::settle(bench);
                        lane.hear(connection)
                    });
                    let reads = self.consumed.then(|| {
                        scope.spawn(move || {
                            pace::settle(bench);
                            lane.read(Connection::open(node.address())?)
                        })
                    });
                    Ok::<_, LabError>((sends, hears, reads))
                })
                .collect();
            for lane in running {
                let (sends, hears, reads) = lane?;
                lived.records += joined(sends.join())?;
                lived.produce.add(&joined(hears.join())?)?;
                if let Some(reads) = reads {
                    lived.tail.add(&joined(reads.join())?)?;
                }
            }
            Ok(lived)
        })
    }
}

impl LiveResult {
    pub(crate) fn put(&self, into: &mut Metrics) {
        self.produce.put("produce", into);
        self.tail.put("tail", into);
    }
}

/// One partition.
struct ProducerLane {
    place: TopicPartition,
    /// The offset of record 0.
    base: i64,
    pace: FixedRate,
    frame: Vec<u8>,
    /// Records at the beginning that are not counted.
    warm_up: u64,
    /// Number of records in the end; [`UNKNOWN`] before.
    last: AtomicU64,
}

impl ProducerLane {
    /// Sends each record when it is due; how many there were.
    fn send(&self, socket: &mut TcpStream, until: StopCondition<'_>) -> Result<u64, LabError> {
        self.send_all(socket, until).inspect_err(|_| self.fail())
    }

    fn send_all(&self, socket: &mut TcpStream, until: StopCondition<'_>) -> Result<u64, LabError> {
        for n in 0.. {
            self.pace.wait(n);
            let is_last = match until {
                StopCondition::Time(time) => n + 1 >= self.pace.count(time),
                StopCondition::Told(told) => told.load(Ordering::Relaxed),
            };
            if is_last {
                // Known before its answer can come. A lane that has failed stays so.
                let known = (Ordering::AcqRel, Ordering::Acquire);
                let _ = self.last.compare_exchange(UNKNOWN, n + 1, known.0, known.1);
            }
            if self.last.load(Ordering::Acquire) == FAILED {
                break;
            }
            socket.write_all(&self.frame).map_err(LabError::step("cannot send a record"))?;
            if is_last {
                break;
            }
        }
        Ok(self.last.load(Ordering::Relaxed))
    }

    /// Takes the acknowledgements.
    fn hear(&self, connection: Connection) -> Result<Latencies, LabError> {
        self.hear_all(connection).inspect_err(|_| self.fail())
    }

    fn hear_all(&self, mut connection: Connection) -> Result<Latencies, LabError> {
        let mut latencies = Latencies::new()?;
        let mut n = 0;
        while n < self.last.load(Ordering::Acquire) {
            let response = connection.receive(4)?;
            let offset = frames::produced(response, &self.place)?;
            if offset != self.offset(n) {
                return Err(self.astray(offset, n));
            }
            if n >= self.warm_up {
                latencies.done(self.pace.due(n));
            }
            n += 1;
        }
        Ok(latencies)
    }

    /// Reads the records.
    fn read(&self, mut connection: Connection) -> Result<Latencies, LabError> {
        let mut latencies = Latencies::new()?;
        let mut n = 0;
        while n < self.last.load(Ordering::Acquire) {
            let wanted = Wanted { offset: self.offset(n), max_bytes: 1 << 20, max_wait_ms: MAX_WAIT_MS };
            connection.send(&frames::fetch(&self.place, wanted)?)?;
            let body = connection.receive(4)?;
            let (_, mut records) = frames::fetched(body, &self.place)?;
            while let Ok(view) = BatchView::parse(records) {
                if view.base_offset() != self.offset(n) {
                    return Err(self.astray(view.base_offset(), n));
                }
                if n >= self.warm_up {
                    latencies.done(self.pace.due(n));
                }
                n += 1;
                records = &records[view.size_bytes()..];
            }
        }
        Ok(latencies)
    }

    /// Ends the lane: a record that was refused never arrives, and its consumer would wait for it
    /// forever.
    fn fail(&self) {
        self.last.store(FAILED, Ordering::Release);
    }

    fn offset(&self, n: u64) -> i64 {
        self.base.saturating_add_unsigned(n)
    }

    fn astray(&self, offset: i64, n: u64) -> LabError {
        let what =
            format!("record {n} of {} has offset {offset} instead of {}", self.place.topic, self.offset(n));
        LabError::step("a record went astray")(std::io::Error::other(what))
    }
}

#[cfg(test)]
mod tests;
