//! `lab calibrate`: determines the thresholds of this machine with measurements that take less than
//! a minute.
//!
//! Calibration runs and records three experiments like all others. The [decision](decide()) is a
//! function of their summaries. A default changes only if the confidence interval excludes it, so
//! that a noisy machine keeps its defaults.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use levada_io::{Counters, Engine, Extent, Path, Piece, Thresholds, Transfer, Turn};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use crate::error::LabError;
use crate::experiments::send::Sends;
use crate::experiments::transfer::bytes;
use crate::harness::bench::Bench;
use crate::harness::memory_sender::Route;
use crate::harness::payload;
use crate::harness::peer::{Peer, ReceiveMode};
use crate::machine::cpu::Stopwatch;
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::method::limits::Limits;
use crate::method::limits::Scale;
use crate::record::{Metric, Sweep, Verdict};

mod decide;

pub use decide::{Finding, decide};

/// Sizes of extents for which copies are compared with references, in bytes.
const EXTENTS: [usize; 8] = [4 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 64 << 10, 128 << 10];

/// Sizes of pipes in bytes. The default comes first, because the tables compare the others with it.
const PIPES: [usize; 5] = [1 << 20, 64 << 10, 128 << 10, 256 << 10, 512 << 10];

/// Sizes of messages from memory, in bytes.
const SENDS: [usize; 7] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// Default size of a large fetch from one partition.
const FETCH_BYTES: usize = 1 << 20;

/// Header before each extent of a response.
const HEADER: Bytes = Bytes::from_static(&[0x5a; 60]);

/// Limits of each experiment: together they take less than a minute.
pub fn limits(scale: Scale) -> Limits {
    match scale {
        Scale::Normal => Limits { rounds: 15, least_rounds: 5, time: Duration::from_secs(12) },
        other => Limits::of(other),
    }
}

/// Creates an experiment on a bench.
type Begin = for<'a> fn(&'a Bench) -> Result<Box<dyn Experiment + 'a>, LabError>;

/// The experiments, in execution order.
pub const EXPERIMENTS: [Begin; 3] = [
    |bench| Ok(Box::new(Responses::new(bench, Question::Extents)?)),
    |bench| Ok(Box::new(Responses::new(bench, Question::Pipes)?)),
    |bench| Ok(Box::new(Sends::over(bench, &[Route::Ifb], SENDS.to_vec()))),
];

/// Threshold that an experiment calibrates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Extents,
    Pipes,
}

/// Responses with a header and an extent, as a broker sends them.
#[derive(Debug)]
struct Responses<'a> {
    bench: &'a Bench,
    question: Question,
    peer: Peer,
    file: Arc<File>,
    content: Vec<u8>,
}

/// Bytes of the file that contains the extents. The file is in the page cache.
const FILE_BYTES: usize = 4 << 20;

/// A path for the extent of a response, with the sizes of the extent and of the pipe.
#[derive(Debug, Clone, Copy)]
struct SendMethod {
    path: Path,
    extent_bytes: usize,
    pipe_bytes: usize,
}

impl<'a> Responses<'a> {
    fn new(bench: &'a Bench, question: Question) -> Result<Self, LabError> {
        let (file, _) = bench.filled_file(FILE_BYTES as u64)?;
        let mut content = vec![0; FILE_BYTES];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut content, 0)
            .map_err(LabError::step("cannot read the file"))?;
        Ok(Responses { bench, question, peer: Peer::start(bench)?, file: Arc::new(file), content })
    }

    /// Number of responses in a run.
    fn count(&self, way: SendMethod) -> usize {
        let budget: usize = self.bench.scale().choose(1 << 20, 16 << 20, 16 << 20, 64 << 20);
        (budget / way.extent_bytes).clamp(4, 1000)
    }

    fn run(&mut self, way: SendMethod, pass: Pass) -> Result<(u64, Verdict), LabError> {
        let count = self.count(way);
        let len = (count * (HEADER.len() + way.extent_bytes)) as u64;
        let take = if pass == Pass::Integrity { ReceiveMode::Check } else { ReceiveMode::Discard };
        let socket = self.peer.connect(take, &[len, len])?;
        let _pinned = self.bench.places().pin_sender();
        let counters = Arc::new(Counters::default());
        let thresholds = Thresholds {
            pipe_bytes: way.pipe_bytes,
            pipe_floor_bytes: way.pipe_bytes,
            ..Thresholds::default()
        };
        let mut engine = Engine::with_thresholds(self.bench.caps(), Arc::clone(&counters), thresholds);
        engine.force(way.path.to_socket());
        self.stream(&mut engine, &socket, way, count)?;
        self.peer.part()?;
        let watch = Stopwatch::start();
        self.stream(&mut engine, &socket, way, count)?;
        let cpu = watch.elapsed().cpu;
        let part = self.peer.part()?;
        let expected = if pass == Pass::Integrity { self.checksum(way, count) } else { 0 };
        let mut verdict = Verdict::of_bytes((len, expected), (part.bytes, part.checksum));
        let by = counters.snapshot().bytes(way.path);
        if by != 2 * (count * way.extent_bytes) as u64 {
            verdict = Verdict { sound: false, what: format!("only {by} bytes took the path {}", way.path) };
        }
        Ok((u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX) / count as u64, verdict))
    }

    fn stream(
        &self,
        engine: &mut Engine,
        socket: &TcpStream,
        way: SendMethod,
        count: usize,
    ) -> Result<(), LabError> {
        for index in 0..count {
            let offset = offset(index, way) as u64;
            let extent = Extent { file: Arc::clone(&self.file), offset, len: way.extent_bytes as u64 };
            let mut transfer = Transfer::new([Piece::Bytes(HEADER), Piece::Extent(extent)]);
            let failed = |error| LabError::Step {
                what: "cannot send a response".to_owned(),
                cause: io::Error::other(error),
            };
            while transfer.step(engine, socket.as_fd(), 1 << 20).map_err(failed)? != Turn::Done {
                retry_on_intr(|| poll(&mut [PollFd::new(socket, PollFlags::OUT)], None))
                    .map_err(LabError::step("cannot wait for the socket"))?;
            }
        }
        Ok(())
    }

    fn checksum(&self, way: SendMethod, count: usize) -> u64 {
        let mut digest = payload::digest();
        for index in 0..count {
            digest.update(&HEADER);
            let offset = offset(index, way);
            digest.update(&self.content[offset..offset + way.extent_bytes]);
        }
        digest.finalize()
    }
}

/// Position of an extent in the file. Consecutive extents are adjacent, as for a consumer, and
/// begin again at the start of the file. No extent begins at a page boundary, because batches do
/// not.
fn offset(index: usize, way: SendMethod) -> usize {
    const UNALIGNED: usize = 777;
    let fit = (FILE_BYTES - UNALIGNED) / way.extent_bytes;
    UNALIGNED + index % fit * way.extent_bytes
}

impl Experiment for Responses<'_> {
    fn name(&self) -> &'static str {
        match self.question {
            Question::Extents => "extents",
            Question::Pipes => "pipes",
        }
    }

    fn shows(&self) -> String {
        match self.question {
            Question::Extents => {
                "Largest size of a file range in a response for which a copy costs less.".to_owned()
            }
            Question::Pipes => "Best size of the pipe for large file ranges.".to_owned(),
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::less("cpu_us", "CPU", "µs/response")]
    }

    fn cases(&self) -> Vec<Case> {
        match self.question {
            Question::Extents => {
                let reference =
                    if Path::Splice.works(self.bench.caps()) { Path::Splice } else { Path::Sendfile };
                let of = |size: &usize| {
                    [Path::ReadWrite, reference].map(|path| {
                        case(bytes(*size), SendMethod { path, extent_bytes: *size, pipe_bytes: 1 << 20 })
                    })
                };
                EXTENTS.iter().flat_map(of).collect()
            }
            Question::Pipes => {
                let of = |pipe: &usize| {
                    let way = SendMethod { path: Path::Splice, extent_bytes: FETCH_BYTES, pipe_bytes: *pipe };
                    case("1M".to_owned(), way)
                };
                PIPES.iter().map(of).collect()
            }
        }
    }

    fn sweep(&self) -> Option<Sweep> {
        let across = match self.question {
            Question::Extents => "extent_bytes",
            Question::Pipes => "pipe_bytes",
        };
        Some(Sweep { across: across.to_owned(), panel: None })
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some(way) = way(case) else { return Ok(Outcome::Skipped("no such path".to_owned())) };
        if !way.path.works(self.bench.caps()) {
            return Ok(Outcome::Skipped(format!(
                "{} does not work on this machine; see `levada doctor`",
                way.path
            )));
        }
        let (ns, verdict) = self.run(way, pass)?;
        Ok(match pass {
            _ if verdict.what.starts_with("only") => Outcome::Skipped(verdict.what),
            Pass::Timed => Outcome::Measured([("cpu_us".to_owned(), ns as f64 / 1e3)].into()),
            Pass::Integrity => Outcome::Checked(verdict),
        })
    }
}

fn case(group: String, way: SendMethod) -> Case {
    let name = match (way.path, way.extent_bytes) {
        (Path::Splice, FETCH_BYTES) => format!("pipe {}", bytes(way.pipe_bytes)),
        (path, _) => path.label().to_owned(),
    };
    let case = Case::new(group, name).with("path", way.path);
    case.with("extent_bytes", way.extent_bytes).with("pipe_bytes", way.pipe_bytes)
}

fn way(case: &Case) -> Option<SendMethod> {
    let number = |key: &str| case.params.get(key)?.parse().ok();
    let path =
        Path::ALL.into_iter().find(|path| case.params.get("path").is_some_and(|is| is == path.label()))?;
    Some(SendMethod { path, extent_bytes: number("extent_bytes")?, pipe_bytes: number("pipe_bytes")? })
}

#[cfg(test)]
mod tests;
