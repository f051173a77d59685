//! Latency of small readers during a large download: many readers of 4 KiB at a steady rate, alone,
//! during a download from memory, and during a download from the disk. Each server has one worker
//! on one processor.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::client;
use super::server::Server;
use super::site::{Site, SiteFile};
use super::{FLOOR, FileServers, floor};
use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::harness::pace::{self, FixedRate, Latencies, joined};
use crate::machine::cpu;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

const ALONE: &str = "alone";
const HOT: &str = "beside a large download from memory";
const COLD: &str = "beside a large download from the disk";

const GROUPS: [&str; 3] = [ALONE, HOT, COLD];

/// Requests per second of all small readers together.
const PER_SECOND: f64 = 1000.0;

/// The experiment, with its servers.
#[derive(Debug)]
pub struct FilesFairness<'b> {
    bench: &'b Bench,
    servers: Vec<Server>,
    site: Site,
    readers: u32,
}

impl<'b> FilesFairness<'b> {
    /// Creates the files and starts the servers.
    ///
    /// # Errors
    /// A server does not start, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &FileServers) -> Result<Self, LabError> {
        let scale = bench.scale();
        let large = scale.choose(3 << 20, 512 << 20, 1 << 30, 2 << 30);
        let site = Site::new(bench, &[("small".to_owned(), 4 << 10), ("large".to_owned(), large)])?;
        let servers = super::started(bench, systems, &site)?;
        Ok(FilesFairness { bench, servers, site, readers: scale.choose(5, 50, 50, 50) })
    }

    /// Executes one run. Returns the latencies of the small readers and the rate of the download in
    /// bytes per second.
    fn measure(
        &self,
        address: SocketAddr,
        group: &str,
        time: Duration,
    ) -> Result<(Latencies, f64), LabError> {
        let (bench, over) = (self.bench, AtomicBool::new(false));
        let (small, large) = (self.site.file("small")?, self.site.file("large")?);
        let connections = answered(address, small, self.readers)?;
        let begin = Instant::now() + Duration::from_millis(50);
        std::thread::scope(|scope| {
            let download = scope.spawn(|| {
                cpu::pin(bench.places().receiver());
                pace::step_back();
                match group {
                    ALONE => Ok(0.0),
                    _ => self.download((address, large), group == COLD, &over),
                }
            });
            let readers: Vec<_> = (0_u32..)
                .zip(connections)
                .map(|(reader, stream)| {
                    // The due times of the readers are evenly spaced.
                    let start = begin + Duration::from_secs_f64(f64::from(reader) / PER_SECOND);
                    let pace = FixedRate::new(start, PER_SECOND / f64::from(self.readers));
                    scope.spawn(move || {
                        pace::settle(bench);
                        read_small((stream, small), (pace, pace.count(time).max(1)))
                    })
                })
                .collect();
            let mut latencies = Latencies::new()?;
            let own: Vec<_> = readers.into_iter().map(|reader| joined(reader.join())).collect();
            over.store(true, Ordering::Relaxed);
            let rate = joined(download.join())?;
            for reader in own {
                latencies.add(&reader?)?;
            }
            Ok((latencies, rate))
        })
    }

    /// Downloads a file again and again until `over`, from the disk each time if `is_cold`. Returns
    /// bytes per second.
    fn download(
        &self,
        (address, file): (SocketAddr, &SiteFile),
        is_cold: bool,
        over: &AtomicBool,
    ) -> Result<f64, LabError> {
        let (start, mut bytes) = (Instant::now(), 0);
        while !over.load(Ordering::Relaxed) {
            if is_cold {
                self.site.chill(file)?;
            }
            bytes += client::download(address, file, over)?;
        }
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    }
}

/// Opens a connection for each small reader and receives one response. The first request waits
/// until the server accepts the connection. A run has so few requests per connection that the first
/// ones would determine the p99.
fn answered(address: SocketAddr, file: &SiteFile, readers: u32) -> Result<Vec<TcpStream>, LabError> {
    (0..readers).map(|_| client::keep(address, file)).collect()
}

/// Sends a request at each due time on one connection. Returns the latencies, which begin at the
/// due times.
fn read_small(
    (mut stream, file): (TcpStream, &SiteFile),
    (pace, count): (FixedRate, u64),
) -> Result<Latencies, LabError> {
    let mut latencies = Latencies::new()?;
    for n in 0..count {
        pace.wait(n);
        client::once(&mut stream, file)?;
        latencies.done(pace.due(n));
    }
    Ok(latencies)
}

impl Experiment for FilesFairness<'_> {
    fn name(&self) -> &'static str {
        "files-fairness"
    }

    fn shows(&self) -> String {
        format!(
            "latency of {} readers of 4 KiB, {PER_SECOND} requests a second together, with and without another client that downloads a large \
             file from the same worker; and the same for a bare loop of epoll and splice",
            self.readers
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<_> = pace::metrics("answer").collect();
        metrics.push(Metric::neither("download", "download", "MB/s"));
        metrics
    }

    fn cases(&self) -> Vec<Case> {
        let of_group = |group: &&'static str| {
            let case = |name| Case::new(*group, name).with("readers", self.readers);
            super::labels(&self.servers).chain([FLOOR]).map(case).collect::<Vec<Case>>()
        };
        GROUPS.iter().flat_map(of_group).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let scale = self.bench.scale();
        let time = match pass {
            Pass::Integrity => Duration::from_millis(100),
            Pass::Timed => Duration::from_millis(scale.choose(100, 1_000, 3_000, 6_000)),
        };
        let _others = super::alone(&self.servers, &case.name);
        let measure = |address| self.measure(address, &case.group, time);
        let (latencies, rate) = match super::named(&self.servers, &case.name) {
            Some(server) => measure(server.plain())?,
            None => floor::beside(self.bench, &self.site, measure)?.0,
        };
        if pass == Pass::Integrity {
            let what = "every answer to a small reader had the bytes of its file".to_owned();
            return Ok(Outcome::Checked(Verdict { sound: true, what }));
        }
        let mut metrics = Metrics::new();
        latencies.put("answer", &mut metrics);
        if case.group != ALONE {
            metrics.insert("download".to_owned(), rate / 1e6);
        }
        Ok(Outcome::Measured(metrics))
    }
}

#[cfg(test)]
mod tests;
