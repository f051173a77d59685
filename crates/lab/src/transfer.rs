//! `lab transfer`: a file to a socket, by every path there is.
//!
//! The paths are the product's own ([`levada_io`]), forced one by one, on a connection that does not wait, as in the broker. A run sends a
//! part of the file before the clock starts, so that the connection has found its window.

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use levada_io::{Counters, Engine, Extent, Path, Piece, Snapshot, Thresholds, Transfer, Turn};
use rustix::event::{PollFd, PollFlags, poll};

use crate::bench::{Bench, chill};
use crate::cpu::{self, Stopwatch};
use crate::error::LabError;
use crate::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::peer::{Part, Peer, Take};
use crate::record::{Metric, Verdict};

/// The experiment.
#[derive(Debug)]
pub struct Transfers<'a> {
    bench: &'a Bench,
    peer: Peer,
    file: Arc<File>,
    len: u64,
    checksum: u64,
}

/// A way from file to socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    path: Path,
    /// Of the buffer or the pipe.
    step_bytes: usize,
}

/// What is asked of all ways of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    group: &'static str,
    hot: bool,
    take: Take,
}

const SETTINGS: [Setting; 3] = [
    Setting { group: "hot, receiver discards", hot: true, take: Take::Discard },
    Setting { group: "hot, receiver copies", hot: true, take: Take::Copy },
    Setting { group: "cold, receiver discards", hot: false, take: Take::Discard },
];

const BUFFERS: [usize; 4] = [4 << 10, 8 << 10, 64 << 10, 1 << 20];
const PIPES: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];

impl<'a> Transfers<'a> {
    /// Makes the file and starts the receiver.
    ///
    /// # Errors
    /// There is no room, or no second process.
    pub fn new(bench: &'a Bench) -> Result<Transfers<'a>, LabError> {
        let len = bench.scale().choose(1 << 20, 32 << 20, 128 << 20, 512 << 20);
        let (file, checksum) = bench.filled_file(len)?;
        Ok(Transfers { bench, peer: Peer::start(bench)?, file: Arc::new(file), len, checksum })
    }

    fn send(&mut self, way: Way, setting: Setting, pass: Pass) -> Result<Sent, LabError> {
        let take = if pass == Pass::Integrity { Take::Check } else { setting.take };
        if setting.hot {
            // Whatever another run has dropped.
            std::io::copy(&mut (&*self.file), &mut std::io::sink())
                .map_err(LabError::step("cannot read the file"))?;
        } else {
            chill(&self.file)?;
        }
        // Of a cold file nothing may be read before the clock starts.
        let warm_up = if setting.hot && pass == Pass::Timed { self.len / 4 } else { 0 };
        let socket = self.peer.connect(take, &[warm_up, self.len])?;
        let _pinned = self.bench.places().pin_sender();
        let counters = Arc::new(Counters::default());
        let mut engine = way.engine(self.bench, &counters);
        self.stream(&mut engine, &socket, warm_up)?;
        self.peer.part()?;
        let (before, watch, start_ns) = (counters.snapshot(), Stopwatch::start(), cpu::monotonic_ns());
        self.stream(&mut engine, &socket, self.len)?;
        let elapsed = watch.elapsed();
        let part = self.peer.part()?;
        let wall_ns = part.done_ns.saturating_sub(start_ns);
        Ok(Sent { part, cpu_ns: elapsed.cpu.as_nanos() as f64, wall_ns, before, after: counters.snapshot() })
    }

    /// Sends the start of the file, and waits whenever the socket is full.
    fn stream(&self, engine: &mut Engine, socket: &TcpStream, len: u64) -> Result<(), LabError> {
        let extent = Extent { file: Arc::clone(&self.file), offset: 0, len };
        let mut transfer = Transfer::new([Piece::Extent(extent)]);
        let failed = |error: levada_io::TransferError| LabError::Step {
            what: "cannot send the file".to_owned(),
            cause: std::io::Error::other(error),
        };
        while transfer.step(engine, socket.as_fd(), u64::MAX).map_err(failed)? != Turn::Done {
            let mut fds = [PollFd::new(socket, PollFlags::OUT)];
            poll(&mut fds, None).map_err(LabError::step("cannot wait for the socket"))?;
        }
        Ok(())
    }
}

/// What one run was.
struct Sent {
    part: Part,
    cpu_ns: f64,
    wall_ns: u64,
    before: Snapshot,
    after: Snapshot,
}

impl Sent {
    /// Nothing may be counted for a path that the bytes did not take.
    fn by(&self, path: Path) -> u64 {
        self.after.bytes(path) - self.before.bytes(path)
    }

    fn metrics(&self) -> Metrics {
        let gb = self.part.bytes as f64 / 1e9;
        let calls: u64 =
            Path::ALL.iter().map(|path| self.after.calls(*path) - self.before.calls(*path)).sum();
        let copied = self.after.copied() - self.before.copied();
        [
            ("cpu_s_per_gb", self.cpu_ns / 1e9 / gb),
            ("gb_per_s", gb / (self.wall_ns as f64 / 1e9)),
            ("receiver_cpu_s_per_gb", self.part.cpu_ns as f64 / 1e9 / gb),
            ("calls_per_gb", calls as f64 / gb),
            ("copies_per_byte", copied as f64 / self.part.bytes as f64),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

impl Way {
    /// All of them, those that copy first.
    fn all() -> Vec<Way> {
        let of = |path: Path| move |step_bytes: usize| Way { path, step_bytes };
        let mut ways: Vec<Way> = BUFFERS.into_iter().map(of(Path::ReadWrite)).collect();
        ways.push(Way { path: Path::MmapWrite, step_bytes: 1 << 20 });
        ways.push(Way { path: Path::Sendfile, step_bytes: 64 << 10 });
        ways.extend(PIPES.into_iter().map(of(Path::Splice)));
        ways
    }

    fn name(self) -> String {
        let size = bytes(self.step_bytes);
        match self.path {
            Path::ReadWrite => format!("read+write {size}"),
            Path::MmapWrite => format!("mmap+write {size}"),
            Path::Splice => format!("splice, pipe {size}"),
            path => path.label().to_owned(),
        }
    }

    fn engine(self, bench: &Bench, counters: &Arc<Counters>) -> Engine {
        let thresholds = Thresholds {
            copy_bytes: self.step_bytes,
            pipe_bytes: self.step_bytes,
            pipe_floor_bytes: self.step_bytes,
            ..Thresholds::default()
        };
        let mut engine = Engine::with_thresholds(bench.caps(), Arc::clone(counters), thresholds);
        engine.force(Some(self.path));
        engine
    }

    fn case(self, setting: Setting) -> Case {
        let case = Case::new(setting.group, self.name());
        case.with("path", self.path).with("step_bytes", self.step_bytes).with("hot", setting.hot)
    }
}

/// A size as people say it.
pub(crate) fn bytes(count: usize) -> String {
    if count >= 1 << 20 { format!("{}M", count >> 20) } else { format!("{}K", count >> 10) }
}

impl Experiment for Transfers<'_> {
    fn name(&self) -> &'static str {
        "transfer"
    }

    fn shows(&self) -> String {
        format!(
            "What it costs to send a file of {} MiB over loopback TCP, by each path from file to socket.",
            self.len >> 20
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_s_per_gb", "sender CPU", "s/GB"),
            Metric::more("gb_per_s", "rate", "GB/s"),
            Metric::less("receiver_cpu_s_per_gb", "receiver CPU", "s/GB"),
            Metric::neither("calls_per_gb", "calls", "/GB"),
            Metric::neither("copies_per_byte", "copies", "/B"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let ways = Way::all();
        SETTINGS.iter().flat_map(|setting| ways.iter().map(|way| way.case(*setting))).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let setting = SETTINGS.into_iter().find(|setting| setting.group == case.group);
        let way = Way::all().into_iter().find(|way| way.name() == case.name);
        let Some((setting, way)) = setting.zip(way) else {
            return Ok(Outcome::Skipped("there is no such way".to_owned()));
        };
        if !way.path.works(self.bench.caps()) {
            return Ok(Outcome::Skipped(format!("{} does not work here; see `levada doctor`", way.path)));
        }
        let sent = self.send(way, setting, pass)?;
        if sent.by(way.path) != self.len {
            let counted = sent.by(way.path);
            return Ok(Outcome::Skipped(format!("{counted} of {} bytes left by {}", self.len, way.path)));
        }
        Ok(match pass {
            Pass::Timed => Outcome::Measured(sent.metrics()),
            Pass::Integrity => {
                let arrived = (sent.part.bytes, sent.part.checksum);
                Outcome::Checked(Verdict::of_bytes((self.len, self.checksum), arrived))
            }
        })
    }
}

#[cfg(test)]
mod tests;
