//! `lab transfer`: sends a file to a socket by every available path.
//!
//! The paths are those of the product ([`levada_io`]), forced one by one on a nonblocking
//! connection, as in the broker. Sends of memory by reference first read into buffers. A run sends
//! a part of the file before the clock starts, so that the congestion window of the connection has
//! grown.
//!
//! Some groups send a file in memory (tmpfs). For a second descriptor with `O_DIRECT` the kernel
//! copies pages in `splice`: that is the cost of each `splice` on a kernel without page references.
//! With several receivers, each gets a different part of the file, in turns of 1 MiB from one
//! thread. If the engine has no pipe for a connection, the bytes take `sendfile`.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
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

/// The experiment `lab transfer` with its files.
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

/// A file in tmpfs.
#[derive(Debug)]
struct MemoryFile {
    file: Arc<File>,
    /// Descriptor with `O_DIRECT`, from which `splice` copies.
    direct: Arc<File>,
}

impl MemoryFile {
    /// Creates a file with `len` bytes, which takes as much main memory.
    fn new(len: u64) -> std::io::Result<Self> {
        let mut file = tempfile::tempfile_in(MEMORY)?;
        payload::write(&mut file, len, len)?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let direct =
            rustix::fs::open(name, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { file: Arc::new(file), direct: Arc::new(direct.into()) })
    }
}

/// A directory in tmpfs on every Linux.
const MEMORY: &str = "/dev/shm";

/// Workload of all methods of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    group: &'static str,
    place: Place,
    take: ReceiveMode,
    receivers: usize,
}

impl Setting {
    const fn one(group: &'static str, place: Place, take: ReceiveMode) -> Self {
        Self { group, place, take, receivers: 1 }
    }

    /// Bytes that each receiver gets of a file with this length: a whole number of pages.
    fn share(self, len: u64) -> u64 {
        len / self.receivers as u64 / PAGE_BYTES * PAGE_BYTES
    }

    fn takes(self, way: TransferMethod) -> bool {
        (self.place == Place::Tmpfs || !way.copies_pages()) && (self.receivers == 1 || way.is_for_many())
    }
}

const PAGE_BYTES: u64 = 4096;

/// Location of the file's bytes before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The bytes are in the page cache.
    Hot,
    /// The bytes are only on the disk.
    Cold,
    /// The bytes are in a file of tmpfs.
    Tmpfs,
}

const SETTINGS: [Setting; 7] = [
    Setting::one("hot, receiver discards", Place::Hot, ReceiveMode::Discard),
    Setting::one("hot, receiver copies", Place::Hot, ReceiveMode::Copy),
    Setting::one("cold, receiver discards", Place::Cold, ReceiveMode::Discard),
    Setting::one("tmpfs, receiver discards", Place::Tmpfs, ReceiveMode::Discard),
    Setting::one("tmpfs, receiver copies", Place::Tmpfs, ReceiveMode::Copy),
    Setting {
        group: "tmpfs, 10 receivers copy",
        place: Place::Tmpfs,
        take: ReceiveMode::Copy,
        receivers: 10,
    },
    Setting {
        group: "tmpfs, 100 receivers copy",
        place: Place::Tmpfs,
        take: ReceiveMode::Copy,
        receivers: 100,
    },
];

impl<'a> Transfers<'a> {
    /// Creates the file and starts the receiver.
    ///
    /// # Errors
    /// The device has too little space, or the second process does not start.
    pub fn new(bench: &'a Bench) -> Result<Self, LabError> {
        let len = bench.scale().choose(1 << 20, 16 << 20, 128 << 20, 512 << 20);
        let (file, checksum) = bench.filled_file(len)?;
        let memory =
            MemoryFile::new(len).map_err(|error| format!("cannot create a file in {MEMORY}: {error}"));
        Ok(Transfers { bench, peer: Peer::start(bench)?, file: Arc::new(file), memory, len, checksum })
    }

    /// Returns the file that a method reads in a setting, or the reason why there is none.
    fn file(&self, way: TransferMethod, setting: Setting) -> Result<Arc<File>, String> {
        Ok(Arc::clone(match (setting.place, &self.memory) {
            (Place::Hot | Place::Cold, _) => &self.file,
            (Place::Tmpfs, Err(why)) => return Err(why.clone()),
            (Place::Tmpfs, Ok(memory)) if way.copies_pages() => &memory.direct,
            (Place::Tmpfs, Ok(memory)) => &memory.file,
        }))
    }

    /// Sum of the checksums of all shares.
    fn checksum(&self, setting: Setting, file: &File) -> Result<u64, LabError> {
        if setting.receivers == 1 {
            return Ok(self.checksum);
        }
        let share = setting.share(self.len);
        let mut bytes = vec![0; usize::try_from(share).unwrap_or(0)];
        (0..setting.receivers as u64).try_fold(0_u64, |sum, index| {
            file.read_exact_at(&mut bytes, index * share).map_err(LabError::step("cannot read the file"))?;
            Ok(sum.wrapping_add(payload::checksum(&bytes)))
        })
    }

    fn send(
        &mut self,
        (way, file): (TransferMethod, &Arc<File>),
        setting: Setting,
        pass: Pass,
    ) -> Result<Sent, LabError> {
        let take = if pass == Pass::Integrity { ReceiveMode::Check } else { setting.take };
        match setting.place {
            // Read the pages that another run has evicted.
            Place::Hot => std::io::copy(&mut (&**file), &mut std::io::sink())
                .map(drop)
                .map_err(LabError::step("cannot read the file"))?,
            Place::Cold => chill(file)?,
            Place::Tmpfs => {}
        }
        // Before the clock starts, a run must not read any part of a cold file.
        let is_warm = setting.place != Place::Cold && pass == Pass::Timed;
        let share = setting.share(self.len);
        let warm_up = if is_warm { share / 4 } else { 0 };
        let parts = [warm_up, share].map(|bytes| bytes * setting.receivers as u64);
        let sockets = if way.is_sealed() {
            vec![self.peer.connect_sealed(take, &parts)?]
        } else {
            self.peer.connect_many(take, &parts, setting.receivers)?
        };
        let _pinned = self.bench.places().pin_sender();
        let ready = way.ready(self.bench.caps(), file, sockets);
        let mut sender = ready.map_err(LabError::step(format!("cannot prepare {}", way.name())))?;
        sender.send(warm_up)?;
        self.peer.part()?;
        let (before, watch, start_ns) = (sender.tally(way), Stopwatch::start(), cpu::monotonic_ns());
        sender.send(share)?;
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

/// Result of one run.
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

/// Formats a number of bytes as `64K` or `1M`.
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
        let cases = SETTINGS
            .iter()
            .flat_map(|setting| ways.iter().filter(|way| setting.takes(**way)).map(|way| way.case(*setting)));
        cases.collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let setting = SETTINGS.into_iter().find(|setting| setting.group == case.group);
        let way = TransferMethod::all().into_iter().find(|way| way.name() == case.name);
        let Some((setting, way)) = setting.zip(way) else {
            return Ok(Outcome::Skipped("no such method".to_owned()));
        };
        if let Some(why) = way.missing(self.bench.caps()) {
            return Ok(Outcome::Skipped(why));
        }
        let file = match self.file(way, setting) {
            Ok(file) => file,
            Err(why) => return Ok(Outcome::Skipped(why)),
        };
        let sent = self.send((way, &file), setting, pass)?;
        // With encryption in the process, the engine counts the bytes of the records, which are
        // more.
        let (by_way, len) = (sent.tally.by_way, setting.share(self.len) * setting.receivers as u64);
        if by_way < len || (by_way > len && !way.is_sealed()) {
            let text = format!("{by_way} of {len} bytes took the path {}", way.path());
            return Ok(Outcome::Skipped(text));
        }
        Ok(match pass {
            Pass::Timed => Outcome::Measured(sent.metrics()),
            Pass::Integrity => {
                let arrived = (sent.part.bytes, sent.part.checksum);
                Outcome::Checked(Verdict::of_bytes((len, self.checksum(setting, &file)?), arrived))
            }
        })
    }
}

#[cfg(test)]
mod tests;
