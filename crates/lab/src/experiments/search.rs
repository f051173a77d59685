//! `lab search`: finds the batch with an offset from a nearby file position, as every fetch does,
//! by three methods.
//!
//! An index gives a position at or before the requested batch. From there a method reads batch by
//! batch: the last offset of each (which needs the whole header of each), or the base offset of
//! each (which needs its start, and one whole header at the end), or a window of many batches.
//! Every read is a system call, and the experiment counts its bytes. If Kafka's jars are available,
//! Kafka's own classes search the same file.

use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use levada_base::batch::{Builder, HEADER_LEN, PREFIX_LEN};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::machine::cpu::Stopwatch;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::method::times;
use crate::record::{Metric, Verdict};

mod kafka;

use kafka::Kafka;

/// Number of records in a batch, and bytes of a record's value, as in the article that this
/// experiment repeats.
const RECORDS: i64 = 40;
const VALUE: [u8; 10] = *b"0123456789";

/// Number of batches after the position that the index gives.
const BATCHES: usize = 40;

/// Number of positions that an index might give, so that the searches use more than one cache line.
const PLACES: usize = 64;

/// Bytes of a batch up to its magic byte, which contain its offset, size and format.
const START_LEN: usize = 17;

/// Bytes of a window: the default distance of index entries, and a header.
const WINDOW_BYTES: usize = 4096 + HEADER_LEN;

/// The experiment `lab search` with its files.
#[derive(Debug)]
pub struct Searches {
    file: File,
    /// Position of each batch, by number; its base offset is the number times [`RECORDS`].
    positions: Vec<u64>,
    lookups: usize,
    /// Kafka's search, or the reason why it is not available; none if the command line does not
    /// request it.
    kafka: Option<Result<Kafka, String>>,
}

/// Result of a lookup: position, size and last offset of a batch.
type Found = (u64, u64, i64);

/// Choice of the offsets to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// An offset in the last batch after the position.
    Last,
    /// An offset in the first six batches, about the distance of entries in the default index.
    Near,
}

const WANTED: [(&str, Wanted); 2] =
    [("the last of 40 batches", Wanted::Last), ("any of 6 batches", Wanted::Near)];

const WAYS: [(&str, Search); 3] = [
    ("last offset of each", by_last_offset),
    ("base offset of each", by_base_offset),
    ("one window", by_window),
];

/// A method of search: finds an offset from a position on, and counts reads and bytes.
type Search = fn(&File, u64, i64, &mut Reads) -> io::Result<Found>;

/// Number of reads, and of their bytes.
#[derive(Debug, Default)]
struct Reads {
    calls: u64,
    bytes: u64,
}

impl Reads {
    /// Reads up to the length of the buffer. Returns the number of bytes.
    fn read(&mut self, file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let count = file.read_at(buffer, at)?;
        self.calls += 1;
        self.bytes += count as u64;
        Ok(count)
    }

    fn exactly<const N: usize>(&mut self, file: &File, at: u64) -> io::Result<[u8; N]> {
        let mut buffer = [0; N];
        match self.read(file, &mut buffer, at)? {
            count if count == N => Ok(buffer),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Base offset and size in bytes of the batch that starts with these bytes.
fn start(bytes: &[u8]) -> Option<(i64, u64)> {
    let base = i64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    let length = i32::from_be_bytes(bytes.get(8..PREFIX_LEN)?.try_into().ok()?);
    Some((base, u64::try_from(length).ok()? + PREFIX_LEN as u64))
}

/// Last offset of the batch with this header.
fn last_offset(header: &[u8]) -> Option<i64> {
    const DELTA_AT: usize = 23;
    let (base, _) = start(header)?;
    let delta = i32::from_be_bytes(header.get(DELTA_AT..DELTA_AT + 4)?.try_into().ok()?);
    Some(base + i64::from(delta))
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no valid batch at the expected position")
}

fn by_last_offset(file: &File, from: u64, offset: i64, reads: &mut Reads) -> io::Result<Found> {
    let mut at = from;
    loop {
        let (_, size) = start(&reads.exactly::<START_LEN>(file, at)?).ok_or_else(broken)?;
        let last = last_offset(&reads.exactly::<HEADER_LEN>(file, at)?).ok_or_else(broken)?;
        if last >= offset {
            return Ok((at, size, last));
        }
        at += size;
    }
}

fn by_base_offset(file: &File, from: u64, offset: i64, reads: &mut Reads) -> io::Result<Found> {
    let mut candidate = None;
    let mut at = from;
    loop {
        // At the end of the file the candidate is the last batch.
        let next = match reads.exactly::<START_LEN>(file, at) {
            Ok(bytes) => start(&bytes).filter(|(base, _)| *base <= offset),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
        let Some((_, size)) = next else { break };
        candidate = Some((at, size));
        at += size;
    }
    let (at, size) = candidate.ok_or_else(broken)?;
    let last = last_offset(&reads.exactly::<HEADER_LEN>(file, at)?).ok_or_else(broken)?;
    Ok((at, size, last))
}

fn by_window(file: &File, from: u64, offset: i64, reads: &mut Reads) -> io::Result<Found> {
    let mut window = [0; WINDOW_BYTES];
    let (mut at, mut candidate) = (from, None);
    loop {
        let filled = reads.read(file, &mut window, at)?;
        let mut inside = 0;
        // Headers that are completely inside the window.
        while inside + HEADER_LEN <= filled {
            let header = &window[inside..inside + HEADER_LEN];
            let (base, size) = start(header).ok_or_else(broken)?;
            if base > offset {
                return candidate.ok_or_else(broken);
            }
            candidate = Some((at + inside as u64, size, last_offset(header).ok_or_else(broken)?));
            inside += usize::try_from(size).map_err(|_| broken())?;
        }
        if filled < WINDOW_BYTES {
            return candidate.ok_or_else(broken);
        }
        at += inside as u64;
    }
}

impl Searches {
    /// Writes the log.
    ///
    /// # Errors
    /// The device has too little space.
    pub fn new(bench: &Bench) -> Result<Self, LabError> {
        let mut file = bench.file()?;
        let failed = || LabError::step::<io::Error>("cannot write the log");
        let mut positions = Vec::with_capacity(PLACES * BATCHES);
        let mut end = 0;
        for number in 0..(PLACES * BATCHES) as i64 {
            let mut batch = Builder::new().base_offset(number * RECORDS);
            for _ in 0..RECORDS {
                batch.push(1_700_000_000_000 + number, None, Some(&VALUE));
            }
            let bytes = batch.build().map_err(failed())?;
            file.write_all(&bytes).map_err(failed())?;
            positions.push(end);
            end += bytes.len() as u64;
        }
        let lookups = bench.scale().choose(50, 2_000, 10_000, 50_000);
        Ok(Self { file, positions, lookups, kafka: None })
    }

    /// Adds searches by Kafka's classes, from the jars of a directory.
    #[must_use]
    pub fn beside_kafka(mut self, bench: &Bench, libs: &Path) -> Self {
        self.kafka = Some(Kafka::start(bench, libs, &self.file));
        self
    }

    /// Returns a position that an index might give, an offset after it, and the number of the batch
    /// with the offset.
    fn question(&self, random: &mut StdRng, wanted: Wanted) -> (u64, i64, usize) {
        const NEAR: usize = 6;
        let first = random.random_range(0..PLACES) * BATCHES;
        let batch = match wanted {
            Wanted::Last => first + BATCHES - 1,
            Wanted::Near => first + random.random_range(0..NEAR),
        };
        let offset = batch as i64 * RECORDS + random.random_range(0..RECORDS);
        (self.positions[first], offset, batch)
    }

    /// Returns the questions of a run, drawn with a seed.
    fn questions(&self, seed: u64, wanted: Wanted) -> Vec<(u64, i64, usize)> {
        let mut random = StdRng::seed_from_u64(seed);
        (0..self.lookups).map(|_| self.question(&mut random, wanted)).collect()
    }

    /// True if the batch has this position and size.
    fn is_at(&self, batch: usize, (at, size): (u64, u64)) -> bool {
        at == self.positions[batch] && self.positions.get(batch + 1).is_none_or(|end| at + size == *end)
    }

    /// Executes lookups and counts the correct results.
    fn check(&self, search: Search, wanted: Wanted) -> io::Result<Verdict> {
        let mut right = 0;
        for (from, offset, batch) in self.questions(CHECKED, wanted) {
            let (at, size, last) = search(&self.file, from, offset, &mut Reads::default())?;
            let sound = self.is_at(batch, (at, size)) && last == (batch as i64 + 1) * RECORDS - 1;
            right += usize::from(sound);
        }
        Ok(self.verdict(right))
    }

    fn verdict(&self, right: usize) -> Verdict {
        let what = format!("{right} of {} lookups found their batch", self.lookups);
        Verdict { sound: right == self.lookups, what }
    }

    fn time(&self, search: Search, wanted: Wanted) -> io::Result<Metrics> {
        let mut reads = Reads::default();
        let mut took = Vec::with_capacity(self.lookups);
        let questions = self.questions(TIMED, wanted);
        let watch = Stopwatch::start();
        for (from, offset, _) in questions {
            let start = Instant::now();
            std::hint::black_box(search(&self.file, from, offset, &mut reads)?);
            took.push(start.elapsed());
        }
        let elapsed = watch.elapsed();
        let lookups = self.lookups as f64;
        let mut metrics = times::values(took);
        metrics.insert("cpu_us".to_owned(), elapsed.cpu.as_secs_f64() * 1e6 / lookups);
        metrics.insert("bytes".to_owned(), reads.bytes as f64 / lookups);
        metrics.insert("calls".to_owned(), reads.calls as f64 / lookups);
        Ok(metrics)
    }

    /// Executes lookups with Kafka's classes. Every round checks every result, outside the measured
    /// time.
    fn by_kafka(&mut self, way: &str, wanted: Wanted, pass: Pass) -> io::Result<Outcome> {
        let questions = self.questions(if pass == Pass::Timed { TIMED } else { CHECKED }, wanted);
        let kafka = match &mut self.kafka {
            Some(Ok(kafka)) => kafka,
            Some(Err(why)) => return Ok(Outcome::Skipped(why.clone())),
            None => {
                return Ok(Outcome::Skipped(
                    "the case uses Kafka's classes: name the directory of the jars with --kafka-libs"
                        .to_owned(),
                ));
            }
        };
        let searched = kafka.search(way, questions.iter().map(|(from, offset, _)| (*from, *offset)))?;
        let places = questions.iter().map(|(.., batch)| *batch).zip(searched.found);
        let right = places.filter(|(batch, found)| self.is_at(*batch, *found)).count();
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(self.verdict(right)));
        }
        if right < self.lookups {
            return Err(io::Error::other(self.verdict(right).what));
        }
        let mut metrics = times::values(searched.took);
        metrics.insert("cpu_us".to_owned(), searched.cpu.as_secs_f64() * 1e6 / self.lookups as f64);
        Ok(Outcome::Measured(metrics))
    }
}

/// Seeds of the checked questions and of the timed questions.
const CHECKED: u64 = 3;
const TIMED: u64 = 5;

impl Experiment for Searches {
    fn name(&self) -> &'static str {
        "search"
    }

    fn shows(&self) -> String {
        format!(
            "Cost of the search for the batch of an offset, from the position that an index gives; batches of {RECORDS} records of {} bytes.",
            VALUE.len()
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = vec![Metric::less("cpu_us", "CPU", "µs/lookup")];
        metrics.extend(times::metrics());
        metrics.push(Metric::less("bytes", "bytes read", "/lookup"));
        metrics.push(Metric::less("calls", "reads", "/lookup"));
        metrics
    }

    fn cases(&self) -> Vec<Case> {
        let kafka = if self.kafka.is_some() { &kafka::WAYS[..] } else { &[] };
        let names = || WAYS.iter().map(|(name, _)| *name).chain(kafka.iter().map(|(name, _)| *name));
        WANTED.iter().flat_map(|(group, _)| names().map(|name| Case::new(*group, name))).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let failed = || LabError::step::<io::Error>("cannot search the log");
        let wanted = WANTED.iter().find(|(group, _)| *group == case.group);
        let kafka = kafka::WAYS.iter().find(|(name, _)| *name == case.name);
        if let Some(((_, wanted), (_, way))) = wanted.zip(kafka) {
            return self.by_kafka(way, *wanted, pass).map_err(failed());
        }
        let search = WAYS.iter().find(|(name, _)| *name == case.name);
        let Some(((_, wanted), (_, search))) = wanted.zip(search) else {
            return Ok(Outcome::Skipped("no such method".to_owned()));
        };
        Ok(match pass {
            Pass::Timed => Outcome::Measured(self.time(*search, *wanted).map_err(failed())?),
            Pass::Integrity => Outcome::Checked(self.check(*search, *wanted).map_err(failed())?),
        })
    }
}

#[cfg(test)]
mod tests;
