//! Server memory for idle connections after one response, without the kernel's own memory for
//! sockets.

use super::client;
use super::server::Server;
use super::site::Site;
use super::{FileServer, FileServers};
use crate::error::LabError;
use crate::experiments::idle_connections;
use crate::harness::bench::Bench;
use crate::harness::program::allow_descriptors;
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::record::Metric;

/// The experiment. Each run has a new server, because a process does not return used memory.
#[derive(Debug)]
pub struct FilesIdle<'b> {
    bench: &'b Bench,
    systems: FileServers,
    count: usize,
}

impl<'b> FilesIdle<'b> {
    /// Creates the experiment without a server.
    pub fn new(bench: &'b Bench, systems: &FileServers) -> Self {
        let count = bench.scale().choose(50, 5_000, 5_000, 5_000);
        FilesIdle { bench, systems: systems.clone(), count }
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
        idle_connections::metrics()
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
        let file = site.file("1k")?;
        let open = || client::keep(server.plain(), file);
        idle_connections::run(server.worker(), (self.count, pass), open, |stream| client::once(stream, file))
    }
}
