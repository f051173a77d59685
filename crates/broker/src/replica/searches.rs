//! Searches for records by timestamp. A search reads from the disk and decompresses its last batch,
//! so it does not run on a shard.

use levada_log::{ReadError, TimestampOffset};
use tokio::sync::Semaphore;

use crate::blocking::off_shard;
use crate::replica::{Partition, Replicas};

/// Searches at one time; each may hold one expanded batch.
const SEARCHES_AT_ONCE: usize = 4;

/// A search in one log.
type Found = Result<Option<TimestampOffset>, ReadError>;

/// The turns of searches.
pub(super) struct Searches(Semaphore);

impl Default for Searches {
    fn default() -> Self {
        Self(Semaphore::new(SEARCHES_AT_ONCE))
    }
}

impl Replicas {
    /// Searches a partition's log on a thread that may wait, once it is this search's turn.
    pub(crate) async fn search(
        &self,
        partition: &Partition,
        search: impl FnOnce(&levada_log::Partition) -> Found + Send + 'static,
    ) -> Found {
        let _turn = self.searches.0.acquire().await;
        let log = partition.shared_log();
        off_shard(move || search(&log)).await
    }
}
