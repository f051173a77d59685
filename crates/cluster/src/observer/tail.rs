//! The fetched end of the metadata log: batches above the high watermark, which may still be
//! truncated.

use std::collections::VecDeque;

use bytes::Bytes;
use levada_base::batch::{self, BatchError, BatchView};
use levada_wire::fetch::EpochEnd;
use thiserror::Error;

/// A position in the metadata log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// The offset of the next record.
    pub offset: i64,
    /// The leader epoch of the record before it, 0 if there is none.
    pub epoch: i32,
}

/// Batches that follow the committed part of the log, and how far that part reaches.
#[derive(Debug)]
pub(crate) struct Tail {
    committed: LogPosition,
    high_watermark: i64,
    batches: VecDeque<TailBatch>,
    bytes: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct TailBatch {
    bytes: Bytes,
    last_offset: i64,
    epoch: i32,
}

impl Tail {
    /// An empty log. The tail holds at most `max_bytes`, apart from one batch.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            committed: LogPosition::default(),
            high_watermark: 0,
            batches: VecDeque::new(),
            bytes: 0,
            max_bytes,
        }
    }

    /// The position from which to fetch.
    pub(crate) fn end(&self) -> LogPosition {
        let last = self.batches.back();
        last.map_or(self.committed, |last| LogPosition { offset: last.last_offset + 1, epoch: last.epoch })
    }

    /// The position after the records that [`commit`](Tail::commit) has returned.
    pub(crate) fn committed(&self) -> LogPosition {
        self.committed
    }

    /// The highest known offset below which everything is committed.
    pub(crate) fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// Appends the batches of a response of the leader of `leader_epoch`. A truncated batch ends
    /// the response without an error; a full tail ignores the rest. Batches before an error are
    /// kept.
    pub(crate) fn append(&mut self, mut records: Bytes, leader_epoch: i32) -> Result<(), TailError> {
        while !records.is_empty() && (self.batches.is_empty() || self.bytes < self.max_bytes) {
            let end = self.end();
            let view = match batch::check_stored(&records) {
                Ok(view) => view,
                Err(BatchError::Truncated { .. }) => return Ok(()),
                Err(source) => return Err(TailError::Corrupt { offset: end.offset, source }),
            };
            check_order(&view, end, leader_epoch)?;
            let (last_offset, epoch, size) = (view.last_offset(), view.leader_epoch(), view.size_bytes());
            let bytes = records.split_to(size);
            self.bytes += size;
            self.batches.push_back(TailBatch { bytes, last_offset, epoch });
        }
        Ok(())
    }

    /// Truncates records that the leader's log does not have: batches of epochs after `end.epoch`,
    /// and batches beyond its end.
    pub(crate) fn truncate(&mut self, end: EpochEnd) -> Result<(), TailError> {
        if end.end_offset < self.high_watermark || end.epoch < self.committed.epoch {
            return Err(TailError::Diverged { end, high_watermark: self.high_watermark });
        }
        while let Some(last) = self.batches.back() {
            if last.epoch <= end.epoch && last.last_offset < end.end_offset {
                break;
            }
            self.bytes -= last.bytes.len();
            self.batches.pop_back();
        }
        Ok(())
    }

    /// Raises the high watermark to the leader's, as far as the log reaches, and returns the
    /// batches that it now covers, in order. It is never lowered.
    pub(crate) fn commit(&mut self, high_watermark: i64) -> Vec<Bytes> {
        self.high_watermark = self.high_watermark.max(high_watermark.min(self.end().offset));
        let mut covered = Vec::new();
        while let Some(first) = self.batches.front() {
            if first.last_offset >= self.high_watermark {
                break;
            }
            self.committed = LogPosition { offset: first.last_offset + 1, epoch: first.epoch };
            self.bytes -= first.bytes.len();
            covered.extend(self.batches.pop_front().map(|batch| batch.bytes));
        }
        covered
    }

    /// Continues after a snapshot, whose records are committed.
    pub(crate) fn restart(&mut self, position: LogPosition) {
        self.batches.clear();
        self.bytes = 0;
        self.committed = position;
        self.high_watermark = self.high_watermark.max(position.offset);
    }
}

fn check_order(view: &BatchView<'_>, end: LogPosition, leader_epoch: i32) -> Result<(), TailError> {
    if view.base_offset() != end.offset {
        return Err(TailError::Gap { expected: end.offset, found: view.base_offset() });
    }
    if view.leader_epoch() < end.epoch || view.leader_epoch() > leader_epoch {
        let (found, lowest) = (view.leader_epoch(), end.epoch);
        return Err(TailError::Epoch { offset: end.offset, found, lowest, highest: leader_epoch });
    }
    Ok(())
}

/// Records that do not continue the fetched log.
#[derive(Debug, Error)]
pub(crate) enum TailError {
    /// A batch is damaged.
    #[error("the batch at offset {offset} of the metadata log is damaged: {source}")]
    Corrupt { offset: i64, source: BatchError },
    /// A batch does not begin at the end of its predecessor.
    #[error("the metadata log continues at offset {found} instead of {expected}")]
    Gap { expected: i64, found: i64 },
    /// The epoch of a batch contradicts its position in the log, or the leader.
    #[error("the batch at offset {offset} of the metadata log has epoch {found}, not {lowest} to {highest}")]
    Epoch { offset: i64, found: i32, lowest: i32, highest: i32 },
    /// The leader's log lacks committed records.
    #[error(
        "the leader's metadata log ends at offset {} of epoch {}, below the high watermark {high_watermark}",
        end.end_offset, end.epoch
    )]
    Diverged { end: EpochEnd, high_watermark: i64 },
}
