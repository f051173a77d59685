//! Times between two acknowledgements of a partition, from the journals of producers that run.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::journal;

/// Time between two reads of a journal, which bounds the accuracy of a gap.
const INTERVAL: Duration = Duration::from_millis(10);
/// Reads with acknowledgements from which on one is new: the first may contain older ones.
const NEW_READS: u64 = 2;

/// Longest gap of a producer's partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Name of the producer.
    pub producer: String,
    /// The partition with the longest gap.
    pub partition: u32,
    /// Duration, without the time that does not count.
    pub time: Duration,
}

impl Display for Gap {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.2} s", self.producer, self.time.as_secs_f64())
    }
}

/// Follows the journals of producers. Dropping it ends its thread.
pub struct Gaps {
    origin: Instant,
    times: Arc<Mutex<Times>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gaps {
    /// Follows these journals, by the names of their producers, each with this number of
    /// partitions. A journal may be created later.
    pub fn follow(journals: &[(String, PathBuf)], partitions: u32) -> Self {
        let names: Vec<String> = journals.iter().map(|(name, _)| name.clone()).collect();
        let times = Arc::new(Mutex::new(Times::new(&names, partitions)));
        let is_over = Arc::new(AtomicBool::new(false));
        let origin = Instant::now();
        let mut readers: Vec<_> =
            journals.iter().map(|(name, path)| (name.clone(), Reader::new(path))).collect();
        let (shared, over) = (Arc::clone(&times), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Acquire) {
                for (name, reader) in &mut readers {
                    let partitions = reader.next();
                    let mut times = shared.lock().expect("no panic");
                    partitions
                        .into_iter()
                        .for_each(|partition| times.note(name, partition, origin.elapsed()));
                }
                std::thread::sleep(INTERVAL);
            }
        });
        Self { origin, times, is_over, thread: Some(thread) }
    }

    /// Starts the measurement.
    pub fn begin(&self) {
        self.times().begin(self.origin.elapsed());
    }

    /// Does not count the time from now on.
    pub fn pause(&self) {
        self.times().pause(self.origin.elapsed());
    }

    /// Counts the time again.
    pub fn resume(&self) {
        self.times().resume(self.origin.elapsed());
    }

    /// The longest gap of each producer since [`Gaps::begin`]. A gap that has not ended counts up
    /// to now.
    pub fn longest(&self) -> Vec<Gap> {
        self.times().longest(self.origin.elapsed())
    }

    /// Waits until each partition has an acknowledgement from now on. Names the partitions that
    /// have none after `limit`.
    pub fn await_all(&self, limit: Duration) -> Vec<String> {
        let (start, mark) = (Instant::now(), self.times().reads());
        loop {
            let silent = self.times().silent_since(&mark);
            if silent.is_empty() || start.elapsed() > limit {
                return silent;
            }
            std::thread::sleep(INTERVAL);
        }
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().expect("no panic")
    }
}

impl Drop for Gaps {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Fails only if the thread has panicked, which it has printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reader of a journal that follows its growth.
struct Reader {
    path: PathBuf,
    file: Option<File>,
    /// A last line without its end.
    rest: String,
}

impl Reader {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, rest: String::new() }
    }

    /// The partitions of the entries since the last call.
    fn next(&mut self) -> Vec<u32> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return Vec::new() };
        file.read_to_string(&mut self.rest)
            .unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        let end = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let whole: String = self.rest.drain(..end).collect();
        let mut partitions: Vec<u32> = journal::parse(&whole).iter().map(|entry| entry.partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        partitions
    }
}

/// Name of a producer, and a partition.
type Key = (String, u32);

/// The gaps of all partitions. A machine without a clock: times are those since its origin.
struct Times {
    partitions: BTreeMap<Key, Partition>,
    /// Time that did not count, up to the last pause.
    uncounted: Duration,
    paused_at: Option<Duration>,
}

#[derive(Default)]
struct Partition {
    /// Counted time of the last acknowledgement.
    last: Duration,
    longest: Duration,
    /// Number of reads with an acknowledgement.
    reads: u64,
}

impl Times {
    fn new(names: &[String], partitions: u32) -> Self {
        let keys =
            names.iter().flat_map(|name| (0..partitions).map(move |partition| (name.clone(), partition)));
        let partitions = keys.map(|key| (key, Partition::default())).collect();
        Self { partitions, uncounted: Duration::ZERO, paused_at: None }
    }

    fn counted(&self, now: Duration) -> Duration {
        self.paused_at.unwrap_or(now) - self.uncounted
    }

    fn begin(&mut self, now: Duration) {
        let now = self.counted(now);
        self.partitions.values_mut().for_each(|one| (one.last, one.longest) = (now, Duration::ZERO));
    }

    fn pause(&mut self, now: Duration) {
        assert!(self.paused_at.replace(now).is_none(), "the time counts");
    }

    fn resume(&mut self, now: Duration) {
        self.uncounted += now - self.paused_at.take().expect("the time does not count");
    }

    fn note(&mut self, name: &str, partition: u32, now: Duration) {
        let now = self.counted(now);
        let one =
            self.partitions.get_mut(&(name.to_owned(), partition)).expect("a partition of the producer");
        one.longest = one.longest.max(now - one.last);
        (one.last, one.reads) = (now, one.reads + 1);
    }

    fn longest(&self, now: Duration) -> Vec<Gap> {
        let now = self.counted(now);
        let mut gaps: Vec<Gap> = Vec::new();
        for ((producer, partition), one) in &self.partitions {
            let gap = Gap {
                producer: producer.clone(),
                partition: *partition,
                time: one.longest.max(now - one.last),
            };
            match gaps.last_mut().filter(|last| last.producer == *producer) {
                Some(last) if last.time >= gap.time => {}
                Some(last) => *last = gap,
                None => gaps.push(gap),
            }
        }
        gaps
    }

    fn reads(&self) -> BTreeMap<Key, u64> {
        self.partitions.iter().map(|(key, one)| (key.clone(), one.reads)).collect()
    }

    fn silent_since(&self, mark: &BTreeMap<Key, u64>) -> Vec<String> {
        let silent = self.partitions.iter().filter(|(key, one)| one.reads < mark[*key] + NEW_READS);
        silent.map(|((name, partition), _)| format!("{name}-{partition}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Times;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn longest(times: &Times, now: u64) -> Vec<(String, u32, u64)> {
        let gaps = times.longest(at(now)).into_iter();
        gaps.map(|gap| (gap.producer, gap.partition, gap.time.as_secs())).collect()
    }

    #[test]
    fn longest_gap_is_that_of_slowest_partition() {
        let mut times = Times::new(&["a".to_owned(), "b".to_owned()], 2);
        times.begin(at(10));
        for (name, partition, now) in
            [("a", 0, 11), ("a", 1, 13), ("a", 0, 13), ("b", 0, 14), ("b", 1, 11), ("a", 1, 14)]
        {
            times.note(name, partition, at(now));
        }
        assert_eq!(longest(&times, 14), [("a".to_owned(), 1, 3), ("b".to_owned(), 0, 4)]);
        // A gap that has not ended.
        assert_eq!(longest(&times, 20)[1], ("b".to_owned(), 1, 9));
        times.begin(at(20));
        assert_eq!(longest(&times, 21)[0], ("a".to_owned(), 0, 1));
    }

    #[test]
    fn pauses_are_excluded_from_gaps() {
        let mut times = Times::new(&["a".to_owned()], 1);
        times.begin(at(0));
        times.note("a", 0, at(1));
        times.pause(at(2));
        assert_eq!(longest(&times, 30), [("a".to_owned(), 0, 1)]);
        times.resume(at(50));
        assert_eq!(longest(&times, 52), [("a".to_owned(), 0, 3)]);
        times.note("a", 0, at(54));
        assert_eq!(longest(&times, 54), [("a".to_owned(), 0, 5)]);
    }

    #[test]
    fn partition_is_silent_until_two_acknowledged_reads() {
        let mut times = Times::new(&["a".to_owned()], 2);
        let mark = times.reads();
        times.note("a", 0, at(1));
        assert_eq!(times.silent_since(&mark), ["a-0", "a-1"]);
        times.note("a", 0, at(2));
        assert_eq!(times.silent_since(&mark), ["a-1"]);
    }
}
