//! State of a log beyond its batches: its end offset, its epochs, its producers.

use std::sync::Arc;

use levada_base::batch::BatchView;

use super::{Recovery, check};
use crate::disk::remove_if_there;
use crate::epochs::Epochs;
use crate::producers::{Producers, snapshot};
use crate::segment::{SWEEP, Segment};
use crate::{LogError, ReadError};

impl Recovery<'_> {
    /// The offset after the last batch, found by the index and then by headers. Any inconsistency
    /// is an error, after which the opening checks more of the log.
    pub(super) fn end_offset(&self) -> Result<i64, ReadError> {
        let disk = &*self.options.disk;
        let active = self.segments.last().expect("an opened log has a segment");
        let size = active.size();
        if size == 0 {
            // Entries without batches would mislead the readers of later batches.
            let corrupt =
                ReadError::Corrupt { path: active.path().to_owned(), position: 0, offset: active.base() };
            return if self.is_index_empty(active.base()) { Ok(active.base()) } else { Err(corrupt) };
        }
        let hint = active.offsets.last(disk)?;
        let start = hint.map_or(0, |entry| entry.position);
        let window = self.options.config.index_interval_bytes as usize;
        let mut scan = active.scan(disk, start..size, window)?;
        let (mut last, mut previous_end) = (None, active.base());
        while let Some(head) = scan.next()? {
            let header = scan.header(&head)?;
            let unindexed = hint.is_some_and(|entry| {
                head.position == entry.position && active.delta(header.last_offset()) > entry.delta
            });
            // The checksum does not cover the offset, which may even wrap at the batch's end.
            let within = i32::try_from(header.last_offset().saturating_sub(active.base())).is_ok();
            let ordered = header.base_offset() >= previous_end && header.last_offset_delta() >= 0;
            if unindexed || !within || !ordered {
                return Err(scan.corrupt(head.position));
            }
            previous_end = header.last_offset().saturating_add(1);
            last = Some(previous_end);
        }
        last.ok_or_else(|| scan.corrupt(start))
    }

    /// Reads the checkpoint of epochs; a damaged one counts as missing.
    pub(super) fn load_epochs(&self) -> Result<Epochs, LogError> {
        match Epochs::load(&*self.options.disk, &self.options.dir) {
            Err(LogError::Corrupt { path, detail }) => {
                tracing::warn!(path = %path.display(), detail, "the leader epoch checkpoint is damaged; rebuilding it from the log");
                Ok(Epochs::default())
            }
            other => other,
        }
    }

    /// Replaces a missing checkpoint of epochs from the first `trusted` segments; later segments
    /// are scanned anyway. The same for epochs before the first one of the checkpoint: a raised log
    /// start may not have been stored, and then the log begins earlier again.
    pub(super) fn restore_epochs(&mut self, trusted: usize) -> Result<(), LogError> {
        let mut epochs = std::mem::take(&mut self.epochs);
        if epochs == Epochs::default() {
            for segment in &self.segments[..trusted] {
                self.each_header(segment, |header| {
                    epochs.assign(header.leader_epoch(), header.base_offset());
                })?;
            }
        }
        let start = self.options.log_start.max(self.first());
        if let Some(first) = epochs.first_offset().filter(|first| *first > start) {
            let mut whole = Epochs::default();
            for segment in self.segments.iter().filter(|segment| segment.base() < first) {
                self.each_header(segment, |header| {
                    if header.base_offset() < first {
                        whole.assign(header.leader_epoch(), header.base_offset());
                    }
                })?;
            }
            epochs = whole.followed_by(&epochs);
        }
        self.epochs = epochs;
        Ok(())
    }

    /// The producers at `upto`: the latest intact snapshot that is not above it, and the batches
    /// since. A snapshot from before the first segment is useless: the batches since then are
    /// deleted, perhaps with the ends of its open transactions.
    pub(super) fn load_producers(&mut self, upto: i64) -> Result<(), LogError> {
        let disk = &*self.options.disk;
        let dir = &*self.options.dir;
        (self.producers, self.snapshot_at) = (Producers::default(), -1);
        let first = self.first();
        let snapshots = self.listing.snapshots.range(..=upto).rev();
        for offset in snapshots.take_while(|offset| **offset >= first) {
            match Producers::load(disk, dir, *offset, self.now_ms) {
                Ok(producers) => {
                    (self.producers, self.snapshot_at) = (producers, *offset);
                    break;
                }
                Err(LogError::Corrupt { path, detail }) => {
                    tracing::warn!(path = %path.display(), detail, "producer snapshot is damaged; using an older one");
                }
                Err(other) => return Err(other),
            }
        }
        let from = self.snapshot_at.max(0);
        let segments = self.segments.clone();
        for (at, segment) in segments.iter().enumerate() {
            let below = segments.get(at + 1).is_some_and(|next| next.base() <= from);
            if !below && from < upto && segment.base() < upto {
                if at > 0 && segment.base() > from {
                    // Here was none, or a damaged one.
                    self.snapshot(segment.base());
                }
                self.replay(segment, from, upto)?;
            }
        }
        Ok(())
    }

    /// Leaves a snapshot at the beginning of a segment, for the next opening.
    pub(super) fn snapshot(&mut self, offset: i64) {
        if self.snapshot_at == offset {
            return;
        }
        let (disk, dir) = (&*self.options.disk, &*self.options.dir);
        let same =
            disk.read_file(&snapshot::path(dir, offset)).is_ok_and(|bytes| bytes == self.producers.encode());
        match if same { Ok(()) } else { self.producers.store(disk, dir, offset) } {
            Ok(()) => self.snapshot_at = offset,
            Err(error) => {
                tracing::warn!(%error, "cannot write a producer snapshot; the next start reads more of the log")
            }
        }
        self.listing.snapshots.insert(offset);
    }

    /// The offset that the first segment is named after.
    fn first(&self) -> i64 {
        self.segments.first().map_or(0, |segment| segment.base())
    }

    /// Removes snapshots after the log's end or before its first segment, and those that are
    /// neither the latest, nor in use, nor named after a segment.
    pub(super) fn remove_snapshots(&mut self, log_end: i64) -> Result<(), LogError> {
        let latest = self.listing.snapshots.range(..=log_end).next_back();
        for offset in &self.listing.snapshots {
            let named = self.segments.binary_search_by_key(offset, |segment| segment.base()).is_ok();
            let within = (self.first()..=log_end).contains(offset);
            let kept = within && (named || *offset == self.snapshot_at || Some(offset) == latest);
            if !kept {
                remove_if_there(&*self.options.disk, &snapshot::path(&self.options.dir, *offset))?;
            }
        }
        Ok(())
    }

    fn replay(&mut self, segment: &Arc<Segment>, from: i64, upto: i64) -> Result<(), LogError> {
        let disk = &*self.options.disk;
        let start = segment.offsets.lookup(disk, segment.delta(from))?.position.min(segment.size());
        let mut scan = segment.scan(disk, start..segment.size(), SWEEP)?;
        loop {
            let noted = (|| {
                let Some(head) = scan.next()?.filter(|head| head.base_offset < upto) else {
                    return Ok(false);
                };
                let header = scan.header(&head)?;
                if header.last_offset() < from || header.producer_id() < 0 {
                    return Ok(true);
                }
                if header.is_control() {
                    // The only record of the batch has the transaction's result.
                    if let Ok(batch) = BatchView::parse(scan.batch(&head)?) {
                        check::note(&mut self.producers, &batch, self.now_ms);
                    }
                } else {
                    check::note(&mut self.producers, &header, self.now_ms);
                }
                Ok(true)
            })();
            match noted {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                other => return self.pass_over(segment, other.map(|_| ())),
            }
        }
    }

    fn each_header(&self, segment: &Segment, mut each: impl FnMut(&BatchView<'_>)) -> Result<(), LogError> {
        let mut scan = segment.scan(&*self.options.disk, 0..segment.size(), SWEEP)?;
        loop {
            let header = scan.next().and_then(|head| head.map(|head| scan.header(&head)).transpose());
            match header {
                Ok(Some(header)) => each(&header),
                Ok(None) => return Ok(()),
                Err(error) => return self.pass_over(segment, Err(error)),
            }
        }
    }

    /// Ignores damage in a segment that is not checked, which readers find; the log opens without
    /// the bytes after it.
    fn pass_over(&self, segment: &Segment, outcome: Result<(), ReadError>) -> Result<(), LogError> {
        match outcome {
            Err(ReadError::Storage(error)) => Err(error),
            Err(error) => {
                tracing::warn!(path = %segment.path().display(), %error, "cannot read the segment to its end; opening the log without the rest");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}
