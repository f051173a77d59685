//! Reads of records that only remote storage has: parts of remote segments are fetched into the
//! files of [`levada_chunks::Cache`], and leave from there as those of local segments do.
//!
//! A read is an attempt with what the cache has, on a thread that may wait for the local disk
//! (`query`). If a part is missing, a reader thread fetches it (`fetches`), and the attempt is
//! repeated. So neither a shard nor a warm read waits for the store, and readers of one part wait
//! for one fetch. A reader that continues where it ended has the next parts fetched ahead.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use levada_base::log_pace::LogPace;
use levada_chunks::{Cache, CacheCounts};
use levada_process::blocking::off_shard;
use levada_process::clock::steady_ms;
use levada_remote::{RemoteError, Store};
use levada_tiered::RemoteSegment;
use levada_wire::Uuid;
use tokio::sync::Notify;
use tokio::time::Instant;

mod fault;
mod fetches;
mod held;
mod query;
mod records;
#[cfg(test)]
mod tests;
mod times;

pub(crate) use self::fault::RemoteFault;
use self::fault::Stop;
pub(crate) use self::fetches::FetchLimits;
use self::fetches::{Fetches, Ticket};
use self::query::Query;
pub(crate) use self::records::{RemoteRead, RemoteSlice};
pub(crate) use self::times::{TimeSearch, TimedOffset};

/// Directory of the cache in the first data directory. Kafka's brokers have their cache of remote
/// indexes there, and take no directory of this name for a partition.
pub(crate) const CACHE_DIR: &str = "remote-log-index-cache";

/// A partition: the topic's id, and the number.
pub(crate) type TieredKey = (Uuid, i32);

/// The remote segments that the metadata topic names, and their store.
pub(crate) trait RemoteSegments: Send + Sync {
    /// The readable segment with the record of this leader epoch at this offset.
    ///
    /// # Errors
    /// The partition's metadata is not read yet.
    fn segment_for(
        &self,
        partition: TieredKey,
        epoch: i32,
        offset: i64,
    ) -> Result<Option<Arc<RemoteSegment>>, RemoteFault>;

    /// The first readable segment of this leader epoch, at or after an offset, that has aborted
    /// transactions.
    ///
    /// # Errors
    /// Same as [`RemoteSegments::segment_for`].
    fn next_with_aborted(
        &self,
        partition: TieredKey,
        epoch: i32,
        offset: i64,
    ) -> Result<Option<Arc<RemoteSegment>>, RemoteFault>;

    /// All segments with records of a leader epoch, by start offset, in any state.
    ///
    /// # Errors
    /// Same as [`RemoteSegments::segment_for`].
    fn of_epoch(&self, partition: TieredKey, epoch: i32) -> Result<Vec<Arc<RemoteSegment>>, RemoteFault>;

    /// Rate at which records are fetched, all partitions together.
    fn bytes_per_second(&self) -> i64;

    /// The object store.
    ///
    /// # Errors
    /// The store cannot be opened.
    fn store(&self) -> Result<Arc<Store>, RemoteError>;
}

/// Sums since the start, with Kafka's meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteReadCounts {
    /// Number of reads of partitions.
    pub(crate) requests: u64,
    /// Bytes of records that they returned.
    pub(crate) bytes: u64,
    /// Number of reads that failed.
    pub(crate) errors: u64,
    /// Number of reads without a result in time.
    pub(crate) expired: u64,
    /// Counts of the cache.
    pub(crate) cache: CacheCounts,
}

/// Reads of remote records.
pub(crate) struct RemoteReads {
    segments: Arc<dyn RemoteSegments>,
    cache: Arc<Cache<RemoteError>>,
    fetches: Arc<Fetches>,
    requests: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    expired: AtomicU64,
    told: LogPace,
}

impl RemoteReads {
    /// Opens the cache in a data directory. Starts no thread yet.
    ///
    /// # Errors
    /// The directory of the cache cannot be used.
    pub(crate) fn open(
        data_dir: &Path,
        cache_bytes: u64,
        segments: Arc<dyn RemoteSegments>,
        limits: FetchLimits,
    ) -> std::io::Result<Self> {
        let (cache, opened) = Cache::open(data_dir.join(CACHE_DIR), cache_bytes)?;
        tracing::info!(
            parts = opened.parts,
            removed = opened.removed,
            bytes = cache.counts().bytes,
            bytes_max = cache_bytes,
            "the cache of remote records is open"
        );
        let cache = Arc::new(cache);
        let fetches = Arc::new(Fetches::new(cache.clone(), segments.clone(), limits));
        let count = || AtomicU64::new(0);
        let (requests, bytes, errors, expired) = (count(), count(), count(), count());
        Ok(Self { segments, cache, fetches, requests, bytes, errors, expired, told: LogPace::default() })
    }

    /// Reads records of several partitions. Returns none for reads without a result at `until`; the
    /// fetches of their parts continue.
    pub(crate) async fn read_all(
        self: &Arc<Self>,
        reads: Vec<RemoteRead>,
        until: Instant,
    ) -> Vec<Option<Result<RemoteSlice, RemoteFault>>> {
        self.requests.fetch_add(reads.len() as u64, Ordering::Relaxed);
        let results = self.settle(reads, until).await;
        for result in &results {
            match result {
                None => drop(self.expired.fetch_add(1, Ordering::Relaxed)),
                Some(Ok(slice)) => drop(self.bytes.fetch_add(slice.len(), Ordering::Relaxed)),
                Some(Err(fault)) => self.failed(fault),
            }
        }
        results
    }

    /// The first record at or after a timestamp that only remote storage has; none if it has none.
    ///
    /// # Errors
    /// The store, or no result at `until`.
    pub(crate) async fn by_time(
        self: &Arc<Self>,
        search: TimeSearch,
        until: Instant,
    ) -> Result<Option<TimedOffset>, RemoteFault> {
        let begun = Instant::now();
        let found = self.settle(vec![search], until).await.pop().flatten();
        let late = || Err(RemoteFault::TimedOut { waited: begun.elapsed() });
        found.unwrap_or_else(late).inspect_err(|fault| self.failed(fault))
    }

    /// Removes the parts of a deleted segment from the cache. Blocks on the local disk.
    pub(crate) fn forget(&self, segment: &RemoteSegment) {
        self.cache.forget(segment.id.id.to_bytes());
    }

    /// Sums since the start.
    pub(crate) fn counts(&self) -> RemoteReadCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RemoteReadCounts {
            requests: of(&self.requests),
            bytes: of(&self.bytes),
            errors: of(&self.errors),
            expired: of(&self.expired),
            cache: self.cache.counts(),
        }
    }

    /// Ends the reader threads after their present fetch.
    pub(crate) fn stop(&self) {
        self.fetches.stop();
    }

    fn failed(&self, fault: &RemoteFault) {
        if matches!(fault, RemoteFault::OutOfRange { .. }) {
            return;
        }
        self.errors.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = self.told.admit(steady_ms()) {
            tracing::warn!(%fault, left_out, "cannot read remote records");
        }
    }

    /// Attempts queries, and has missing parts fetched, until all have a result or time is up.
    async fn settle<Q: Query>(
        self: &Arc<Self>,
        queries: Vec<Q>,
        until: Instant,
    ) -> Vec<Option<Result<Q::Found, RemoteFault>>> {
        let mut results: Vec<_> = queries.iter().map(|_| None).collect();
        let sleeper = Arc::new(Notify::new());
        let mut open: Vec<Open<Q>> =
            queries.into_iter().enumerate().map(|(at, query)| Open { at, query, ticket: None }).collect();
        loop {
            open.retain(|one| match one.failure() {
                Some(fault) => {
                    results[one.at] = Some(Err(fault));
                    false
                }
                None => true,
            });
            let (waiting, ready): (Vec<_>, Vec<_>) = open.into_iter().partition(Open::waits);
            let own = self.clone();
            let attempts =
                if ready.is_empty() { Vec::new() } else { off_shard(move || own.attempt_all(ready)).await };
            open = waiting;
            for (mut one, result) in attempts {
                match result {
                    Ok(found) => results[one.at] = Some(Ok(found)),
                    Err(Stop::Failed(fault)) => results[one.at] = Some(Err(fault)),
                    Err(Stop::Lacks(part)) => {
                        one.ticket = Some(self.fetches.request(part, &sleeper));
                        open.push(one);
                    }
                }
            }
            if open.is_empty() {
                return results;
            }
            tokio::select! {
                () = sleeper.notified() => {}
                () = tokio::time::sleep_until(until) => return results,
            }
        }
    }

    fn attempt_all<Q: Query>(&self, open: Vec<Open<Q>>) -> Vec<Attempted<Q>> {
        let attempt = |one: Open<Q>| {
            let result = one.query.attempt(self);
            (one, result)
        };
        open.into_iter().map(attempt).collect()
    }
}

impl Drop for RemoteReads {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A query and the result of one attempt.
type Attempted<Q> = (Open<Q>, Result<<Q as Query>::Found, Stop>);

/// A query without a result yet.
struct Open<Q> {
    /// Index of the query in the request.
    at: usize,
    query: Q,
    /// The fetch of the part that it lacks.
    ticket: Option<Arc<Ticket>>,
}

impl<Q> Open<Q> {
    fn waits(&self) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| ticket.result().is_none())
    }

    fn failure(&self) -> Option<RemoteFault> {
        self.ticket.as_ref()?.result()?.err()
    }
}
