//! Cost of a request for a server: small files in memory, with permanent connections, with a
//! connection for each request, and with TLS.

use std::time::{Duration, Instant};

use super::client::{self, Load};
use super::server::Server;
use super::site::Site;
use super::{FLOOR, FileServers, floor};
use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::harness::program::allow_descriptors;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const MOST_CONNECTIONS: usize = 5_000;

/// Minimum number of requests on a permanent connection, so that its setup has little weight.
const LEAST_REQUESTS: usize = 8;

/// Requests of one kind.
#[derive(Debug, Clone, Copy)]
struct Work {
    group: &'static str,
    /// Names of files, with their number of requests in a hundred.
    files: &'static [(&'static str, usize)],
    connections: usize,
    is_short: bool,
    is_sealed: bool,
    /// Divisor of the usual number of requests, for requests that take longer.
    share: usize,
}

const KEPT: Work =
    Work { group: "", files: &[("1k", 100)], connections: 1, is_short: false, is_sealed: false, share: 1 };

const WORK: [Work; 11] = [
    Work { group: "1 KiB", ..KEPT },
    Work { group: "1 KiB, 100 connections", connections: 100, ..KEPT },
    Work { group: "1 KiB, 5 000 connections", connections: MOST_CONNECTIONS, ..KEPT },
    Work { group: "16 KiB", files: &[("16k", 100)], ..KEPT },
    Work { group: "16 KiB, 100 connections", files: &[("16k", 100)], connections: 100, ..KEPT },
    Work {
        group: "mixed, 100 connections",
        files: &[("1k", 60), ("16k", 25), ("200k", 13), ("1m", 2)],
        connections: 100,
        share: 4,
        ..KEPT
    },
    Work { group: "1 KiB, a connection each", is_short: true, share: 2, ..KEPT },
    Work { group: "16 KiB, a connection each", files: &[("16k", 100)], is_short: true, share: 2, ..KEPT },
    Work { group: "1 KiB, TLS", is_sealed: true, ..KEPT },
    Work { group: "16 KiB, TLS", files: &[("16k", 100)], is_sealed: true, ..KEPT },
    Work { group: "1 KiB, a handshake each", is_short: true, is_sealed: true, share: 20, ..KEPT },
];

const FILES: [(&str, u64); 4] = [("1k", 1 << 10), ("16k", 16 << 10), ("200k", 200 << 10), ("1m", 1 << 20)];

/// The experiment, with its servers.
#[derive(Debug)]
pub struct Requests<'b> {
    bench: &'b Bench,
    servers: Vec<Server>,
    site: Site,
    requests: usize,
}

impl<'b> Requests<'b> {
    /// Creates the files and starts the servers.
    ///
    /// # Errors
    /// A server does not start, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &FileServers) -> Result<Self, LabError> {
        // With the bare loop, both ends of each connection are in this process.
        allow_descriptors(2 * MOST_CONNECTIONS as u64 + 200)?;
        let site = Site::new(bench, &FILES.map(|(name, len)| (name.to_owned(), len)))?;
        let servers = super::started(bench, systems, &site)?;
        let requests = bench.scale().choose(200, 10_000, 20_000, 40_000);
        Ok(Requests { bench, servers, site, requests })
    }

    fn load(&self, work: &Work, pass: Pass) -> Result<Load<'_>, LabError> {
        let mut files = Vec::new();
        for (name, count) in work.files {
            let file = self.site.file(name)?;
            files.extend(std::iter::repeat_n(file, *count));
        }
        // Mix the files: 37 and 100 have no common divisor.
        let files = (0..files.len()).map(|at| files[at * 37 % files.len()]).collect();
        let checked = pass == Pass::Integrity;
        let least = if work.is_short { work.connections } else { work.connections * LEAST_REQUESTS };
        let requests = if checked { 100 } else { (self.requests / work.share).max(least) };
        let (connections, is_short) = (work.connections, work.is_short);
        Ok(Load { files, requests, connections, is_short, is_checked: checked })
    }

    /// Sends the requests. Returns the processor time of the server.
    fn once(&self, case: &Case, work: &Work, load: &Load<'_>) -> Result<Duration, LabError> {
        let _pinned = self.bench.places().pin_receiver();
        let client = &self.site.identity.client;
        let (_, cpu) = match super::named(&self.servers, &case.name) {
            Some(server) if work.is_sealed => {
                server.beside(|| client::run_sealed(server.sealed(), client, load))?
            }
            Some(server) => server.beside(|| client::run(server.plain(), load))?,
            None => floor::beside(self.bench, &self.site, |address| client::run(address, load))?,
        };
        Ok(cpu)
    }
}

impl Experiment for Requests<'_> {
    fn name(&self) -> &'static str {
        "files-requests"
    }

    fn shows(&self) -> String {
        "cost of a request for a small file in memory, for a file server with one worker, compared with a bare loop that finds the file by \
         its name and sends bytes that were made beforehand"
            .to_owned()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_us_per_request", "server CPU", "µs"),
            Metric::more("requests_per_s", "requests", "/s"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let of_work = |work: &Work| {
            let floor = (!work.is_sealed).then_some(FLOOR);
            let names = super::labels(&self.servers).chain(floor);
            let case = |name| Case::new(work.group, name).with("connections", work.connections);
            names.map(case).collect::<Vec<Case>>()
        };
        WORK.iter().flat_map(of_work).collect()
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(&self.servers, case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some(work) = WORK.iter().find(|work| work.group == case.group) else {
            return Ok(Outcome::Skipped("no such work".to_owned()));
        };
        let load = self.load(work, pass)?;
        let start = Instant::now();
        let cpu = self.once(case, work, &load)?;
        let count = load.requests as f64;
        if load.is_checked {
            let what = format!("{} answers had the bytes of their files", load.requests);
            return Ok(Outcome::Checked(Verdict { sound: true, what }));
        }
        Ok(Outcome::Measured(Metrics::from([
            ("cpu_us_per_request".to_owned(), cpu.as_secs_f64() * 1e6 / count),
            ("requests_per_s".to_owned(), count / start.elapsed().as_secs_f64()),
        ])))
    }
}
