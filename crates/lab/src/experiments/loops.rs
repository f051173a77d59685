//! `lab loop`: the network loop of a server, by `epoll` or by a ring.
//!
//! The loops are bare: they know all requests in advance, and receive a request, write its batch to
//! a file, and respond. The requests, the client and the responses are those of `lab broker`. In
//! the ring, receives repeat into buffers that all connections share, and a turn makes one call for
//! its sends and its wait. The buffers fit the requests of each work, which favours the ring.

use std::io::{self, Read, Seek};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit};

use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition};
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::program::allow_descriptors;
use crate::machine::environment::CONGESTION;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::method::limits::Scale;
use crate::record::{Metric, Verdict};

mod server;
mod way;

use server::Load;
use way::{Buffers, LoopMethod};

/// The experiment.
#[derive(Debug)]
pub struct Loops<'a> {
    bench: &'a Bench,
    works: [Work; 3],
}

/// The connections of a run, and their requests.
#[derive(Debug, Clone, Copy)]
struct Work {
    group: &'static str,
    /// Maximum number of bytes of a batch.
    batch_bytes: usize,
    partitions: i32,
    connections: usize,
    /// Number of connections that send requests.
    busy: usize,
    /// Number of requests of each of these.
    requests: usize,
    /// Buffers of the ring for receives.
    buffers: Buffers,
}

const RECORD_BYTES: usize = 1 << 10;

/// Bytes of a batch with one record.
const SMALL_BATCH_BYTES: usize = RECORD_BYTES + 90;

/// Buffers for small requests, more than there are busy connections.
const SMALL_BUFFERS: Buffers = Buffers { bytes: 2 << 10, count: 256 };

impl Work {
    fn all(scale: Scale) -> [Self; 3] {
        let one = Self {
            group: "one busy connection",
            batch_bytes: 16 << 10,
            partitions: 1,
            connections: 1,
            busy: 1,
            requests: scale.choose(60, 2_000, 6_000, 16_000),
            buffers: Buffers { bytes: 64 << 10, count: 16 },
        };
        let producers = scale.choose(10, 200, 200, 200);
        let many = Self {
            group: "many small producers",
            batch_bytes: SMALL_BATCH_BYTES,
            partitions: 8,
            connections: producers,
            busy: producers,
            requests: scale.choose(5, 30, 100, 300),
            buffers: SMALL_BUFFERS,
        };
        let idle = Self {
            group: "mostly idle",
            connections: scale.choose(50, 5_000, 5_000, 5_000),
            busy: 10,
            requests: scale.choose(5, 300, 1_000, 3_000),
            ..many
        };
        [one, many, idle]
    }

    fn load(&self, bench: &Bench) -> Result<Load, LabError> {
        let (batch, records) = frames::batch(self.batch_bytes, RECORD_BYTES, 1)?;
        let batch = batch.freeze();
        let place = |partition| TopicPartition { topic: "loop".to_owned(), partition };
        let places: Vec<_> = (0..self.partitions).map(place).collect();
        let files = places.iter().map(|_| bench.file()).collect::<Result<_, _>>()?;
        let frames = places.iter().map(|place| frames::produce(place, batch.clone(), 1));
        let frames = frames.collect::<Result<_, _>>()?;
        let (connections, requests) = (self.connections, self.busy * self.requests);
        bench.reserve((requests * batch.len()) as u64)?;
        Ok(Load { places, files, frames, batch, records, connections, requests })
    }

    /// Number of descriptors that this process needs, which has both ends of the connections.
    fn descriptors(&self) -> u64 {
        2 * self.connections as u64 + 200
    }

    /// Methods for this work. Several requests arrive together only if one connection sends them.
    fn methods(self) -> impl Iterator<Item = LoopMethod> {
        let together = LoopMethod::Epoll { frames: topic::IN_FLIGHT };
        LoopMethod::ALL.into_iter().filter(move |way| *way != together || self.busy == 1)
    }
}

/// Client ends of all connections.
struct Clients {
    /// Busy connections, each with the number of its partition.
    busy: Vec<(Connection, usize)>,
    _idle: Vec<TcpStream>,
}

impl Clients {
    fn open(address: SocketAddr, work: &Work) -> Result<Self, LabError> {
        let (mut busy, mut idle) = (Vec::new(), Vec::new());
        let apart = work.connections / work.busy;
        for number in 0..work.connections {
            if number % apart == 0 && busy.len() < work.busy {
                let connection = Connection::open(address)?;
                let _ = sockopt::set_tcp_congestion(connection.sender()?, CONGESTION);
                busy.push((connection, number % work.partitions.unsigned_abs() as usize));
                continue;
            }
            let stream = TcpStream::connect(address).map_err(LabError::step("cannot connect"))?;
            // The end of the connection must not leave memory for the next run to count.
            sockopt::set_socket_linger(&stream, Some(Duration::ZERO))
                .map_err(LabError::step("cannot set an option of a socket"))?;
            idle.push(stream);
        }
        Ok(Self { busy, _idle: idle })
    }

    /// Sends all requests. One connection has several in flight; otherwise each has one. Returns
    /// the highest offset of each partition.
    fn produce(mut self, load: &Load) -> Result<Vec<i64>, LabError> {
        let batches = load.requests / self.busy.len();
        if let [(connection, _)] = self.busy.as_mut_slice() {
            let (place, batch_len) = (load.places[0].clone(), load.batch.len());
            let filled = Filled { place, batch_len, records: load.records, batches };
            topic::send(connection, &load.frames[0], &filled, 0)?;
            return Ok(vec![filled.offset(batches - 1)]);
        }
        let mut ends = vec![-1; load.places.len()];
        for _ in 0..batches {
            for (connection, partition) in &mut self.busy {
                connection.send(&load.frames[*partition])?;
            }
            for (connection, partition) in &mut self.busy {
                let offset = frames::produced(connection.receive(4)?, &load.places[*partition])?;
                ends[*partition] = offset.max(ends[*partition]);
            }
        }
        Ok(ends)
    }
}

impl<'a> Loops<'a> {
    /// Creates the experiment on a bench.
    ///
    /// # Errors
    /// This process may not open the necessary number of descriptors.
    pub fn new(bench: &'a Bench) -> Result<Self, LabError> {
        let works = Work::all(bench.scale());
        allow_descriptors(works.iter().map(Work::descriptors).max().unwrap_or(0))?;
        Ok(Self { bench, works })
    }

    /// Runs a loop once. Returns its cost, or the result of the check.
    fn once(&self, work: &Work, way: LoopMethod, pass: Pass) -> Result<Outcome, LabError> {
        let load = work.load(self.bench)?;
        let _pinned = self.bench.places().pin_receiver();
        let (ends, cost) = server::beside(
            self.bench,
            &load,
            |stage| way.serve(stage, &load, work.buffers),
            |address| Clients::open(address, work),
            |clients| clients.produce(&load),
        )?;
        if pass == Pass::Integrity {
            return check(&load, &ends).map(Outcome::Checked);
        }
        let requests = load.requests as f64;
        let mut metrics: Metrics = [
            ("cpu_us_per_request", cost.cpu.as_secs_f64() * 1e6 / requests),
            ("calls_per_request", cost.calls as f64 / requests),
            ("requests_per_s", requests / cost.wall.as_secs_f64()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        if work.connections > work.busy {
            let kib = cost.kernel_bytes as f64 / 1024.0 / work.connections as f64;
            metrics.insert("kernel_kib_per_connection".to_owned(), kib);
        }
        Ok(Outcome::Measured(metrics))
    }
}

/// Checks that the files contain the batches of all requests unchanged, as many as the highest
/// offsets say.
fn check(load: &Load, ends: &[i64]) -> Result<Verdict, LabError> {
    let failed = || LabError::step::<io::Error>("cannot read the received file");
    let (mut batches, mut is_whole, mut found) = (0, true, vec![0; load.batch.len()]);
    for (mut file, end) in load.files.iter().zip(ends) {
        let count = file.metadata().map_err(failed())?.len() / load.batch.len() as u64;
        file.rewind().map_err(failed())?;
        for _ in 0..count {
            file.read_exact(&mut found).map_err(failed())?;
            is_whole &= found == load.batch;
        }
        is_whole &= i64::try_from(count * load.records as u64) == Ok(end + load.records as i64);
        batches += count;
    }
    let what = format!("{batches} batches in the files, and {} sent", load.requests);
    Ok(Verdict { sound: is_whole && batches == load.requests as u64, what })
}

impl Experiment for Loops<'_> {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn shows(&self) -> String {
        let [one, many, idle] = &self.works;
        format!(
            "Cost of a server's bare network loop, by epoll or by a ring: requests of {} KiB from one connection ({} in flight), and records of 1 KiB \
             from {} connections and from {} of {} connections (one in flight on each).",
            one.batch_bytes >> 10,
            topic::IN_FLIGHT,
            many.busy,
            idle.busy,
            idle.connections
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_us_per_request", "loop CPU", "µs/request"),
            Metric::neither("calls_per_request", "calls", "/request"),
            Metric::more("requests_per_s", "rate", "/s"),
            Metric::less("kernel_kib_per_connection", "kernel memory", "KiB/connection"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let of = |work: &Work| {
            let work = *work;
            work.methods().map(move |way| {
                let case = Case::new(work.group, way.name()).with("batch_bytes", work.batch_bytes);
                case.with("connections", work.connections).with("busy", work.busy)
            })
        };
        self.works.iter().flat_map(of).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let work = self.works.iter().find(|work| work.group == case.group);
        let way = LoopMethod::ALL.into_iter().find(|way| way.name() == case.name);
        let Some((work, way)) = work.zip(way) else {
            return Ok(Outcome::Skipped("no such method".to_owned()));
        };
        if getrlimit(Resource::Nofile).current.is_some_and(|allowed| allowed < work.descriptors()) {
            let why = format!("needs {} open files; raise the limit (ulimit -n)", work.descriptors());
            return Ok(Outcome::Skipped(why));
        }
        if let Some(why) = way.missing(self.bench.caps(), work.buffers) {
            return Ok(Outcome::Skipped(why));
        }
        self.once(work, way, pass)
    }
}

#[cfg(test)]
mod tests;
