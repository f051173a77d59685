//! The read of the log for one partition: the range of batches, by the same lookup as a Fetch, and
//! headers of these batches. Records that are only in remote storage are read there.
//!
//! Of records that were never acquired, only the bounds of the last batches to acquire are
//! necessary: the offset index leads to these, and the headers of the batches before are not read.
//! Nothing is remembered between requests, so no truncation and no compaction invalidates it. As
//! with a Fetch, the consumer detects damage within these batches by their checksums.

use std::collections::HashSet;
use std::sync::Arc;

use levada_coordination::share_partition::FetchedBatch;
use levada_io::Extent;
use levada_log::{AbortedTransaction, BatchSpan, Partition as Log, ReadError, Slice};
use levada_process::blocking::off_shard;
use levada_wire::error_code::ErrorCode;
use tokio::time::Instant;

use crate::error_map::{read_error, remote_error};
use crate::remote_reads::{RemoteFault, RemoteRead, RemoteReads, RemoteSlice, TieredKey};

/// Batches of a range at most.
const BATCHES_MAX: usize = 20_000;

/// A range of the log to read.
#[derive(Clone)]
pub(super) struct Reading {
    pub(super) partition: TieredKey,
    pub(super) log: Arc<Log>,
    pub(super) offset: i64,
    pub(super) max_bytes: u32,
    /// First offset that the group may not read yet.
    pub(super) upto: i64,
    /// Yield the first batch whole, even if it is larger.
    pub(super) min_one: bool,
    pub(super) committed_only: bool,
}

/// A range that was found.
pub(super) enum FoundRange {
    Local(Slice),
    Remote(RemoteSlice),
}

/// The reason why no range was found.
pub(super) enum NotFound {
    /// The log does not have the offset.
    OutOfRange,
    /// Remote storage has not responded in time.
    Late,
    Error(ErrorCode),
}

impl FoundRange {
    /// Bytes of the range.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Local(slice) => slice.len(),
            Self::Remote(slice) => slice.len(),
        }
    }

    /// True if later records are in another segment, so that the range does not grow.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Local(slice) => slice.sealed && !slice.is_empty(),
            Self::Remote(slice) => slice.len() > 0,
        }
    }

    /// The bytes from the first of these batches to the last.
    pub(super) fn extents_of(&self, batches: &[BatchSpan]) -> Vec<Extent> {
        match self {
            Self::Local(slice) => slice.extent_of(batches).into_iter().collect(),
            Self::Remote(slice) => slice.extents_of(batches),
        }
    }
}

/// Records of a range none of which was acquired before.
#[derive(Clone, Copy)]
pub(super) struct NewRecords {
    /// Number of records to acquire at most, besides the other records of the last batch.
    pub(super) max: i64,
    /// Number of offsets of batches that may be joined.
    pub(super) joined_max: i64,
}

/// Batches of a range.
#[derive(Default)]
pub(super) struct Batches {
    pub(super) spans: Vec<BatchSpan>,
    pub(super) fetched: Vec<FetchedBatch>,
}

impl Reading {
    /// Finds the range: on this thread if the necessary pages are in memory, otherwise on one that
    /// may block, or in remote storage, for which it waits until `until`.
    pub(super) async fn find(
        &self,
        remote: Option<&Arc<RemoteReads>>,
        until: Instant,
    ) -> Result<FoundRange, NotFound> {
        let mut found = self.log.read_cached(self.offset, self.max_bytes, self.upto, self.min_one);
        if let Err(ReadError::Cold) = found {
            let own = self.clone();
            found = off_shard(move || own.log.read(own.offset, own.max_bytes, own.upto, own.min_one)).await;
        }
        match found {
            Ok(slice) => Ok(FoundRange::Local(slice)),
            Err(ReadError::OutOfRange { .. }) => Err(NotFound::OutOfRange),
            Err(ReadError::Remote { .. }) => self.find_remote(remote, until).await,
            Err(error) => Err(NotFound::Error(read_error(error))),
        }
    }

    async fn find_remote(
        &self,
        remote: Option<&Arc<RemoteReads>>,
        until: Instant,
    ) -> Result<FoundRange, NotFound> {
        let Some(remote) = remote else { return Err(NotFound::Error(ErrorCode::UnknownServerError)) };
        let read = RemoteRead {
            partition: self.partition,
            log: self.log.clone(),
            offset: self.offset,
            max_bytes: self.max_bytes,
            min_one: self.min_one,
            lists_aborted: self.committed_only,
            batches_max: BATCHES_MAX,
        };
        match remote.read_all(vec![read], until).await.pop().flatten() {
            None => Err(NotFound::Late),
            Some(Ok(slice)) => Ok(FoundRange::Remote(slice)),
            Some(Err(RemoteFault::OutOfRange { .. })) => Err(NotFound::OutOfRange),
            Some(Err(fault)) => Err(NotFound::Error(remote_error(&fault))),
        }
    }

    /// The batches of a range, or enough of them for the new records.
    pub(super) async fn list(
        &self,
        found: &FoundRange,
        new: Option<NewRecords>,
    ) -> Result<Batches, ReadError> {
        let slice = match found {
            FoundRange::Local(slice) => slice,
            FoundRange::Remote(slice) => {
                let last = new.map_or(i64::MAX, |new| self.last(new));
                let is_before = |batch: &BatchSpan| batch.last_offset < last;
                let count = slice.batches.partition_point(is_before).saturating_add(1);
                let spans = slice.batches[..count.min(slice.batches.len())].to_vec();
                let fetched = fetched(&spans, &slice.aborted);
                return Ok(Batches { spans, fetched });
            }
        };
        match self.list_now(slice, new) {
            Err(ReadError::Cold) => {
                let own = self.clone();
                off_shard(move || {
                    let slice = own.log.read(own.offset, own.max_bytes, own.upto, own.min_one)?;
                    own.list_now(&slice, new)
                })
                .await
            }
            listed => listed,
        }
    }

    fn list_now(&self, slice: &Slice, new: Option<NewRecords>) -> Result<Batches, ReadError> {
        let aborted = if self.committed_only {
            self.log.aborted_in(slice, self.offset, self.upto)?
        } else {
            Vec::new()
        };
        let joined = match new {
            Some(new) if aborted.is_empty() => self.list_last(slice, new)?,
            _ => None,
        };
        let spans = match joined {
            Some(spans) => spans,
            None => self.list_all(slice, new)?,
        };
        let fetched = fetched(&spans, &aborted);
        Ok(Batches { spans, fetched })
    }

    /// The last batches of the new records, after the earlier ones as one; none if these have too
    /// many offsets.
    fn list_last(&self, slice: &Slice, new: NewRecords) -> Result<Option<Vec<BatchSpan>>, ReadError> {
        let spans = self.log.last_batches_in(slice, (self.last(new), BATCHES_MAX))?;
        let is_fit =
            |first: &BatchSpan| !first.is_joined || first.last_offset - first.base_offset < new.joined_max;
        Ok(spans.first().is_none_or(is_fit).then_some(spans))
    }

    fn list_all(&self, slice: &Slice, new: Option<NewRecords>) -> Result<Vec<BatchSpan>, ReadError> {
        let mut count = 0_usize;
        let last = new.map(|new| self.last(new));
        self.log.batches_in(slice, |batch| {
            count += 1;
            count >= BATCHES_MAX || last.is_some_and(|last| batch.last_offset >= last)
        })
    }

    /// Last offset to acquire.
    fn last(&self, new: NewRecords) -> i64 {
        self.offset.saturating_add(new.max - 1)
    }
}

/// The batches in the form of the share partition. An aborted transaction extends from its first
/// offset to the next marker of its producer.
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
