//! Cost of an append by a write and by a mapping: `levada.log.append`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition};
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::topic::{self, Filled, IN_FLIGHT};
use crate::harness::bench::Bench;
use crate::harness::pace::Latencies;
use crate::harness::process::{Spent, faults};
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::Metric;

/// Values of `levada.log.append`. The default is first: the tables compare the other with it.
const WAYS: [&str; 2] = ["pwrite", "mapped"];

const SIZES: [(&str, usize); 3] = [("4 KiB", 4 << 10), ("64 KiB", 64 << 10), ("1 MiB", 1 << 20)];

/// The experiment, with a broker for each way.
#[derive(Debug)]
pub struct Append<'b> {
    bench: &'b Bench,
    nodes: Vec<(&'static str, Node)>,
    /// Number of topics so far; each run creates a new one.
    topics: usize,
}

impl<'b> Append<'b> {
    /// Starts the brokers.
    ///
    /// # Errors
    /// A broker does not start.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let start = |way| {
            let mut node = Node::new(bench, systems, System::Levada)?.with("levada.log.append", way);
            node.start(bench)?;
            Ok((way, node))
        };
        let nodes = WAYS.into_iter().map(start).collect::<Result<_, LabError>>()?;
        Ok(Append { bench, nodes, topics: 0 })
    }
}

impl Experiment for Append<'_> {
    fn name(&self) -> &'static str {
        "broker-append"
    }

    fn shows(&self) -> String {
        format!(
            "cost of Levada for records of 1 KiB in batches of several sizes (one connection, acks=1, {IN_FLIGHT} requests in flight), appended \
             by a vectored write or by a copy into a mapping; includes the processor time of the thread that prepares mappings, and excludes \
             the kernel's later writeback to the device"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let own = [
            Metric::less("faults_per_mb", "page faults", "/MB"),
            Metric::less("ack_p50_ms", "acknowledged p50", "ms"),
            Metric::less("ack_p99_ms", "acknowledged p99", "ms"),
        ];
        super::moving().into_iter().chain(own).collect()
    }

    fn cases(&self) -> Vec<Case> {
        let of = |(label, bytes): &(&str, usize)| {
            let (label, bytes) = ((*label).to_owned(), *bytes);
            WAYS.map(|way| Case::new(&label, way).with("batch_bytes", bytes))
        };
        SIZES.iter().flat_map(of).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let size = SIZES.iter().find(|(label, _)| *label == case.group);
        let node = self.nodes.iter().find(|(way, _)| *way == case.name);
        let (Some((_, len)), Some((_, node))) = (size, node) else {
            return Ok(Outcome::Skipped("no such case".to_owned()));
        };
        // More than a segment in the larger runs, so that the measured batches include rolls.
        let bytes: u64 = self.bench.scale().choose(1 << 20, 32 << 20, 256 << 20, 1536 << 20);
        let bytes = if pass == Pass::Integrity { bytes.min(24 << 20) } else { bytes };
        self.topics += 1;
        let place = TopicPartition { topic: format!("append-{:04}", self.topics), partition: 0 };
        let (batch, records) = frames::batch(*len, 1024, 1)?;
        let batches = usize::try_from(bytes.div_ceil(*len as u64)).unwrap_or(usize::MAX).max(2);
        let filled = Filled { place, batch_len: batch.len(), records, batches };
        let frame = frames::produce(&filled.place, batch.freeze(), 1)?;
        self.bench.reserve(filled.bytes())?;
        let config = [("file.delete.delay.ms", "1000"), ("segment.bytes", "134217728")];
        topic::create(node, &filled.place.topic, 1, &config)?;
        let pinned = self.bench.places().pin_receiver();
        let appended = append(&mut Connection::open(node.address())?, &frame, &filled, node.pid())?;
        drop(pinned);
        let outcome = if pass == Pass::Integrity {
            let all = Filled { batches: filled.batches + 1, ..filled.clone() };
            Outcome::Checked(topic::verify(node.address(), &all, 0, 8 << 20)?)
        } else {
            Outcome::Measured(appended.metrics(&filled))
        };
        topic::delete(node, &filled.place.topic)?;
        Ok(outcome)
    }
}

/// Cost of all batches except the first.
struct Appended {
    latencies: Latencies,
    cpu: Duration,
    faults: u64,
    wall: Duration,
}

impl Appended {
    fn metrics(&self, filled: &Filled) -> Metrics {
        let mut metrics = super::moved(filled.bytes(), self.cpu, self.wall);
        let own = [
            ("faults_per_mb", self.faults as f64 / (filled.bytes() as f64 / 1e6)),
            ("ack_p50_ms", self.latencies.quantile_ms(0.5)),
            ("ack_p99_ms", self.latencies.quantile_ms(0.99)),
        ];
        metrics.extend(own.map(|(name, value)| (name.to_owned(), value)));
        metrics
    }
}

/// Sends a frame once without measuring it, then once for each batch, and measures that. The first
/// batch creates files, and the requests in flight wait for it. With large batches these requests
/// would be more than 1 % of all and would determine the p99.
fn append(
    connection: &mut Connection,
    frame: &[u8],
    filled: &Filled,
    pid: u32,
) -> Result<Appended, LabError> {
    topic::send(connection, frame, &Filled { batches: 1, ..filled.clone() }, 0)?;
    let (spent, faulted, start) = (Spent::of(pid), faults(pid), Instant::now());
    let latencies = send(connection, frame, filled, filled.offset(1))?;
    let wall = start.elapsed();
    Ok(Appended { latencies, cpu: Spent::since(pid, &spent), faults: faults(pid) - faulted, wall })
}

/// Sends a frame once for each batch. The offsets must begin at `base`. Returns the latencies from
/// send to acknowledgement.
fn send(
    connection: &mut Connection,
    frame: &[u8],
    filled: &Filled,
    base: i64,
) -> Result<Latencies, LabError> {
    let (mut latencies, mut under_way) = (Latencies::new()?, VecDeque::with_capacity(IN_FLIGHT));
    let mut sent = 0;
    for received in 0..filled.batches {
        while sent < filled.batches.min(received + IN_FLIGHT) {
            under_way.push_back(Instant::now());
            connection.send(frame)?;
            sent += 1;
        }
        let offset = frames::produced(connection.receive(4)?, &filled.place)?;
        if let Some(start) = under_way.pop_front() {
            latencies.done(start);
        }
        let expected = base + filled.offset(received);
        if offset != expected {
            let what = format!("offset {offset} instead of {expected}");
            return Err(LabError::step("a batch has a wrong offset")(std::io::Error::other(what)));
        }
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::broker::harness::floor;
    use crate::method::limits::Scale;

    #[test]
    fn append_p99_excludes_the_first_batch() {
        let dir = tempfile::tempdir().unwrap();
        let bench = Bench::new(dir.path(), Scale::Tiny).unwrap();
        let (file, place) = (bench.file().unwrap(), TopicPartition { topic: "a".to_owned(), partition: 0 });
        let (batch, records) = frames::batch(4096, 1024, 1).unwrap();
        let filled = Filled { place, batch_len: batch.len(), records, batches: 7 };
        let frame = frames::produce(&filled.place, batch.freeze(), 1).unwrap();
        let mut measured = 0;
        floor::beside(
            &bench,
            |stream| floor::produce(&filled, frame.len(), &file, stream),
            |address| {
                let mut connection = Connection::open(address)?;
                measured = append(&mut connection, &frame, &filled, std::process::id())?.latencies.count();
                Ok(())
            },
        )
        .unwrap();
        let written = file.metadata().unwrap().len() / filled.batch_len as u64;
        assert_eq!((written, measured), (8, 7));
    }
}
