//! Many small producers: many connections send single records, and each of them has one request in
//! flight.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;

use self::floor::Load;
use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition};
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic;
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

mod floor;

const TOPIC: &str = "many";
const PARTITIONS: i32 = 8;
const RECORD_LEN: usize = 100;

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Many<'b> {
    bench: &'b Bench,
    connections: usize,
    nodes: Vec<Node>,
}

impl<'b> Many<'b> {
    /// Starts the brokers.
    ///
    /// # Errors
    /// A broker does not start or refuses a request.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let nodes = super::started(bench, systems)?;
        for node in &nodes {
            topic::create(node, TOPIC, PARTITIONS, &[])?;
        }
        Ok(Many { bench, connections: bench.scale().choose(10, 200, 200, 200), nodes })
    }

    /// Executes rounds in which first every connection sends a record and then every connection
    /// receives its response.
    fn send(&self, address: SocketAddr, rounds: usize) -> Result<Told, LabError> {
        let batch = batch()?;
        let places = places();
        let open = |place| Ok((Connection::open(address)?, frames::produce(place, batch.clone(), 1)?, place));
        let mut connections =
            places.iter().cycle().take(self.connections).map(open).collect::<Result<Vec<_>, LabError>>()?;
        let (mut ends, mut records) = (vec![-1; places.len()], 0);
        for _ in 0..rounds {
            for (connection, frame, _) in &mut connections {
                connection.send(frame)?;
            }
            for (connection, _, place) in &mut connections {
                let offset = frames::produced(connection.receive(4)?, place)?;
                let end = &mut ends[place.partition.unsigned_abs() as usize];
                *end = offset.max(*end);
                records += 1;
            }
        }
        Ok(Told { ends, records })
    }

    /// Sends the same requests to the bare loop. Also returns the processor time of the loop and
    /// the number of records in its files.
    fn send_to_floor(&self, rounds: usize) -> Result<(Told, Duration, u64), LabError> {
        let (places, batch) = (places(), batch()?);
        let files = places.iter().map(|_| self.bench.file()).collect::<Result<Vec<_>, LabError>>()?;
        let frame_len = frames::produce(&places[0], batch.clone(), 1)?.len();
        let load = Load { places: &places, files: &files, frame_len, batch_len: batch.len() };
        let (told, spent) = floor::beside(self.bench, &load, |address| self.send(address, rounds))?;
        let lengths = files.iter().map(|file| Ok(file.metadata()?.len()));
        let bytes: u64 =
            lengths.sum::<io::Result<u64>>().map_err(LabError::step("cannot read the length of a file"))?;
        Ok((told, spent, bytes / batch.len() as u64))
    }

    /// Checks that the logs contain all acknowledged records.
    fn check(&self, case: &Case, rounds: usize) -> Result<Verdict, LabError> {
        let sum = |ends: &[i64]| ends.iter().sum::<i64>();
        let (records, grown, whole) = match self.node(case) {
            Some(node) => {
                let ends =
                    || places().iter().map(|place| topic::end(node, place)).collect::<Result<Vec<_>, _>>();
                let before = ends()?;
                let told = self.send(node.address(), rounds)?;
                let after = ends()?;
                let whole = told.ends.iter().map(|offset| offset + 1).eq(after.iter().copied());
                (told.records, u64::try_from(sum(&after) - sum(&before)).unwrap_or(0), whole)
            }
            None => {
                let (told, _, grown) = self.send_to_floor(rounds)?;
                let numbers = sum(&told.ends) + told.ends.len() as i64;
                (told.records, grown, u64::try_from(numbers) == Ok(told.records))
            }
        };
        let what = format!("{records} records acknowledged, the logs grew by {grown}");
        Ok(Verdict { sound: whole && grown == records, what })
    }

    fn node(&self, case: &Case) -> Option<&Node> {
        self.nodes.iter().find(|node| node.system().label() == case.name)
    }
}

/// Number of acknowledged records, and their offsets.
struct Told {
    /// Last acknowledged offset of each partition.
    ends: Vec<i64>,
    records: u64,
}

fn places() -> Vec<TopicPartition> {
    (0..PARTITIONS).map(|partition| TopicPartition { topic: TOPIC.to_owned(), partition }).collect()
}

/// A batch of one record.
fn batch() -> Result<Bytes, LabError> {
    Ok(frames::batch(RECORD_LEN + 90, RECORD_LEN, 1)?.0.freeze())
}

impl Experiment for Many<'_> {
    fn name(&self) -> &'static str {
        "broker-many-producers"
    }

    fn shows(&self) -> String {
        format!(
            "cost of a broker for single records of {RECORD_LEN} bytes from {} connections to {PARTITIONS} partitions, one request in flight \
             on each, acks=1, compared with a bare loop that receives, writes and answers",
            self.connections
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::more("records_per_cpu_s", "records by broker CPU", "/s"),
            Metric::more("records_per_s", "records", "/s"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        super::labels(&self.nodes)
            .chain([super::harness::floor::LABEL])
            .map(|name| Case::new("", name).with("connections", self.connections))
            .collect()
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(&self.nodes, case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let rounds = self.bench.scale().choose(5, 30, 100, 300);
        let pinned = self.bench.places().pin_receiver();
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(self.check(case, rounds)?));
        }
        let start = Instant::now();
        let (records, spent) = match self.node(case) {
            Some(node) => {
                let before = Spent::of(node.pid());
                let told = self.send(node.address(), rounds)?;
                (told.records, Spent::since(node.pid(), &before))
            }
            None => {
                let (told, spent, _) = self.send_to_floor(rounds)?;
                (told.records, spent)
            }
        };
        let wall = start.elapsed();
        drop(pinned);
        let rate = |seconds: f64| records as f64 / seconds.max(f64::MIN_POSITIVE);
        Ok(Outcome::Measured(Metrics::from([
            ("records_per_cpu_s".to_owned(), rate(spent.as_secs_f64())),
            ("records_per_s".to_owned(), rate(wall.as_secs_f64())),
        ])))
    }
}
