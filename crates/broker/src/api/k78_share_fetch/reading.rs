//! The read of the log for one partition: the range of batches, by the same lookup as a Fetch, and
//! the headers of these batches.

use std::collections::HashSet;
use std::sync::Arc;

use levada_coordination::share_partition::FetchedBatch;
use levada_log::{AbortedTransaction, BatchSpan, Partition as Log, ReadError, Slice};
use levada_process::blocking::off_shard;

/// Batches of a range at most.
const BATCHES_MAX: usize = 20_000;

/// A range of the log to read.
#[derive(Clone)]
pub(super) struct Reading {
    pub(super) log: Arc<Log>,
    pub(super) offset: i64,
    pub(super) max_bytes: u32,
    /// First offset that the group may not read yet.
    pub(super) upto: i64,
    /// Yield the first batch whole, even if it is larger.
    pub(super) min_one: bool,
    pub(super) committed_only: bool,
}

/// Batches of a range.
#[derive(Default)]
pub(super) struct Batches {
    pub(super) spans: Vec<BatchSpan>,
    pub(super) fetched: Vec<FetchedBatch>,
}

impl Reading {
    /// Finds the range: here if the necessary pages are in memory, else on a thread that may block.
    pub(super) async fn find(&self) -> Result<Slice, ReadError> {
        match self.log.read_cached(self.offset, self.max_bytes, self.upto, self.min_one) {
            Err(ReadError::Cold) => {
                let own = self.clone();
                off_shard(move || own.log.read(own.offset, own.max_bytes, own.upto, own.min_one)).await
            }
            found => found,
        }
    }

    /// The batches of a range with at least `offsets` offsets, if it has as many.
    pub(super) async fn list(&self, slice: &Slice, offsets: Option<i64>) -> Result<Batches, ReadError> {
        match self.list_now(slice, offsets) {
            Err(ReadError::Cold) => {
                let own = self.clone();
                off_shard(move || {
                    let slice = own.log.read(own.offset, own.max_bytes, own.upto, own.min_one)?;
                    own.list_now(&slice, offsets)
                })
                .await
            }
            listed => listed,
        }
    }

    fn list_now(&self, slice: &Slice, offsets: Option<i64>) -> Result<Batches, ReadError> {
        let mut count = 0_usize;
        let last = offsets.map(|offsets| self.offset.saturating_add(offsets - 1));
        let spans = self.log.batches_in(slice, |batch| {
            count += 1;
            count >= BATCHES_MAX || last.is_some_and(|last| batch.last_offset >= last)
        })?;
        let aborted = if self.committed_only {
            self.log.aborted_in(slice, self.offset, self.upto)?
        } else {
            Vec::new()
        };
        let fetched = fetched(&spans, &aborted);
        Ok(Batches { spans, fetched })
    }
}

/// The batches as the share partition takes them. A transaction that was aborted reaches from its
/// first offset to the next marker of its producer.
fn fetched(spans: &[BatchSpan], aborted: &[AbortedTransaction]) -> Vec<FetchedBatch> {
    let mut later = aborted.iter().peekable();
    let mut open: HashSet<i64> = HashSet::new();
    let tell = |span: &BatchSpan| {
        while let Some(begun) = later.next_if(|one| one.first_offset <= span.last_offset) {
            open.insert(begun.producer_id);
        }
        let is_aborted = span.is_transactional && !span.is_control && open.contains(&span.producer_id);
        if span.is_control {
            open.remove(&span.producer_id);
        }
        FetchedBatch { base: span.base_offset, last: span.last_offset, is_aborted }
    };
    spans.iter().map(tell).collect()
}

#[cfg(test)]
mod tests;
