//! `lab transfer`: a file to a socket, by every path there is.
//!
//! The paths are the product's own ([`levada_io`]), forced one by one, on a connection that does
//! not wait, as in the broker; sends of memory by reference read into buffers first. A run sends a
//! part of the file before the clock starts, so that the connection has found its window.
//!
//! One group sends a file in memory (tmpfs), where a second descriptor with `O_DIRECT` has the
//! kernel copy pages for `splice`: the cost of each `splice` on a kernel without references.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::error::LabError;
use crate::harness::bench::{Bench, chill};
use crate::harness::payload;
use crate::harness::peer::{Part, Peer, ReceiveMode};
use crate::machine::cpu::{self, Stopwatch};
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

mod way;

use way::{Tally, TransferMethod};

/// The experiment.
#[derive(Debug)]
pub struct Transfers<'a> {
    bench: &'a Bench,
    peer: Peer,
    file: Arc<File>,
    /// The same bytes in a file of tmpfs, or the reason why there is none.
    memory: Result<MemoryFile, String>,
    len: u64,
    checksum: u64,
}

/// A file of tmpfs.
#[derive(Debug)]
struct MemoryFile {
    file: Arc<File>,
    /// Its descriptor with `O_DIRECT`: `splice` from it copies.
    direct: Arc<File>,
}

impl MemoryFile {
    /// Fills a file. Memory for it must be there.
    fn new(len: u64) -> std::io::Result<Self> {
        let mut file = tempfile::tempfile_in(MEMORY)?;
        payload::write(&mut file, len, len)?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let direct =
            rustix::fs::open(name, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { file: Arc::new(file), direct: Arc::new(direct.into()) })
    }
}

/// A directory of tmpfs on each Linux.
const MEMORY: &str = "/dev/shm";

/// Workload of all ways of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    group: &'static str,
    place: Place,
    take: ReceiveMode,
}

/// Location of the file's bytes before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the page cache.
    Hot,
    /// On the disk.
    Cold,
    /// In a file of tmpfs.
    Tmpfs,
}

const SETTINGS: [Setting; 4] = [
    Setting { group: "hot, receiver discards", place: Place::Hot, take: ReceiveMode::Discard },
    Setting { group: "hot, receiver copies", place: Place::Hot, take: ReceiveMode::Copy },
    Setting { group: "cold, receiver discards", place: Place::Cold, take: ReceiveMode::Discard },
    Setting { group: "tmpfs, receiver discards", place: Place::Tmpfs, take: ReceiveMode::Discard },
];

impl<'a> Transfers<'a> {
    /// Makes the file and starts the receiver.
    ///
    /// # Errors
    /// There is no room, or no second process.
    pub fn new(bench: &'a Bench) -> Result<Self, LabError> {
        let len = bench.scale().choose(1 << 20, 16 << 20, 128 << 20, 512 << 20);
        let (file, checksum) = bench.filled_file(len)?;
        let memory = MemoryFile::new(len).map_err(|error| format!("{MEMORY} takes no such file: {error}"));
        Ok(Transfers { bench, peer: Peer::start(bench)?, file: Arc::new(file), memory, len, checksum })
    }

    /// The file that a way reads in a setting, or the reason why there is none.
    fn file(&self, way: TransferMethod, setting: Setting) -> Result<Arc<File>, String> {
        Ok(Arc::clone(match (setting.place, &self.memory) {
            (Place::Hot | Place::Cold, _) => &self.file,
            (Place::Tmpfs, Err(why)) => return Err(why.clone()),
            (Place::Tmpfs, Ok(memory)) if way.copies_pages() => &memory.direct,
            (Place::Tmpfs, Ok(memory)) => &memory.file,
        }))
    }

    fn send(
        &mut self,
        (way, file): (TransferMethod, &Arc<File>),
        setting: Setting,
        pass: Pass,
    ) -> Result<Sent, LabError> {
        let take = if pass == Pass::Integrity { ReceiveMode::Check } else { setting.take };
        match setting.place {
            // Pages that another run has dropped.
            Place::Hot => std::io::copy(&mut (&**file), &mut std::io::sink())
                .map(drop)
                .map_err(LabError::step("cannot read the file"))?,
            Place::Cold => chill(file)?,
            Place::Tmpfs => {}
        }
        // Of a cold file nothing may be read before the clock starts.
        let is_warm = setting.place != Place::Cold && pass == Pass::Timed;
        let warm_up = if is_warm { self.len / 4 } else { 0 };
        let parts = [warm_up, self.len];
        let socket = if way.is_sealed() {
            self.peer.connect_sealed(take, &parts)?
        } else {
            self.peer.connect(take, &parts)?
        };
        let _pinned = self.bench.places().pin_sender();
        let ready = way.ready(self.bench.caps(), file, socket);
        let mut sender = ready.map_err(LabError::step(format!("cannot prepare {}", way.name())))?;
        sender.send(warm_up)?;
        self.peer.part()?;
        let (before, watch, start_ns) = (sender.tally(way), Stopwatch::start(), cpu::monotonic_ns());
        sender.send(self.len)?;
        let elapsed = watch.elapsed();
        let part = self.peer.part()?;
        let wall_ns = part.done_ns.saturating_sub(start_ns);
        let after = sender.tally(way);
        let tally = Tally {
            calls: after.calls - before.calls,
            by_way: after.by_way - before.by_way,
            copies: after.copies - before.copies,
        };
        Ok(Sent { part, cpu_ns: elapsed.cpu.as_nanos() as f64, wall_ns, tally })
    }
}

/// Description of one run.
struct Sent {
    part: Part,
    cpu_ns: f64,
    wall_ns: u64,
    tally: Tally,
}

impl Sent {
    fn metrics(&self) -> Metrics {
        let gb = self.part.bytes as f64 / 1e9;
        [
            ("cpu_s_per_gb", self.cpu_ns / 1e9 / gb),
            ("gb_per_s", gb / (self.wall_ns as f64 / 1e9)),
            ("receiver_cpu_s_per_gb", self.part.cpu_ns as f64 / 1e9 / gb),
            ("calls_per_gb", self.tally.calls as f64 / gb),
            ("copies_per_byte", self.tally.copies as f64 / self.part.bytes as f64),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

impl TransferMethod {
    fn case(self, setting: Setting) -> Case {
        let case = Case::new(setting.group, self.name());
        case.with("path", self.path())
            .with("step_bytes", self.step_bytes)
            .with("hot", setting.place != Place::Cold)
    }
}

/// A size in the usual form.
pub(crate) fn bytes(count: usize) -> String {
    if count >= 1 << 20 { format!("{}M", count >> 20) } else { format!("{}K", count >> 10) }
}

impl Experiment for Transfers<'_> {
    fn name(&self) -> &'static str {
        "transfer"
    }

    fn shows(&self) -> String {
        format!(
            "Cost of sending a file of {} MiB over loopback TCP, by each path from file to socket.",
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
        let ways = TransferMethod::all();
        let cases = SETTINGS.iter().flat_map(|setting| {
            let fits = move |way: &&TransferMethod| setting.place == Place::Tmpfs || !way.copies_pages();
            ways.iter().filter(fits).map(|way| way.case(*setting))
        });
        cases.collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let setting = SETTINGS.into_iter().find(|setting| setting.group == case.group);
        let way = TransferMethod::all().into_iter().find(|way| way.name() == case.name);
        let Some((setting, way)) = setting.zip(way) else {
            return Ok(Outcome::Skipped("there is no such way".to_owned()));
        };
        if let Some(why) = way.missing(self.bench.caps()) {
            return Ok(Outcome::Skipped(why));
        }
        let file = match self.file(way, setting) {
            Ok(file) => file,
            Err(why) => return Ok(Outcome::Skipped(why)),
        };
        let sent = self.send((way, &file), setting, pass)?;
        // Encrypted here, bytes are counted as they leave, with what encryption adds.
        let by_way = sent.tally.by_way;
        if by_way < self.len || (by_way > self.len && !way.is_sealed()) {
            let text = format!("{} of {} bytes left by {}", sent.tally.by_way, self.len, way.path());
            return Ok(Outcome::Skipped(text));
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
