//! Live producers and tail consumers. For each partition one connection sends a record at each due
//! time, and another connection reads the records. The offset of a record gives its number, so that
//! both connections know its due time. An experiment may omit the consumers.

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

/// Load of live clients: records to send, and their rate.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) topic: String,
    pub(crate) partitions: i32,
    /// Records per second of all partitions together.
    pub(crate) per_second: f64,
    pub(crate) record_len: usize,
    /// `acks` of Produce: 1, or -1 for all replicas in sync.
    pub(crate) acks: i16,
    /// True if consumers read the records.
    pub(crate) consumed: bool,
}

/// Latencies and number of records of a load.
#[derive(Debug)]
pub(crate) struct LiveResult {
    /// Time from the due time of a record until its acknowledgement.
    pub(crate) produce: Latencies,
    /// Time from the due time of a record until a consumer has received it.
    pub(crate) tail: Latencies,
    /// Number of records that were sent and acknowledged, and also read if there are consumers.
    pub(crate) records: u64,
}

/// Condition that ends the load.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StopCondition<'a> {
    /// Ends after this time.
    Time(Duration),
    /// Ends once this flag is set.
    Told(&'a AtomicBool),
}

/// Value of the number of records while the number is not known.
const UNKNOWN: u64 = u64::MAX;

/// Number of records that marks a failed lane: its threads send and await no more records.
const FAILED: u64 = 0;

/// Time in ms that a consumer waits for a record before it repeats the request.
const MAX_WAIT_MS: i32 = 100;

/// Seconds at the beginning that do not count, because connections warm up.
const WARM_UP: f64 = 0.1;

impl Live {
    /// Runs the load until its stop condition is met and every record has arrived. The brokers in
    /// `leaders` lead the partitions in turn.
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
            // The due times of the partitions are evenly spaced.
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

/// Clients of one partition.
struct ProducerLane {
    place: TopicPartition,
    /// Offset of record 0.
    base: i64,
    pace: FixedRate,
    frame: Vec<u8>,
    /// Number of records at the beginning that do not count.
    warm_up: u64,
    /// Total number of records; [`UNKNOWN`] until the last one is due.
    last: AtomicU64,
}

impl ProducerLane {
    /// Sends each record at its due time. Returns the number of records.
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
                // Set the number before the response to the last record can arrive. A failed lane
                // keeps [`FAILED`].
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

    /// Receives the acknowledgements of all records.
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

    /// Fetches all records.
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

    /// Ends the lane after an error. Otherwise the consumer of a refused record would wait forever.
    fn fail(&self) {
        self.last.store(FAILED, Ordering::Release);
    }

    fn offset(&self, n: u64) -> i64 {
        self.base.saturating_add_unsigned(n)
    }

    fn astray(&self, offset: i64, n: u64) -> LabError {
        let what =
            format!("record {n} of {} has offset {offset} instead of {}", self.place.topic, self.offset(n));
        LabError::step("a record has a wrong offset")(std::io::Error::other(what))
    }
}

#[cfg(test)]
mod tests;
