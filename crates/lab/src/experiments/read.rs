//! `lab read`: reads one large file in order or at random, with one thread or one on each
//! processor, by each available method.
//!
//! Every method reads blocks of the same size, and the reader accesses one word of each page. That
//! is less than a program does with its data, and the same for all methods. A mapping saves the
//! copy; its cost is the fault for each page.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use levada_io::map::{Access, FileMap};
use levada_io::probe::Support;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::error::LabError;
use crate::harness::bench::{Bench, chill};
use crate::harness::payload;
use crate::machine::cpu::Stopwatch;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::method::times;
use crate::record::{Metric, Verdict};

mod faults;
mod way;

use faults::Faults;
use way::{Block, ReadMethod, Share};

/// Bytes of a block, as in the article that this experiment repeats.
const BLOCK_BYTES: usize = 128 << 10;

/// The experiment `lab read` with its files.
#[derive(Debug)]
pub struct Reads<'a> {
    bench: &'a Bench,
    file: Arc<File>,
    /// The same file for reads that bypass the page cache, or the reason why the file system
    /// refuses them.
    direct: Result<Arc<File>, String>,
    /// Reason why the page cache has no huge pages of the file; none if it has some.
    small: Option<String>,
    blocks: u64,
    /// Major faults of the last run, by group and case, for mappings in cold groups with random
    /// order.
    waits: BTreeMap<(String, String), u64>,
    /// Checksum of the file.
    checksum: u64,
    len: u64,
}

/// Workload of all methods of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    group: &'static str,
    hot: bool,
    in_order: bool,
    /// True for one reader on each processor instead of one reader.
    many: bool,
}

const SETTINGS: [Setting; 5] = [
    Setting { group: "hot, in order", hot: true, in_order: true, many: false },
    Setting { group: "hot, at random", hot: true, in_order: false, many: false },
    Setting { group: "cold, in order", hot: false, in_order: true, many: false },
    Setting { group: "cold, at random", hot: false, in_order: false, many: false },
    Setting { group: "cold, at random, a reader on each processor", hot: false, in_order: false, many: true },
];

impl<'a> Reads<'a> {
    /// Creates the file.
    ///
    /// # Errors
    /// The device has too little space.
    pub fn new(bench: &'a Bench) -> Result<Self, LabError> {
        let len = bench.scale().choose(2 << 20, 8 << 20, 256 << 20, 2 << 30);
        let (file, checksum) = bench.filled_file(len)?;
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let flags = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
        let direct = File::options().read(true).custom_flags(flags).open(path);
        let mut reads = Reads {
            bench,
            file: Arc::new(file),
            direct: direct.map(Arc::new).map_err(|error| error.to_string()),
            small: None,
            blocks: len / BLOCK_BYTES as u64,
            waits: BTreeMap::new(),
            checksum,
            len,
        };
        chill(&reads.file)?;
        reads.small = match reads.warm_huge() {
            Ok(true) => None,
            Ok(false) => Some(
                "the file system keeps no huge pages of a file; ext4 does from Linux 6.16 on, XFS, and tmpfs mounted with huge=".to_owned(),
            ),
            Err(error) => Some(format!("the kernel has no huge pages for files: {error}")),
        };
        Ok(reads)
    }

    /// Returns the blocks of each reader in reading order.
    fn shares(&self, setting: Setting) -> Vec<Share> {
        let readers = if setting.many { self.bench.places().allowed().len().max(1) } else { 1 };
        let mut blocks: Vec<u64> = (0..self.blocks).collect();
        if !setting.in_order {
            blocks.shuffle(&mut StdRng::seed_from_u64(11));
        }
        let size = blocks.len().div_ceil(readers);
        let share = |blocks: &[u64]| Share::new(blocks.to_vec(), BLOCK_BYTES);
        blocks.chunks(size.max(1)).map(share).collect()
    }

    fn file(&self, way: ReadMethod) -> Result<Arc<File>, String> {
        if way.is_direct() { self.direct.clone() } else { Ok(Arc::clone(&self.file)) }
    }

    fn missing(&self, way: ReadMethod) -> Option<String> {
        let caps = self.bench.caps();
        let needed = [(way.needs_ring(), &caps.io_uring), (way.drops(), &caps.uncached_reads)];
        let absent = needed.into_iter().find_map(|(needed, support)| match support {
            Support::Absent { why, remedy } if needed => Some(format!("{why}; {remedy}")),
            _ => None,
        });
        let small = if way.is_huge() { self.small.clone() } else { None };
        absent.or(small).or_else(|| self.file(way).err())
    }

    /// Brings the file into the page cache, or evicts it, as a setting requires. Always evicts the
    /// file first, because the first reader determines the size of the pages.
    fn prepare(&self, way: ReadMethod, setting: Setting) -> Result<(), LabError> {
        chill(&self.file)?;
        if !setting.hot {
            return Ok(());
        }
        let failed = || LabError::step::<io::Error>("cannot read the file");
        if way.is_huge() {
            return self.warm_huge().map(drop).map_err(failed());
        }
        let read = io::copy(&mut (&*self.file), &mut io::sink());
        let back = io::Seek::rewind(&mut (&*self.file));
        read.and(back).map_err(failed())
    }

    /// Reads the file into huge pages if the kernel supports that. Returns true if the mapping has
    /// any huge pages.
    fn warm_huge(&self) -> io::Result<bool> {
        let map =
            FileMap::open_for(&self.file, usize::try_from(self.len).unwrap_or(usize::MAX), Access::Huge)?;
        let pages = (0..map.len()).step_by(4096);
        pages.for_each(|page| {
            std::hint::black_box(map.read_u32_be(page));
        });
        faults::has_huge_pages()
    }

    fn time(&mut self, way: ReadMethod, file: &Arc<File>, setting: Setting) -> Result<Metrics, LabError> {
        let shares = self.shares(setting);
        self.prepare(way, setting)?;
        let failed = || LabError::step::<io::Error>(format!("cannot read with {}", way.name()));
        // Two barriers, so that the clock starts between them. With one barrier, readers could
        // finish before the thread with the clock wakes.
        let (ready_all, start) = (Barrier::new(shares.len() + 1), Barrier::new(shares.len() + 1));
        let reader = |share: &Share| {
            // A thread whose preparation failed must still release the others.
            let ready = way.ready(file, BLOCK_BYTES);
            ready_all.wait();
            start.wait();
            let before = faults::switches();
            let times = ready?.read(share, &mut |_: Block<'_>| {})?;
            Ok((times, faults::switches().saturating_sub(before)))
        };
        let (times, elapsed, faults) = std::thread::scope(|scope| {
            let readers: Vec<_> = shares.iter().map(|share| scope.spawn(|| reader(share))).collect();
            ready_all.wait();
            let (faults, watch) = (Faults::now(), Stopwatch::start());
            start.wait();
            let joined = readers
                .into_iter()
                .map(|reader| reader.join().unwrap_or_else(|_| Err(io::Error::other("a reader panicked"))));
            let times = joined.collect::<io::Result<Vec<_>>>();
            (times, watch.elapsed(), faults.since())
        });
        let times: Vec<(Vec<Duration>, u64)> = times.map_err(failed())?;
        if way.is_mapping() && !setting.hot && !setting.in_order {
            self.waits.insert((setting.group.to_owned(), way.name()), faults.large);
        }
        let switches: u64 = times.iter().map(|(_, switches)| switches).sum();
        let gb = self.len as f64 / 1e9;
        let mut metrics = times::values(times.into_iter().flat_map(|(times, _)| times));
        let of_all = [
            ("gb_per_s", gb / elapsed.wall.as_secs_f64()),
            ("cpu_s_per_gb", elapsed.cpu.as_secs_f64() / gb),
            ("user_share", faults.user.as_secs_f64() / elapsed.wall.as_secs_f64()),
            ("faults_per_gb", faults.faults as f64 / gb),
            ("large_faults_per_gb", faults.large as f64 / gb),
            ("switches_per_gb", switches as f64 / gb),
        ];
        metrics.extend(of_all.map(|(name, value)| (name.to_owned(), value)));
        Ok(metrics)
    }

    /// Reads all blocks in order. Compares their length and checksum with those of the file.
    fn check(&self, way: ReadMethod, file: &Arc<File>) -> Result<Verdict, LabError> {
        let in_order = Share::new((0..self.blocks).collect(), BLOCK_BYTES);
        let mut blocks = vec![None; usize::try_from(self.blocks).unwrap_or(0)];
        let mut count = 0;
        let mut keep = |block: Block<'_>| {
            let bytes = block.parts.concat();
            count += bytes.len() as u64;
            if let Some(place) = usize::try_from(block.number).ok().and_then(|at| blocks.get_mut(at)) {
                *place = Some(bytes);
            }
        };
        // A mapping loads its bytes only on access.
        let read = way.checked().ready(file, BLOCK_BYTES);
        let read = read.and_then(|mut reader| reader.read(&in_order, &mut keep));
        read.map_err(LabError::step(format!("cannot read with {}", way.name())))?;
        let mut digest = payload::digest();
        blocks.iter().flatten().for_each(|bytes| digest.update(bytes));
        Ok(Verdict::of_bytes((self.len, self.checksum), (count, digest.finalize())))
    }
}

impl Experiment for Reads<'_> {
    fn name(&self) -> &'static str {
        "read"
    }

    fn shows(&self) -> String {
        format!(
            "Throughput and cost of reading a file of {} MiB in blocks of {} KiB.",
            self.len >> 20,
            BLOCK_BYTES >> 10
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let of_all = [
            Metric::more("gb_per_s", "rate", "GB/s"),
            Metric::less("cpu_s_per_gb", "CPU", "s/GB"),
            Metric::less("user_share", "user CPU", ""),
            Metric::neither("faults_per_gb", "page faults", "/GB"),
            Metric::neither("large_faults_per_gb", "large faults", "/GB"),
            Metric::neither("switches_per_gb", "switches", "/GB"),
        ];
        of_all.into_iter().chain(times::metrics()).collect()
    }

    fn cases(&self) -> Vec<Case> {
        let case = |setting: &Setting, way: &ReadMethod| {
            let case = Case::new(setting.group, way.name());
            case.with("hot", setting.hot).with("in_order", setting.in_order).with("block_bytes", BLOCK_BYTES)
        };
        SETTINGS
            .iter()
            .flat_map(|setting| ReadMethod::ALL.iter().map(move |way| case(setting, way)))
            .collect()
    }

    fn caveat(&self, case: &Case) -> Option<String> {
        let waits = *self.waits.get(&(case.group.clone(), case.name.clone()))?;
        not_cold(waits, self.blocks)
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let setting = SETTINGS.into_iter().find(|setting| setting.group == case.group);
        let way = ReadMethod::ALL.into_iter().find(|way| way.name() == case.name);
        let Some((setting, way)) = setting.zip(way) else {
            return Ok(Outcome::Skipped("no such method".to_owned()));
        };
        if let Some(why) = self.missing(way) {
            return Ok(Outcome::Skipped(why));
        }
        let file = match self.file(way) {
            Ok(file) => file,
            Err(why) => return Ok(Outcome::Skipped(why)),
        };
        Ok(match pass {
            Pass::Timed => Outcome::Measured(self.time(way, &file, setting)?),
            Pass::Integrity => Outcome::Checked(self.check(way, &file)?),
        })
    }
}

/// Returns a caveat for a mapping in a "cold, at random" group if fewer than half of the blocks
/// waited for the device.
fn not_cold(waits: u64, blocks: u64) -> Option<String> {
    let per_fault = || match waits {
        0 => "the file was read ahead as a whole, in order".to_owned(),
        _ => {
            let kib = blocks * (BLOCK_BYTES as u64 >> 10) / waits;
            format!("one fault brought in {kib} KiB on average")
        }
    };
    (waits * 2 < blocks).then(|| {
        format!(
            "not cold and not at random: faults that waited for the device: {waits}, for {blocks} blocks of {} KiB; {}",
            BLOCK_BYTES >> 10,
            per_fault()
        )
    })
}

/// Runs `work` and returns its result and its duration.
fn clocked<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Duration)> {
    let start = Instant::now();
    work().map(|value| (value, start.elapsed()))
}

#[cfg(test)]
mod tests;
