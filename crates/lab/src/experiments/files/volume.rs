//! Cost per byte for a server: large files in memory, over TLS, and only on the disk.

use std::time::{Duration, Instant};

use super::client::{self, Load};
use super::server::Server;
use super::site::Site;
use super::{FLOOR, FileServers, floor};
use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const LARGE: &str = "100 MiB";
const MIDDLE: &str = "1 MiB";
const MANY: &str = "1 MiB, 100 connections";
const SEALED: &str = "1 MiB, TLS";
const COLD: &str = "a set of cold files of 1 MiB";

const GROUPS: [&str; 5] = [LARGE, MIDDLE, MANY, SEALED, COLD];

/// The experiment, with its servers.
#[derive(Debug)]
pub struct Volume<'b> {
    bench: &'b Bench,
    servers: Vec<Server>,
    site: Site,
}

impl<'b> Volume<'b> {
    /// Creates the files and starts the servers.
    ///
    /// # Errors
    /// A server does not start, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &FileServers) -> Result<Self, LabError> {
        let scale = bench.scale();
        let large = scale.choose(3 << 20, 100 << 20, 100 << 20, 100 << 20);
        let mut files = vec![("large".to_owned(), large), ("middle".to_owned(), 1 << 20)];
        let count: u32 = scale.choose(2, 64, 128, 256);
        files.extend((0..count).map(|number| (format!("cold{number}"), 1 << 20)));
        let site = Site::new(bench, &files)?;
        Ok(Volume { bench, servers: super::started(bench, systems, &site)?, site })
    }

    fn load(&self, group: &str, pass: Pass) -> Result<Load<'_>, LabError> {
        let scale = self.bench.scale();
        let middle = scale.choose(10, 200, 400, 800);
        let is_checked = pass == Pass::Integrity;
        let one = |name: &str| Ok::<_, LabError>(vec![self.site.file(name)?]);
        let (files, requests, connections) = match group {
            LARGE => (one("large")?, scale.choose(1, 2, 4, 8), 1),
            MANY => (one("middle")?, middle.max(100), 100),
            COLD => {
                let cold: Vec<_> =
                    self.site.files.iter().filter(|file| file.name.starts_with("cold")).collect();
                let count = cold.len();
                (cold, count, 1)
            }
            _ => (one("middle")?, middle, 1),
        };
        let requests = if is_checked { requests.min(10).max(connections) } else { requests };
        Ok(Load { files, requests, connections, is_short: false, is_checked })
    }

    fn once(&self, case: &Case, load: &Load<'_>) -> Result<(u64, Duration), LabError> {
        let _pinned = self.bench.places().pin_receiver();
        let client = &self.site.identity.client;
        match super::named(&self.servers, &case.name) {
            Some(server) if case.group == SEALED => {
                server.beside(|| client::run_sealed(server.sealed(), client, load))
            }
            Some(server) => server.beside(|| client::run(server.plain(), load)),
            None => floor::beside(self.bench, &self.site, |address| client::run(address, load)),
        }
    }
}

impl Experiment for Volume<'_> {
    fn name(&self) -> &'static str {
        "files-volume"
    }

    fn shows(&self) -> String {
        "cost per byte of large files, for a file server with one worker, compared with a bare loop of splice"
            .to_owned()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::less("cpu_s_per_gb", "server CPU", "s/GB"), Metric::more("gb_per_s", "rate", "GB/s")]
    }

    fn cases(&self) -> Vec<Case> {
        let of_group = |group: &&'static str| {
            let floor = (*group != SEALED).then_some(FLOOR);
            let case = |name| Case::new(*group, name);
            super::labels(&self.servers).chain(floor).map(case).collect::<Vec<Case>>()
        };
        GROUPS.iter().flat_map(of_group).collect()
    }

    fn worker(&self, case: &Case) -> Option<u32> {
        super::worker(&self.servers, case)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let load = self.load(&case.group, pass)?;
        if case.group == COLD {
            load.files.iter().try_for_each(|file| self.site.chill(file))?;
        }
        let start = Instant::now();
        let (bytes, cpu) = self.once(case, &load)?;
        let seconds = start.elapsed().as_secs_f64();
        if load.is_checked {
            let what = format!("{bytes} bytes were those of their files");
            return Ok(Outcome::Checked(Verdict { sound: true, what }));
        }
        let gb = bytes as f64 / 1e9;
        Ok(Outcome::Measured(Metrics::from([
            ("cpu_s_per_gb".to_owned(), cpu.as_secs_f64() / gb),
            ("gb_per_s".to_owned(), gb / seconds),
        ])))
    }
}
