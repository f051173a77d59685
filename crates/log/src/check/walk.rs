//! Iteration over the batches of all segments, together with their indexes.

use std::io;
use std::path::{Path, PathBuf};

use levada_base::batch::{BatchView, check_stored};

use super::entries::{self, Fault, Offsets, Times};
use super::{Batches, Check, Location, Next, RESTORE, Severity};
use crate::disk::Disk;
use crate::index::Aborted;
use crate::segment::file_name;

/// Treatment of distrusted or missing indexes by the next start.
const REBUILT: &str = "the next start builds it again from the log";

/// The state of the scan of one segment.
struct Segment {
    at: usize,
    base: i64,
    path: PathBuf,
    offsets: Option<Offsets>,
    times: Option<Times>,
    aborted: Option<Vec<Aborted>>,
    seen: Vec<Aborted>,
    /// Positions without an intact batch, with the offset that was expected there.
    broken: Vec<(u64, i64, String)>,
    /// True if an intact batch follows the first damaged one.
    intact_behind: bool,
}

impl Check<'_> {
    pub(super) fn walk(&mut self) {
        self.next_offset = self.names.bases.first().copied().unwrap_or(self.left.log_start);
        for at in 0..self.names.bases.len() {
            self.segment(at);
        }
        self.checked.segments = self.names.bases.len();
        self.checked.log_end = self.next_offset;
        let first = self.names.bases.first().copied().unwrap_or(0);
        self.checked.log_start = self.left.log_start.clamp(first.min(self.next_offset), self.next_offset);
        let unreported = std::mem::take(&mut self.unreported);
        (self.progress)(unreported);
    }

    fn segment(&mut self, at: usize) {
        let base = self.names.bases[at];
        let path = self.dir.join(file_name(base, ".log"));
        self.checked.bytes += self.size_of(&path);
        let mut batches = match Batches::open(self.disk, &path) {
            Ok(batches) => batches,
            Err(error) => return self.unreadable(&path, None, &error),
        };
        let empty = batches.len_bytes() == 0;
        let mut segment = Segment {
            at,
            base,
            offsets: self.load(at, (base, ".index"), empty, Offsets::load),
            times: self.load(at, (base, ".timeindex"), empty, Times::load),
            aborted: self.load(at, (base, ".txnindex"), true, entries::load_aborted),
            path,
            seen: Vec::new(),
            broken: Vec::new(),
            intact_behind: false,
        };
        if let Err(error) = self.batches(&mut segment, &mut batches) {
            let position = batches.position();
            self.unreadable(&segment.path, Some(position), &error);
        }
        self.judge_broken(&segment, batches.len_bytes());
        self.judge_indexes(&mut segment);
    }

    /// Reads an index, if there is one and it is in order.
    fn load<T>(
        &mut self,
        at: usize,
        (base, suffix): (i64, &str),
        may_lack: bool,
        load: impl Fn(&dyn Disk, &Path) -> io::Result<Option<Result<T, Fault>>>,
    ) -> Option<T> {
        let path = self.dir.join(file_name(base, suffix));
        match load(self.disk, &path) {
            Ok(Some(Ok(index))) => return Some(index),
            Ok(Some(Err(fault))) => self.wrong_index(at, &path, fault),
            Ok(None) if may_lack => {}
            Ok(None) => self.find(Severity::Mended, &path, "is missing", REBUILT),
            Err(error) => self.unreadable(&path, None, &error),
        }
        None
    }

    fn wrong_index(&mut self, at: usize, path: &Path, (position, what): Fault) {
        let place = Location { position: Some(position), offset: None };
        if !self.is_trusted(at) {
            return self.find_at(Severity::Mended, path, place, what, REBUILT);
        }
        let next = if path.extension().is_some_and(|extension| extension == "txnindex") {
            "remove .kafka_cleanshutdown and recovery-point-offset-checkpoint from the data directory: the next \
             start then goes through every log and builds its indexes again"
        } else {
            "remove the file: the next start builds it again from the log"
        };
        self.find_at(Severity::Damage, path, place, what, next);
    }

    fn batches(&mut self, segment: &mut Segment, batches: &mut Batches<'_>) -> io::Result<()> {
        loop {
            match batches.next_batch()? {
                Next::Batch { at, bytes } => {
                    self.report(bytes.len() as u64);
                    self.batch(segment, at, bytes);
                }
                Next::End { unused: 0 } => return Ok(()),
                Next::End { unused } => {
                    let what = format!("{unused} bytes at its end were allocated and never written to");
                    let place = Location { position: Some(batches.position()), offset: None };
                    let next = "nothing to do: they are cut off or written to by the next start";
                    self.find_at(Severity::Note, &segment.path, place, what, next);
                    return Ok(());
                }
                Next::Broken(what) => {
                    segment.broken.push((batches.position(), self.next_offset, what));
                    segment.intact_behind |= batches.intact_behind(self.next_offset)?;
                    return Ok(());
                }
            }
        }
    }

    fn batch(&mut self, segment: &mut Segment, position: u64, bytes: &[u8]) {
        let batch = match check_stored(bytes) {
            Ok(batch) => batch,
            Err(error) => {
                // Index entries of it, or of bytes after it, cannot be checked.
                (segment.offsets, segment.times) = (None, None);
                return segment.broken.push((position, self.next_offset, error.to_string()));
            }
        };
        segment.intact_behind |= !segment.broken.is_empty();
        let (first, last) = (batch.base_offset(), batch.last_offset());
        if first < self.next_offset {
            let what = format!("a batch begins at offset {first}, which is below {}", self.next_offset);
            return segment.broken.push((position, self.next_offset, what));
        }
        if last.saturating_sub(segment.base) > i64::from(i32::MAX) {
            let what = format!("offset {last} is too far from the segment's first for its index");
            return segment.broken.push((position, self.next_offset, what));
        }
        if first > self.next_offset {
            let (from, to, count) = self.gaps.unwrap_or((self.next_offset, first, 0));
            self.gaps = Some((from, to, count + 1));
        }
        self.next_offset = last.saturating_add(1);
        self.checked.batches += 1;
        self.checked.records += u64::try_from(batch.record_count()).unwrap_or(0);
        self.judge_epoch(&segment.path, position, &batch);
        let completed = self.producers.note(&batch, 0);
        self.producers.commit();
        let unstable = self.producers.first_unstable();
        segment.seen.extend(completed.and_then(|completed| completed.aborted(unstable)));
        self.meet(segment, position, &batch);
    }

    fn meet(&mut self, segment: &mut Segment, position: u64, batch: &BatchView<'_>) {
        let base = segment.base;
        let fault = segment.offsets.as_mut().and_then(|index| index.meet(base, position, batch));
        if let Some(fault) = fault {
            // One wrong entry is enough: the file must be rebuilt.
            segment.offsets = None;
            self.wrong_index(segment.at, &segment.path.with_extension("index"), fault);
        }
        let fault = segment.times.as_mut().and_then(|index| index.meet(base, batch));
        if let Some(fault) = fault {
            segment.times = None;
            self.wrong_index(segment.at, &segment.path.with_extension("timeindex"), fault);
        }
    }

    /// Checks an epoch's end offset, which must not be inside the epoch.
    fn judge_epoch(&mut self, path: &Path, position: u64, batch: &BatchView<'_>) {
        let (told, written) = (self.epochs.at(batch.base_offset()), batch.leader_epoch());
        if told < 0 || written < 0 || told == written {
            return;
        }
        let what =
            format!("a batch has leader epoch {written}, but leader-epoch-checkpoint has {told} there");
        let place = Location { position: Some(position), offset: Some(batch.base_offset()) };
        let next = "remove leader-epoch-checkpoint: the next start rebuilds it from the log";
        self.find_at(Severity::Damage, path, place, what, next);
        self.epochs = crate::epochs::Epochs::default();
    }

    fn judge_broken(&mut self, segment: &Segment, len: u64) {
        let last = segment.at + 1 == self.names.bases.len();
        let torn = last && !segment.intact_behind && !self.is_trusted(segment.at);
        for (position, offset, what) in &segment.broken {
            let place = Location { position: Some(*position), offset: Some(*offset) };
            let bytes = len - position;
            if torn {
                let next =
                    format!("the next start truncates these {bytes} bytes: a batch that was being written");
                self.find_at(Severity::Mended, &segment.path, place, what.clone(), &next);
            } else if self.is_trusted(segment.at) && !last {
                self.find_at(Severity::Damage, &segment.path, place, what.clone(), RESTORE);
            } else {
                let next = format!(
                    "the next start truncates the log here, and deletes the last {bytes} bytes of this file and all later \
                     segments: copy the partition's directory away first, or restore the file"
                );
                self.find_at(Severity::Damage, &segment.path, place, what.clone(), &next);
            }
        }
    }

    fn judge_indexes(&mut self, segment: &mut Segment) {
        if !segment.broken.is_empty() {
            // Index entries of batches that cannot be read cannot be checked.
            return;
        }
        let sealed = segment.at + 1 < self.names.bases.len();
        let fault = segment.offsets.as_ref().and_then(Offsets::rest);
        if let Some(fault) = fault {
            self.wrong_index(segment.at, &segment.path.with_extension("index"), fault);
        }
        let (base, end) = (segment.base, self.next_offset);
        let fault = segment.times.as_mut().and_then(|index| index.rest(base, end, sealed));
        if let Some(fault) = fault {
            self.wrong_index(segment.at, &segment.path.with_extension("timeindex"), fault);
        }
        let path = segment.path.with_extension("txnindex");
        // An index with wrong order has been reported; a missing index means that nothing was
        // aborted.
        let told = segment.aborted.take().or_else(|| self.disk.len(&path).is_err().then(Vec::new));
        if let Some(fault) = told.and_then(|told| entries::untold(&told, &segment.seen)) {
            self.wrong_index(segment.at, &path, fault);
        }
    }
}
