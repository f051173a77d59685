//! One compaction of one log: first it collects the last offset of each key from the dirty section,
//! then it rewrites the segments, group by group, the oldest first.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use levada_base::batch::{self, BatchView};

use super::filter::Filter;
use super::key_map::KeyMap;
use super::output::{self, Output};
use super::transactions::Transactions;
use super::{CleanError, Cleaned, DirtySection, LastRecords, Throttle, go_on, group};
use crate::partition::{Partition, aborted_among};
use crate::producers::Producers;
use crate::segment::{Head, SWEEP, Scan, Segment};
use crate::{LogConfig, LogError, recover};

/// Task of one cleaning.
#[derive(Clone, Debug)]
pub struct Job {
    /// Log to compact.
    pub partition: Arc<Partition>,
    /// Configuration of the log.
    pub config: LogConfig,
    /// The section to compact; should be fresh.
    pub dirt: DirtySection,
    /// `log.cleaner.dedupe.buffer.size`, shared by all that work at the same time: 24 bytes a key.
    pub memory_bytes: usize,
    /// `log.cleaner.io.buffer.load.factor`: how full that may get.
    pub load_factor: f64,
    /// The present time for the retention of tombstones.
    pub now_ms: i64,
}

/// Work done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Bytes read to learn keys.
    pub mapped_bytes: u64,
    /// Bytes read to be written again.
    pub read_bytes: u64,
    /// Bytes of the new segments.
    pub written_bytes: u64,
    /// Number of records read.
    pub read_records: u64,
    /// Number of records written.
    pub written_records: u64,
    /// Used fraction of the key map, from 0 to 1.
    pub map_fill: f64,
}

/// A compaction in progress. Appends, reads and retention continue.
#[derive(Debug)]
pub struct Cleaning {
    job: Job,
    /// Number of truncations of the log before this began.
    cuts: u64,
    segments: Arc<Vec<Arc<Segment>>>,
    keys: KeyMap,
    groups: VecDeque<Range<usize>>,
    transactions: Transactions,
    counts: Counts,
}

impl Cleaning {
    /// Collects the keys. Blocks; syncs all new segments, and then reads them.
    ///
    /// # Errors
    /// A failing disk, or bytes that are no intact batch.
    pub fn begin(job: Job, throttle: Throttle<'_>) -> Result<Self, CleanError> {
        let DirtySection { first_dirty, end, .. } = job.dirt;
        // Before anything is read: values that a truncation removes replace nothing.
        let cuts = job.partition.cuts();
        // Values that are learnt here replace earlier values permanently: if a power loss took
        // them, a key would have no value. They count by the markers of their transactions, which
        // may be in the active segment.
        job.partition.flush()?;
        let segments = job.partition.segments.load_full();
        let records = end.saturating_sub(first_dirty).max(0).cast_unsigned();
        let keys = KeyMap::new(job.memory_bytes, job.load_factor, records);
        let (groups, transactions, counts) = (VecDeque::new(), Transactions::default(), Counts::default());
        let mut cleaning = Self { job, cuts, segments, keys, groups, transactions, counts };
        match cleaning.plan(throttle) {
            Ok(()) => Ok(cleaning),
            Err(error) => Err(cleaning.explain(error)),
        }
    }

    fn plan(&mut self, throttle: Throttle<'_>) -> Result<(), CleanError> {
        self.learn(throttle)?;
        let (job, end) = (&self.job, self.job.dirt.end);
        let upto = end.min(self.end());
        let upto = self.segments.partition_point(|segment| segment.base() < upto);
        self.groups = group::groups(&self.segments[..upto], &*job.partition.disk, &job.config, end)?.into();
        self.counts.map_fill = self.keys.fill();
        Ok(())
    }

    /// A file that cannot be opened is no damage if its segment has left the log since.
    fn explain(&self, error: CleanError) -> CleanError {
        let partition = &self.job.partition;
        let first = |segments: &[Arc<Segment>]| segments.first().map(|segment| segment.base());
        let has_changed =
            partition.cuts() != self.cuts || first(&partition.segments.load()) != first(&self.segments);
        match error {
            CleanError::Log(_) if has_changed => CleanError::Overtaken,
            other => other,
        }
    }

    /// Up to where the log will have been compacted: the end of the dirt, or earlier if the map is
    /// full.
    pub fn end(&self) -> i64 {
        self.keys.latest() + 1
    }

    /// Work done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Writes the next group again; `producers` should be fresh ([`crate::Writer::last_records`]).
    /// `None` when all are done. Blocks.
    ///
    /// # Errors
    /// Same as [`Cleaning::begin`].
    pub fn next_segment(
        &mut self,
        producers: &LastRecords,
        throttle: Throttle<'_>,
    ) -> Result<Option<Cleaned>, CleanError> {
        let Some(group) = self.groups.pop_front() else { return Ok(None) };
        let partition = self.job.partition.clone();
        let base = self.segments[group.start].base();
        let done = self.rewrite(group, producers, throttle);
        if done.is_err()
            && let Err(error) = output::remove(&*partition.disk, &partition.dir(), base)
        {
            tracing::warn!(%error, "cannot remove an unfinished segment; the next start removes it");
        }
        done.map(Some).map_err(|error| self.explain(error))
    }

    fn learn(&mut self, throttle: Throttle<'_>) -> Result<(), CleanError> {
        let DirtySection { first_dirty, end, .. } = self.job.dirt;
        let segments = self.segments.clone();
        let from = segments.partition_point(|segment| segment.base() <= first_dirty).saturating_sub(1);
        let upto = segments.partition_point(|segment| segment.base() < end);
        self.keys.reach(first_dirty - 1);
        let mut transactions = Transactions::default();
        transactions.expect(aborted_among(&segments, &*self.job.partition.disk, (first_dirty, end))?);
        for at in from..upto {
            if !self.learn_segment(&segments[at], &mut transactions, throttle)? {
                return Ok(());
            }
            let next = segments.get(at + 1).map_or(end, |next| next.base());
            self.keys.reach(next.min(end) - 1);
        }
        Ok(())
    }

    /// Adds the keys of the next segment; returns false if the map is full.
    fn learn_segment(
        &mut self,
        segment: &Segment,
        transactions: &mut Transactions,
        throttle: Throttle<'_>,
    ) -> Result<bool, CleanError> {
        let disk = &*self.job.partition.disk;
        let first_dirty = self.job.dirt.first_dirty;
        let start = segment.offsets.lookup(disk, segment.delta(first_dirty))?.position;
        let start = if segment.base() < first_dirty { start } else { 0 };
        let mut scan = segment.scan(disk, start..segment.size(), SWEEP)?;
        while let Some(head) = scan.next().map_err(LogError::from)? {
            go_on(throttle, head.size)?;
            self.counts.mapped_bytes += head.size;
            let position = BatchPosition::of(&scan, &head);
            let batch = intact(&mut scan, &head)?;
            let skipped = if batch.is_control() {
                transactions.pass_marker(&batch);
                true
            } else {
                transactions.pass(&batch) || batch.record_count() == 0
            };
            if !skipped {
                for record in batch::records(batch.bytes()).map_err(|error| position.damaged(&error))? {
                    let record = record.map_err(|error| position.damaged(&error))?;
                    let offset = batch.base_offset() + i64::from(record.offset_delta);
                    let Some(key) = record.key.filter(|_| offset >= first_dirty) else { continue };
                    if !self.keys.put(&key, offset) {
                        return Ok(false);
                    }
                }
            }
            if batch.last_offset() >= first_dirty {
                self.keys.reach(batch.last_offset());
            }
        }
        Ok(true)
    }

    fn rewrite(
        &mut self,
        group: Range<usize>,
        producers: &LastRecords,
        throttle: Throttle<'_>,
    ) -> Result<Cleaned, CleanError> {
        let (segments, partition) = (self.segments.clone(), self.job.partition.clone());
        let (disk, config) = (&partition.disk, &self.job.config);
        let base = segments[group.start].base();
        let dir = partition.dir();
        let mut output = Output::create(disk, &dir, base, config.index_interval_bytes)?;
        for at in group.clone() {
            let (segment, next) = (&segments[at], segments.get(at + 1).map_or(i64::MAX, |next| next.base()));
            self.transactions.expect(aborted_among(&segments, &**disk, (segment.base(), next))?);
            self.rewrite_segment(segment, &mut output, (producers, throttle))?;
        }
        let end = segments.get(group.end).map_or(i64::MAX, |next| next.base());
        let old: Vec<_> = segments[group].to_vec();
        for segment in &old {
            // Other files are about to get these names: readers of the old files must have them
            // open.
            segment.hold(&**disk)?;
        }
        let modified = old.last().map(|last| last.modified(&**disk)).transpose()?;
        let snapshots = recover::snapshots_in(&*partition.disk, &partition.dir(), base..end)?;
        let producers = self.producers_at(base, producers)?;
        let cleaned = output.finish(&self.transactions.take_kept(), producers, modified)?;
        Ok(Cleaned { old, snapshots, cuts: self.cuts, ..cleaned })
    }

    /// The snapshot of producers for the start of a group, without transactions that have ended
    /// since: their markers may be removed, after which nothing would end the transactions again
    /// after a crash.
    fn producers_at(&self, offset: i64, now: &LastRecords) -> Result<Option<Vec<u8>>, LogError> {
        let (disk, dir) = (&*self.job.partition.disk, &self.job.partition.dir());
        match Producers::load(disk, dir, offset, self.job.now_ms) {
            Ok(mut producers) => {
                producers.end_transactions(&now.open);
                Ok(Some(producers.encode()))
            }
            Err(LogError::Corrupt { .. }) => Ok(None),
            Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn rewrite_segment(
        &mut self,
        segment: &Segment,
        output: &mut Output<'_>,
        (producers, throttle): (&LastRecords, Throttle<'_>),
    ) -> Result<(), CleanError> {
        let mut filter = Filter {
            keys: &self.keys,
            transactions: &mut self.transactions,
            producers,
            end: self.job.dirt.end,
            now_ms: self.job.now_ms,
            delete_retention_ms: self.job.config.delete_retention_ms,
            kept: 0,
            seen: 0,
        };
        let mut scan = segment.scan(&*self.job.partition.disk, 0..segment.size(), SWEEP)?;
        while let Some(head) = scan.next().map_err(LogError::from)? {
            let position = BatchPosition::of(&scan, &head);
            let batch = intact(&mut scan, &head)?;
            let stays = filter.filter(batch.bytes()).map_err(|error| position.damaged(&error))?;
            let written = stays.map_or(Ok(0), |bytes| {
                self.counts.written_bytes += bytes.len() as u64;
                output.push(&bytes)
            })?;
            self.counts.read_bytes += head.size;
            go_on(throttle, head.size + written)?;
        }
        self.counts.read_records += filter.seen;
        self.counts.written_records += filter.kept;
        Ok(())
    }
}

/// The batch, if its checksum is correct: a damaged batch must not be rewritten with a correct
/// checksum.
fn intact<'a>(scan: &'a mut Scan<'_>, head: &Head) -> Result<BatchView<'a>, LogError> {
    let position = BatchPosition::of(scan, head);
    batch::check_stored(scan.batch(head)?).map_err(|error| position.damaged(&error))
}

/// Position of a batch, for the error if it cannot be compacted.
struct BatchPosition<'a> {
    path: &'a Path,
    position: u64,
    offset: i64,
}

impl<'a> BatchPosition<'a> {
    fn of(scan: &Scan<'a>, head: &Head) -> Self {
        BatchPosition { path: scan.path(), position: head.position, offset: head.base_offset }
    }

    fn damaged(&self, error: &dyn Display) -> LogError {
        let (position, offset) = (self.position, self.offset);
        LogError::corrupt(self.path, format!("batch at {position} with offset {offset}: {error}"))
    }
}
