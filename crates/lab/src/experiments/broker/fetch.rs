//! Cost of fetches from the page cache: one connection, requests of several sizes.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::floor::{self, Fetches};
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::record::{Metric, Verdict};

const SIZES: [(&str, i32); 6] = [
    ("50 MiB", 50 << 20),
    ("8 MiB", 8 << 20),
    ("1 MiB", 1 << 20),
    ("256 KiB", 256 << 10),
    ("64 KiB", 64 << 10),
    ("16 KiB", 16 << 10),
];

const BATCH_LEN: usize = 16 << 10;

/// Maximum number of requests of a run.
const REQUESTS: usize = 4000;

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct Fetch<'b> {
    bench: &'b Bench,
    subjects: Vec<(Node, Filled)>,
    /// A segment of Levada, for the bare loop.
    segment: File,
}

impl<'b> Fetch<'b> {
    /// Starts the brokers and fills a topic.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let bytes = bench.scale().choose(1 << 20, 100 << 20, 200 << 20, 400 << 20);
        bench.reserve(bytes * systems.all().len() as u64)?;
        let filled = |node: Node| {
            topic::create(&node, "fetch", 1, &[])?;
            let place = TopicPartition { topic: "fetch".to_owned(), partition: 0 };
            let filled = topic::fill(&node, place, BATCH_LEN, bytes)?;
            // Sync now, so that no writeback runs during a measurement.
            topic::sync(&node, &filled.place)?;
            Ok((node, filled))
        };
        let nodes = super::started(bench, systems)?;
        let subjects: Vec<_> = nodes.into_iter().map(filled).collect::<Result<_, LabError>>()?;
        let path = match subjects.iter().find(|(node, _)| node.system() == System::Levada) {
            Some((node, filled)) => topic::segments(node, &filled.place)?.into_iter().next(),
            None => None,
        };
        let path = path.ok_or_else(|| {
            LabError::step("cannot find a segment of Levada")(io::Error::from(io::ErrorKind::NotFound))
        })?;
        let segment = File::open(&path).map_err(LabError::file("cannot open", path))?;
        Ok(Fetch { bench, subjects, segment })
    }

    fn once(&self, case: &Case, max_bytes: i32) -> Result<(u64, Duration, Duration), LabError> {
        let pinned = self.bench.places().pin_receiver();
        let own = self.subjects.iter().find(|(node, _)| node.system().label() == case.name);
        let start = Instant::now();
        let (bytes, cpu) = match own {
            Some((node, filled)) => {
                let before = Spent::of(node.pid());
                let bytes = read(node.address(), filled, max_bytes)?;
                (bytes, Spent::since(node.pid(), &before))
            }
            None => {
                let filled = &self.subjects[0].1;
                let (fetches, mut bytes) = (Fetches { filled, file: &self.segment, max_bytes }, 0);
                let serve = |stream: &std::net::TcpStream| fetches.serve(stream);
                let cpu = floor::beside(self.bench, serve, |address| {
                    bytes = read(address, filled, max_bytes)?;
                    Ok(())
                })?;
                (bytes, cpu)
            }
        };
        drop(pinned);
        Ok((bytes, cpu, start.elapsed()))
    }

    fn check(&self, case: &Case, max_bytes: i32) -> Result<Verdict, LabError> {
        match self.subjects.iter().find(|(node, _)| node.system().label() == case.name) {
            Some((node, filled)) => topic::verify(node.address(), filled, 0, max_bytes),
            None => {
                let filled = &self.subjects[0].1;
                let (fetches, mut verdict) = (Fetches { filled, file: &self.segment, max_bytes }, None);
                let serve = |stream: &std::net::TcpStream| fetches.serve(stream);
                floor::beside(self.bench, serve, |address| {
                    verdict = Some(topic::verify(address, filled, 0, max_bytes)?);
                    Ok(())
                })?;
                Ok(verdict.unwrap_or(Verdict { sound: false, what: "no batch was read".to_owned() }))
            }
        }
    }
}

/// Reads the topic once, or until [`REQUESTS`] requests. Returns the bytes of the records.
fn read(address: SocketAddr, filled: &Filled, max_bytes: i32) -> Result<u64, LabError> {
    let mut connection = Connection::open(address)?;
    let (mut batch, mut requests) = (0, 0);
    while batch < filled.batches && requests < REQUESTS {
        batch += replay::step(&mut connection, filled, batch, max_bytes)?;
        requests += 1;
    }
    Ok((batch * filled.batch_len) as u64)
}

impl Experiment for Fetch<'_> {
    fn name(&self) -> &'static str {
        "broker-fetch"
    }

    fn shows(&self) -> String {
        format!(
            "cost of a broker for records from the page cache to one connection, by requests of several sizes (batches of {BATCH_LEN} \
             bytes), compared with a bare loop of splice, or of read and write where that costs less"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        super::moving()
    }

    fn cases(&self) -> Vec<Case> {
        let names = self.subjects.iter().map(|(node, _)| node.system().label()).chain([floor::LABEL]);
        super::by_size(&SIZES, names, "fetch_bytes")
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(self.subjects.iter().map(|(node, _)| node), case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some((_, max_bytes)) = SIZES.iter().find(|(label, _)| *label == case.group) else {
            return Ok(Outcome::Skipped("no such size".to_owned()));
        };
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(self.check(case, *max_bytes)?));
        }
        let (bytes, cpu, wall) = self.once(case, *max_bytes)?;
        Ok(Outcome::Measured(super::moved(bytes, cpu, wall)))
    }
}
