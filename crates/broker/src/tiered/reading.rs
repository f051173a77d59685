//! The remote segments as reads of their records see them.

use std::path::Path;
use std::sync::{Arc, Weak};

use levada_metadata::uuid;
use levada_remote::{RemoteError, Store};
use levada_tiered::RemoteSegment;

use super::{NotReady, RemotePartition, Tiers};
use crate::remote_reads::{FetchLimits, RemoteFault, RemoteReads, RemoteSegments, TieredKey};

impl Tiers {
    /// The reads of remote records, with a cache in a data directory; none if tiered storage is
    /// off, or if the cache cannot be opened.
    pub(crate) fn reads(self: &Arc<Self>, data_dir: &Path) -> Option<Arc<RemoteReads>> {
        let config = self.config.load().remote_log;
        if !config.is_enabled {
            return None;
        }
        let limits = FetchLimits {
            threads: config.reader_threads as usize,
            pending_max: config.reader_pending_max as usize,
        };
        match RemoteReads::open(data_dir, config.cache_bytes, self.clone(), limits) {
            Ok(reads) => {
                let reads = Arc::new(reads);
                // Set once, at the start.
                let _ = self.reads.set(Arc::downgrade(&reads));
                Some(reads)
            }
            Err(error) => {
                tracing::error!(
                    dir = %data_dir.display(),
                    %error,
                    "cannot open the cache of remote records in the data directory: remote records cannot be read \
                     until the broker is started again"
                );
                None
            }
        }
    }

    /// Removes the parts of a deleted segment from the local cache. Blocks on the local disk.
    pub(super) fn forget_parts(&self, segment: &RemoteSegment) {
        if let Some(reads) = self.reads.get().and_then(Weak::upgrade) {
            reads.forget(segment);
        }
    }

    fn ready(&self, (topic_id, index): TieredKey) -> Result<Arc<RemotePartition>, RemoteFault> {
        let unknown = || {
            let topic = uuid::text(topic_id);
            RemoteFault::NotReady(format!(
                "this broker has no metadata yet of the remote segments of partition {index} of topic id {topic}"
            ))
        };
        self.partition(topic_id, index).ok_or_else(unknown)
    }
}

impl From<NotReady> for RemoteFault {
    fn from(reason: NotReady) -> Self {
        Self::NotReady(reason.to_string())
    }
}

impl RemoteSegments for Tiers {
    fn segment_for(
        &self,
        partition: TieredKey,
        epoch: i32,
        offset: i64,
    ) -> Result<Option<Arc<RemoteSegment>>, RemoteFault> {
        Ok(self.ready(partition)?.segment_for(epoch, offset)?)
    }

    fn next_with_aborted(
        &self,
        partition: TieredKey,
        epoch: i32,
        offset: i64,
    ) -> Result<Option<Arc<RemoteSegment>>, RemoteFault> {
        Ok(self.ready(partition)?.next_with_txn_index(epoch, offset)?)
    }

    fn of_epoch(&self, partition: TieredKey, epoch: i32) -> Result<Vec<Arc<RemoteSegment>>, RemoteFault> {
        Ok(self.ready(partition)?.of_epoch(epoch)?)
    }

    fn bytes_per_second(&self) -> i64 {
        self.config.load().remote_log.fetch_max_bytes_per_second
    }

    fn store(&self) -> Result<Arc<Store>, RemoteError> {
        Self::store(self)
    }
}
