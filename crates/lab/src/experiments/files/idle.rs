//! Server memory for idle connections after one response, without the kernel's own memory for
//! sockets.

use std::net::{SocketAddr, TcpStream};

use super::client;
use super::server::Server;
use super::site::Site;
use super::{FileServer, FileServers};
use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::harness::process;
use crate::harness::program::allow_descriptors;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

/// Connections before the first reading of memory.
const WARM_UP: usize = 10;

/// The experiment. Each run has a fresh server, because memory that was used once is not given
/// back.
#[derive(Debug)]
pub struct FilesIdle<'b> {
    bench: &'b Bench,
    systems: FileServers,
    count: usize,
}

impl<'b> FilesIdle<'b> {
    /// Nothing is started yet.
    pub fn new(bench: &'b Bench, systems: &FileServers) -> Self {
        let count = bench.scale().choose(50, 5_000, 5_000, 5_000);
        FilesIdle { bench, systems: systems.clone(), count }
    }

    /// Opens connections, each with one answer.
    fn answered(address: SocketAddr, site: &Site, count: usize) -> Result<Vec<TcpStream>, LabError> {
        let file = site.file("1k")?;
        (0..count).map(|_| client::keep(address, file)).collect()
    }
}

impl Experiment for FilesIdle<'_> {
    fn name(&self) -> &'static str {
        "files-idle"
    }

    fn shows(&self) -> String {
        format!(
            "memory that a file server needs for each of {} connections that had one response and are idle",
            self.count
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("kib_per_connection", "memory a connection", "KiB"),
            Metric::less("resident_mb", "memory", "MB"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let case = |system: &FileServer| Case::new("", system.label()).with("connections", self.count);
        self.systems.all().iter().map(case).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some(system) = self.systems.all().into_iter().find(|system| system.label() == case.name) else {
            return Ok(Outcome::Skipped("no such server".to_owned()));
        };
        allow_descriptors(self.count as u64 + 200)?;
        let site = Site::new(self.bench, &[("1k".to_owned(), 1 << 10)])?;
        let server = Server::start(self.bench, &self.systems, system, &site)?;
        // Allocations of the first requests, which happen once, are not counted.
        let first = Self::answered(server.plain(), &site, WARM_UP)?;
        let before = process::resident_bytes(server.worker());
        let mut open = Self::answered(server.plain(), &site, self.count)?;
        let after = process::resident_bytes(server.worker());
        if pass == Pass::Integrity {
            let file = site.file("1k")?;
            for stream in &mut open {
                client::once(stream, file)?;
            }
            let what = format!("{} connections answered again", open.len());
            return Ok(Outcome::Checked(Verdict { sound: open.len() == self.count, what }));
        }
        drop((first, open));
        let kib = after.saturating_sub(before) as f64 / 1024.0 / self.count as f64;
        Ok(Outcome::Measured(Metrics::from([
            ("kib_per_connection".to_owned(), kib),
            ("resident_mb".to_owned(), after as f64 / 1e6),
        ])))
    }
}
