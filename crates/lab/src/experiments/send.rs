//! `lab send`: sends memory to a socket, copied or by reference, over routes that copy and over one
//! that does not. Also sends messages of many small pieces, in one send or cut by size.

use std::collections::BTreeMap;

use crate::error::LabError;
use crate::experiments::transfer::bytes;
use crate::harness::bench::Bench;
use crate::harness::memory_sender::{How, Load, Route, Wait, Worker};
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::record::{Metric, Sweep};

/// Workers by route. The first load of a route starts its worker.
#[derive(Debug)]
struct Workers<'a> {
    bench: &'a Bench,
    started: BTreeMap<&'static str, Result<Worker, String>>,
}

impl<'a> Workers<'a> {
    fn new(bench: &'a Bench) -> Self {
        Workers { bench, started: BTreeMap::new() }
    }

    /// Sends a load over a route.
    fn send(&mut self, route: Route, load: &Load, pass: Pass) -> Result<Outcome, LabError> {
        let bench = self.bench;
        let start = || Worker::start(bench, route);
        let worker = match self.started.entry(route.label()).or_insert_with(start) {
            Ok(worker) => worker,
            Err(why) => return Ok(Outcome::Skipped(why.clone())),
        };
        let sent = match worker.send(&Load { check: pass == Pass::Integrity, ..*load }) {
            Err(error) if error.is_no_memory() => {
                return Ok(Outcome::Skipped(format!(
                    "{error}; raise the limit of locked memory (ulimit -l)"
                )));
            }
            sent => sent?,
        };
        Ok(match pass {
            Pass::Timed => Outcome::Measured(sent.metrics()),
            Pass::Integrity => Outcome::Checked(sent.verdict()),
        })
    }
}

/// Reason why this machine lacks the capability for a method, with a remedy; none if nothing is
/// missing.
fn missing(bench: &Bench, how: How) -> Option<String> {
    let caps = bench.caps();
    let needed = match how {
        How::Send => return None,
        How::MsgZerocopy => &caps.msg_zerocopy,
        How::RingSend => &caps.io_uring,
        How::RingZeroCopy { .. } | How::Whole { .. } | How::Cut { .. } => &caps.ring_zero_copy,
    };
    match needed {
        levada_io::probe::Support::Works => None,
        levada_io::probe::Support::Absent { why, remedy } => Some(format!("{why}; {remedy}")),
    }
}

/// Methods to send a message of one piece; the simplest one is first.
const HOWS: [(&str, How); 6] = [
    ("send", How::Send),
    ("MSG_ZEROCOPY", How::MsgZerocopy),
    ("ring SEND", How::RingSend),
    ("SEND_ZC, waits for release", How::RingZeroCopy { registered: false, wait: Wait::Release }),
    ("SEND_ZC", How::RingZeroCopy { registered: false, wait: Wait::Result }),
    ("SEND_ZC registered", How::RingZeroCopy { registered: true, wait: Wait::Result }),
];

/// The sweep over sizes: finds the size from which a send by reference costs less.
#[derive(Debug)]
pub struct Sends<'a> {
    workers: Workers<'a>,
    routes: Vec<Route>,
    sizes: Vec<usize>,
    /// Bytes of a run.
    budget: usize,
}

impl<'a> Sends<'a> {
    /// Creates the experiment with all routes.
    pub fn new(bench: &'a Bench) -> Self {
        const QUICK: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];
        const ALL: [usize; 9] =
            [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20];
        let sizes = bench.scale().choose(&QUICK[..2], &QUICK, &ALL, &ALL).to_vec();
        Sends::over(bench, &[Route::Ifb, Route::Loopback, Route::Veth], sizes)
    }

    /// Creates the experiment with some routes and sizes of messages.
    pub(crate) fn over(bench: &'a Bench, routes: &[Route], sizes: Vec<usize>) -> Self {
        let budget = bench.scale().choose(256 << 10, 4 << 20, 16 << 20, 64 << 20);
        Sends { workers: Workers::new(bench), routes: routes.to_vec(), sizes, budget }
    }

    fn load(&self, route: Route, how: How, size: usize) -> Load {
        let bytes = if route == Route::Ifb { size.min(DATAGRAM_BYTES) } else { size };
        let messages = u32::try_from((self.budget / size).clamp(16, 4000)).unwrap_or(16);
        Load { how, bytes, pieces: 0, piece_bytes: 0, messages, check: false }
    }
}

/// Maximum number of bytes of a message over UDP.
const DATAGRAM_BYTES: usize = 65_000;

impl Experiment for Sends<'_> {
    fn name(&self) -> &'static str {
        "send"
    }

    fn shows(&self) -> String {
        "Smallest size from which sending memory by reference costs less, where the kernel copies nevertheless and where it does not."
            .to_owned()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_us", "CPU", "µs/message"),
            Metric::more("messages_per_s", "rate", "/s"),
            Metric::neither("calls", "calls", "/message"),
            Metric::neither("copied_share", "copied by kernel", ""),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for route in &self.routes {
            // A datagram has at most 64 KiB.
            for size in self.sizes.iter().filter(|size| *route != Route::Ifb || **size <= 64 << 10) {
                let group = format!("{}, {}", route.label(), bytes(*size));
                cases.extend(HOWS.iter().map(|(name, _)| {
                    let case = Case::new(group.clone(), *name);
                    case.with("route", route.label()).with("message_bytes", size)
                }));
            }
        }
        cases
    }

    fn sweep(&self) -> Option<Sweep> {
        Some(Sweep { across: "message_bytes".to_owned(), panel: Some("route".to_owned()) })
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let route =
            self.routes.iter().find(|route| case.params.get("route").is_some_and(|is| is == route.label()));
        let size = case.params.get("message_bytes").and_then(|bytes| bytes.parse().ok());
        let how = HOWS.iter().find(|(name, _)| *name == case.name).map(|(_, how)| *how);
        let (Some(route), Some(size), Some(how)) = (route.copied(), size, how) else {
            return Ok(Outcome::Skipped("no such method".to_owned()));
        };
        if let Some(why) = missing(self.workers.bench, how) {
            return Ok(Outcome::Skipped(why));
        }
        let load = self.load(route, how, size);
        self.workers.send(route, &load, pass)
    }
}

/// Messages of many small pieces and one body.
#[derive(Debug)]
pub struct Mixed<'a> {
    workers: Workers<'a>,
    pieces: Vec<usize>,
    /// Factor by which a run has more messages than the smallest run.
    factor: u32,
}

/// Bytes of a small piece. As in the article, a message has small headers and one body.
const PIECE_BYTES: usize = 16;
const BODY_BYTES: usize = 32 << 10;

/// Minimum number of messages of a run; a message with the most pieces may take 100 ms.
const FEWEST: usize = 3;

const MIXES: [(&str, How); 4] = [
    ("one send", How::Whole { wait: Wait::Result }),
    ("one send, waits for release", How::Whole { wait: Wait::Release }),
    ("cut by size", How::Cut { wait: Wait::Result }),
    ("cut by size, waits for release", How::Cut { wait: Wait::Release }),
];

impl<'a> Mixed<'a> {
    /// Creates the experiment with 1 to 2048 pieces.
    pub fn new(bench: &'a Bench) -> Self {
        const QUICK: [usize; 3] = [1, 256, 2048];
        const ALL: [usize; 8] = [1, 4, 16, 64, 256, 512, 1024, 2048];
        let scale = bench.scale();
        let pieces = scale.choose(&QUICK[1..2], &QUICK, &ALL, &ALL).to_vec();
        Mixed { workers: Workers::new(bench), pieces, factor: scale.choose(1, 1, 8, 16) }
    }
}

impl Experiment for Mixed<'_> {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn shows(&self) -> String {
        format!(
            "Cost of many pieces of {PIECE_BYTES} bytes in a send of {} KiB by reference, and effect of cutting by size and of not waiting for memory.",
            BODY_BYTES >> 10
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::more("messages_per_s", "rate", "/s"),
            Metric::less("cpu_us", "CPU", "µs/message"),
            Metric::neither("calls", "calls", "/message"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let of = |pieces: &usize| {
            let group = format!("{pieces} pieces");
            MIXES.map(|(name, _)| Case::new(group.clone(), name).with("pieces", pieces))
        };
        self.pieces.iter().flat_map(of).collect()
    }

    fn sweep(&self) -> Option<Sweep> {
        Some(Sweep { across: "pieces".to_owned(), panel: None })
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let pieces: Option<usize> = case.params.get("pieces").and_then(|pieces| pieces.parse().ok());
        let how = MIXES.iter().find(|(name, _)| *name == case.name).map(|(_, how)| *how);
        let Some((pieces, how)) = pieces.zip(how) else {
            return Ok(Outcome::Skipped("no such method".to_owned()));
        };
        if let Some(why) = missing(self.workers.bench, how) {
            return Ok(Outcome::Skipped(why));
        }
        let messages = self.factor * u32::try_from((20_000 / (pieces + 100)).max(FEWEST)).unwrap_or(1);
        let load = Load { how, bytes: BODY_BYTES, pieces, piece_bytes: PIECE_BYTES, messages, check: false };
        self.workers.send(Route::Loopback, &load, pass)
    }
}

#[cfg(test)]
mod tests;
