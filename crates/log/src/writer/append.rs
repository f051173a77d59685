//! Appends a group of batches: validates each and assigns its offsets, writes all with one vectored
//! write per segment, and publishes them. A failed batch leaves no trace in the file or in the
//! producers' state.

use std::io::{self, IoSlice};
use std::time::Instant;

use levada_base::batch::{self, BatchView, NO_TIMESTAMP};
use levada_base::{ANY_LEADER_EPOCH, Append, Source};

use super::Writer;
use super::mapped::{Target, Windows};
use crate::disk::{At, is_full, is_read_only, is_short};
use crate::index::{Aborted, OffsetEntry, TimeEntry};
use crate::marks::Ended;
use crate::producers::SequenceCheck;
use crate::progress::Progress;
use crate::refused::Passing;
use crate::{AppendBy, AppendError, LogError, TimestampType};

/// The offsets of an appended batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the batch's first record; for a duplicate, the offset of the original.
    pub base_offset: i64,
    /// Offset of the batch's last record.
    pub last_offset: i64,
    /// The broker's timestamp, -1 if the producer's counts; for a duplicate, the newest timestamp
    /// of the original.
    pub log_append_time_ms: i64,
    /// The first offset of the log.
    pub log_start: i64,
    /// True if the log already contained the batch.
    pub duplicate: bool,
}

type Outcome = Result<Appended, AppendError>;

/// Batches that have offsets and wait for the write.
pub(super) struct Pending {
    // Outcomes before this one do not depend on the write.
    first_outcome: usize,
    first_offset: i64,
    pub(super) next_offset: i64,
    members: Vec<usize>,
    pub(super) bytes: u64,
    pub(super) progress: Progress,
    entries: Vec<(OffsetEntry, TimeEntry)>,
    aborted: Vec<Aborted>,
    ended: Vec<Ended>,
}

/// The part of a batch on which the decision about a new segment depends.
pub(super) struct Incoming {
    pub(super) size_bytes: u64,
    pub(super) last_offset: i64,
    pub(super) timestamp: i64,
}

impl Writer {
    /// Appends a group of batches in order, and returns the result of each, in the same order. The
    /// batch is readable when this returns; it is durable after a flush. Blocks on the disk.
    pub fn append(&mut self, group: &mut [Append], now_ms: i64) -> Vec<Result<Appended, AppendError>> {
        let mut outcomes = Vec::with_capacity(group.len());
        let mut pending = self.pending(0);
        for member in 0..group.len() {
            let outcome = self.make_room(group, member, &mut pending, (&mut outcomes, now_ms));
            let outcome = outcome.and_then(|()| self.admit(group, member, &mut pending, now_ms));
            self.note_refused(&group[member], &outcome);
            outcomes.push(outcome);
        }
        // Members have their failures already.
        let _ = self.commit(group, pending, &mut outcomes);
        outcomes
    }

    pub(super) fn pending(&self, first_outcome: usize) -> Pending {
        let offset = self.partition.log_end();
        Pending {
            first_outcome,
            first_offset: offset,
            next_offset: offset,
            members: Vec::new(),
            bytes: 0,
            progress: self.active.progress.clone(),
            entries: Vec::new(),
            aborted: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Checks sizes, and rolls the segment if the batch does not fit into it.
    fn make_room(
        &mut self,
        group: &[Append],
        member: usize,
        pending: &mut Pending,
        (outcomes, now_ms): (&mut Vec<Outcome>, i64),
    ) -> Result<(), AppendError> {
        self.refuse_records()?;
        self.refuse_other_epoch(group[member].leader_epoch)?;
        let batch = whole(&group[member].records)?;
        let size_bytes = batch.size_bytes() as u64;
        let limit_bytes = u64::from(self.config.max_message_bytes);
        if group[member].source == Source::Client && size_bytes > limit_bytes {
            return Err(AppendError::TooLarge { size_bytes, limit_bytes });
        }
        let limit_bytes = u64::from(self.config.segment_bytes);
        if size_bytes > limit_bytes {
            return Err(AppendError::LargerThanSegment { size_bytes, limit_bytes });
        }
        self.active.learn(&*self.disk)?;
        if pending.members.is_empty() {
            pending.progress = self.active.progress.clone();
        }
        let incoming = Incoming {
            size_bytes,
            last_offset: pending.next_offset + i64::from(batch.last_offset_delta()),
            timestamp: match self.config.timestamp_type {
                TimestampType::CreateTime => batch.max_timestamp(),
                TimestampType::LogAppendTime => now_ms,
            },
        };
        if self.is_roll_due(&incoming, pending, now_ms)? {
            let done = std::mem::replace(pending, self.pending(outcomes.len()));
            let committed = self.commit(group, done, outcomes);
            *pending = self.pending(outcomes.len());
            committed?;
            self.roll(now_ms)?;
            *pending = self.pending(outcomes.len());
        }
        Ok(())
    }

    /// Under the writer's lock, as every change of the leader: a batch that was checked before one
    /// does not get in after it.
    fn refuse_other_epoch(&self, checked: i32) -> Result<(), AppendError> {
        match self.led_in {
            Some(led) if checked == ANY_LEADER_EPOCH || checked == led => Ok(()),
            led => Err(AppendError::LeaderEpoch { checked, led: led.unwrap_or(-1) }),
        }
    }

    /// True if the batch must go to a new segment.
    pub(super) fn is_roll_due(
        &self,
        incoming: &Incoming,
        pending: &Pending,
        now_ms: i64,
    ) -> Result<bool, LogError> {
        let size = self.active.size + pending.bytes;
        if incoming.last_offset - self.active.segment.base() > i64::from(i32::MAX) {
            return Ok(true);
        }
        if size == 0 {
            return Ok(false);
        }
        let waited_ms = match pending.progress.first_timestamp {
            Some(first) if first >= 0 => incoming.timestamp.saturating_sub(first),
            _ => now_ms.saturating_sub(self.active.created_ms),
        };
        Ok(size + incoming.size_bytes > u64::from(self.config.segment_bytes)
            || waited_ms > self.roll_after_ms()
            || self.active.is_index_full(&*self.disk, &self.config, pending.entries.len())?)
    }

    /// Judges a batch, gives it its offsets, and lines it up for the write.
    fn admit(&mut self, group: &mut [Append], member: usize, pending: &mut Pending, now_ms: i64) -> Outcome {
        let append = &mut group[member];
        let stamped = self.config.timestamp_type == TimestampType::LogAppendTime;
        let log_append_time_ms = if stamped { now_ms } else { NO_TIMESTAMP };
        let log_start = self.partition.log_start();
        let batch = whole(&append.records)?;
        if batch.is_control() && append.source == Source::Client {
            let what = "control records";
            return Err(AppendError::TransactionState { producer_id: batch.producer_id(), what });
        }
        if batch.producer_id() >= 0
            && let SequenceCheck::Duplicate(written) = self.check_sequence(&batch, append)?
        {
            self.partition.refused.forget(batch.producer_id());
            return Ok(Appended {
                base_offset: written.base_offset(),
                last_offset: written.last_offset,
                // As in Kafka, with the times of clients too: the newest time of the batch.
                log_append_time_ms: written.timestamp,
                log_start,
                duplicate: true,
            });
        }
        batch::assign(&mut append.records, pending.next_offset, self.leader_epoch);
        if stamped {
            batch::stamp(&mut append.records, now_ms);
        }
        let batch = whole(&append.records)?;
        debug_assert_eq!(batch.base_offset(), pending.next_offset, "offsets of a group are contiguous");
        debug_assert!(batch.last_offset() >= batch.base_offset(), "a batch that was checked has a record");
        let (base_offset, last_offset) = (batch.base_offset(), batch.last_offset());
        self.line_up(&batch, pending, now_ms);
        pending.members.push(member);
        Ok(Appended { base_offset, last_offset, log_append_time_ms, log_start, duplicate: false })
    }

    /// Checks the sequence number of a batch. A batch after one that was refused for a temporary
    /// reason is refused for the same reason.
    fn check_sequence(&self, batch: &BatchView<'_>, append: &Append) -> Result<SequenceCheck, AppendError> {
        let checked = self.producers.check(batch, append.source, append.transaction_version);
        if self.partition.refused.is_empty() {
            return checked;
        }
        let may_overtake = match &checked {
            // A log without a batch of the producer accepts any sequence number.
            Ok(SequenceCheck::New) => append.source == Source::Client && !self.producers.knows(batch),
            Err(AppendError::OutOfOrderSequence { .. }) => true,
            _ => false,
        };
        if may_overtake {
            let (producer_id, sequence) = (batch.producer_id(), batch.base_sequence());
            let earlier = self.partition.refused.before(
                (producer_id, batch.producer_epoch()),
                sequence,
                Instant::now(),
            );
            if let Some((refused, reason)) = earlier {
                return Err(AppendError::Overtakes { producer_id, sequence, refused, reason });
            }
        }
        checked
    }

    /// Notes a client's batch that was refused for a reason that passes.
    fn note_refused(&self, append: &Append, outcome: &Outcome) {
        let reason = match outcome {
            Err(AppendError::Storage(_)) => Passing::Storage,
            Err(AppendError::LeaderEpoch { .. }) => Passing::Leadership,
            _ => return,
        };
        if append.source == Source::Client {
            self.partition.note_refused(&append.records, reason);
        }
    }

    /// Records a batch that has its offsets: its producer, its index entries, its size.
    pub(super) fn line_up(&mut self, batch: &BatchView<'_>, pending: &mut Pending, now_ms: i64) {
        let completed = self.producers.note(batch, now_ms);
        self.partition.refused.forget(batch.producer_id());
        let first_unstable = self.producers.first_unstable();
        pending.aborted.extend(completed.and_then(|completed| completed.aborted(first_unstable)));
        pending.ended.extend(completed.map(|completed| completed.ended()));
        let segment = &self.active.segment;
        let position = self.active.size + pending.bytes;
        let delta = segment.delta(batch.last_offset());
        let interval = self.config.index_interval_bytes;
        pending.entries.extend(pending.progress.advance(batch, delta, position, interval));
        pending.bytes += batch.size_bytes() as u64;
        pending.next_offset = batch.last_offset() + 1;
    }

    /// Writes the pending batches and publishes them, or undoes the write and reports it to the
    /// members.
    fn commit(
        &mut self,
        group: &[Append],
        pending: Pending,
        outcomes: &mut [Outcome],
    ) -> Result<(), LogError> {
        if pending.members.is_empty() {
            return Ok(());
        }
        let mut parts: Vec<IoSlice<'_>> =
            pending.members.iter().map(|member| IoSlice::new(&group[*member].records)).collect();
        let written = self.store_new_epoch().and_then(|()| self.write(&mut parts, &pending));
        if let Err(error) = written {
            self.producers.roll_back();
            let first = pending.first_outcome;
            for (append, outcome) in group[first..].iter().zip(&mut outcomes[first..]) {
                // A duplicate of a batch that has just failed is not a duplicate.
                if outcome.as_ref().is_ok_and(|appended| appended.base_offset >= pending.first_offset) {
                    *outcome = Err(error.clone().into());
                    self.note_refused(append, outcome);
                }
            }
            return Err(error);
        }
        self.publish(pending);
        Ok(())
    }

    /// Publishes batches that have been written.
    pub(super) fn publish(&mut self, pending: Pending) {
        self.producers.commit();
        assert_eq!(pending.first_offset, self.partition.log_end(), "a group begins at the log's end");
        self.active.size += pending.bytes;
        self.active.progress = pending.progress;
        if let Err(error) = self.active.index(&*self.disk, &self.config, &pending.entries) {
            // The batches are in the log nevertheless.
            self.partition.mark_offline(&error);
        }
        let segment = &self.active.segment;
        segment.publish_max_timestamp(self.active.progress.latest.timestamp);
        self.partition.marks.note_transactions(self.producers.first_unstable(), &pending.ended);
        // Readers take the size before the log's end: in this order, no byte that they read is
        // above it.
        self.partition.marks.extend(pending.next_offset, &self.partition.dir());
        segment.publish_end(pending.next_offset);
        segment.publish_size(self.active.size);
        // After the segment's size: readers who see the mark see the bytes below it.
        self.publish_high_watermark();
        self.prepare_segment();
    }

    /// Writes the pending bytes after the active segment's end, or leaves no trace.
    pub(super) fn write(&mut self, parts: &mut [IoSlice<'_>], pending: &Pending) -> Result<(), LogError> {
        self.active.cut_remains(&*self.disk)?;
        self.prepare_aborted(&pending.aborted)?;
        let segment = &self.active.segment;
        let file = segment.file(&*self.disk)?;
        debug_assert_eq!(parts.iter().map(|part| part.len() as u64).sum::<u64>(), pending.bytes);
        debug_assert!(pending.aborted.is_sorted_by(|one, next| one.last_offset < next.last_offset));
        let written = match self.config.append_by {
            AppendBy::Pwrite => self.disk.write_at(file, segment.path(), parts, self.active.size),
            AppendBy::Mapped => {
                let (disk, path, background) = (&*self.disk, segment.path(), &self.background);
                let segment_bytes = self.config.segment_bytes.into();
                let target = Target { disk, file, path, segment_bytes, background };
                self.active.windows.write(&target, parts, self.active.size)
            }
        };
        let written = written.at("append to", segment.path());
        // Before the markers are readable: without these entries consumers would get aborted
        // records.
        let aborted = &pending.aborted;
        let written = written.and_then(|()| {
            if aborted.is_empty() { Ok(()) } else { segment.aborted.append(&*self.disk, aborted) }
        });
        written.inspect_err(|error| self.undo_write(error))
    }

    /// The first aborted transaction of a segment creates a file. This happens before the batches
    /// are written: after a failure, nothing has changed.
    fn prepare_aborted(&self, aborted: &[Aborted]) -> Result<(), LogError> {
        if aborted.is_empty() {
            return Ok(());
        }
        let created = self.active.segment.aborted.prepare(&*self.disk);
        match &created {
            Ok(true) => self.partition.note_new_name(),
            Ok(false) => {}
            Err(error) if error.source_io().is_some_and(is_short) => {}
            Err(error) => self.partition.go_offline(error),
        }
        created.map(drop)
    }

    /// Undoes the write of a group. Its remains are known only if the disk was full, or the file
    /// system read-only. On the latter they stay until it is writable.
    fn undo_write(&mut self, error: &LogError) {
        self.active.windows = Windows::default();
        self.active.has_remains = true;
        let cut = self.active.cut_remains(&*self.disk);
        let of = |error: &LogError, is_kind: fn(&io::Error) -> bool| error.source_io().is_some_and(is_kind);
        let is_undone = match cut {
            Ok(()) => of(error, is_full) || of(error, is_read_only),
            Err(cut) => of(error, is_read_only) && of(&cut, is_read_only),
        };
        if !is_undone {
            self.partition.go_offline(error);
        }
    }
}

fn whole(records: &[u8]) -> Result<BatchView<'_>, AppendError> {
    let view = BatchView::parse(records)?;
    match records.len() - view.bytes().len() {
        0 => Ok(view),
        more => Err(batch::BatchError::Trailing(more).into()),
    }
}
