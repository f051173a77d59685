//! Deletion of remote segments: by retention, and of topics that are deleted or have remote storage
//! no longer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use levada_log::LogError;
use levada_process::blocking::off_shard;
use levada_process::clock::now_ms;
use levada_remote::RemoteError;
use levada_tiered::expiry::{ExpiredSegments, LogFacts};
use levada_tiered::{RemoteSegment, SegmentState};

use super::publishing::PublishError;
use super::{NotReady, RemotePartition, Tiers, on_thread};
use crate::replica::Partition;

/// The reason why segments were not deleted.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeletionError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] RemoteError),
    #[error(transparent)]
    Metadata(#[from] PublishError),
    #[error(transparent)]
    NotReady(#[from] NotReady),
}

impl Tiers {
    /// Deletes the remote segments of a led partition that retention no longer covers, up to the
    /// first failure. The next round continues there.
    pub(super) async fn expire(self: &Arc<Self>, remote: &Arc<RemotePartition>, partition: &Arc<Partition>) {
        let Ok(_turn) = self.deleters.acquire().await else { return };
        if let Err(error) = self.delete_expired(remote, partition).await {
            self.counts.delete_errors.add(1);
            tracing::warn!(partition = partition.name(), %error, "cannot delete old remote segments; the broker repeats the attempt");
        }
    }

    async fn delete_expired(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        partition: &Arc<Partition>,
    ) -> Result<(), DeletionError> {
        let epoch = partition.leadership().leader_epoch();
        let is_led = || partition.check_leader(-1).is_ok() && partition.leadership().leader_epoch() == epoch;
        if remote.begun_in.load(Ordering::Relaxed) == epoch {
            // A former leader may have deleted records after this one has begun: by a late request,
            // or because it did not know of its successor. The log begins with what is left.
            let local_start = partition.log().local_log_start();
            let first = remote.first_of(partition.log())?.unwrap_or(local_start);
            self.raise_log_start(partition, first.min(local_start)).await?;
        }
        let expired = self.choose(remote, partition)?;
        // First the start, which followers learn: a next leader deletes what this one leaves.
        if let Some(log_start) = expired.log_start {
            self.raise_log_start(partition, log_start).await?;
        }
        let mut bytes: u64 =
            expired.segments.iter().map(|segment| u64::try_from(segment.size).unwrap_or(0)).sum();
        let mut left = expired.segments.len() as u64;
        for segment in &expired.segments {
            remote.delete_lag_bytes.store(bytes, Ordering::Relaxed);
            remote.delete_lag_segments.store(left, Ordering::Relaxed);
            if !is_led() {
                return Ok(());
            }
            self.delete_segment(remote, segment).await?;
            bytes -= u64::try_from(segment.size).unwrap_or(0);
            left -= 1;
            tracing::info!(
                partition = partition.name(),
                start_offset = segment.start_offset,
                end_offset = segment.end_offset,
                log_start = partition.log().log_start(),
                "remote segment deleted"
            );
        }
        remote.delete_lag_bytes.store(0, Ordering::Relaxed);
        remote.delete_lag_segments.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn choose(&self, remote: &RemotePartition, partition: &Partition) -> Result<ExpiredSegments, NotReady> {
        let (log, config) = (partition.log(), partition.config());
        // Before the metadata is read: a segment that is copied meanwhile counts as a remote one.
        let (lineage, local) = (log.leader_epochs(), log.local_segments());
        // A topic without a policy loses nothing because of age or size.
        let limit = |value: i64| if config.cleanup_policy.delete { value } else { -1 };
        let facts = LogFacts {
            lineage: &lineage,
            log_start: log.log_start(),
            log_end: log.log_end(),
            local: &local,
            retention_bytes: limit(config.retention_bytes),
            retention_ms: limit(config.retention_ms),
            now_ms: now_ms(),
        };
        remote.expired(facts, &self.in_copy)
    }

    /// Raises the start of a log, and removes local segments that are wholly below.
    pub(super) async fn raise_log_start(
        self: &Arc<Self>,
        partition: &Arc<Partition>,
        log_start: i64,
    ) -> Result<(), LogError> {
        if log_start <= partition.log().log_start() {
            return Ok(());
        }
        let (own, partition) = (self.clone(), partition.clone());
        off_shard(move || {
            let advanced = partition.lane().with_writer(|writer| writer.advance_log_start(log_start));
            let Some(discarded) = advanced.transpose()? else { return Ok(()) };
            own.replicas.checkpoints().note_misleading();
            own.replicas.removals().retire(&partition, discarded)?;
            partition.waiters().wake();
            own.replicas.checkpoints().store_misleading()
        })
        .await
    }

    /// Deletes all remote segments of a partition whose topic is deleted, or has remote storage no
    /// longer, and forgets the partition then.
    pub(super) async fn remove_all(self: &Arc<Self>, remote: &Arc<RemotePartition>) {
        let Ok(_turn) = self.deleters.acquire().await else { return };
        match self.delete_all(remote).await {
            Ok(count) => {
                if count > 0 {
                    tracing::info!(partition = %remote.name(), segments = count, "remote segments deleted with their topic");
                }
                self.forget(remote);
            }
            Err(error) => {
                self.counts.delete_errors.add(1);
                tracing::warn!(partition = %remote.name(), %error, "cannot delete the remote segments of a deleted topic; the broker repeats the attempt");
            }
        }
    }

    async fn delete_all(self: &Arc<Self>, remote: &Arc<RemotePartition>) -> Result<usize, DeletionError> {
        let segments = remote.segments()?;
        if segments.is_empty() {
            return Ok(0);
        }
        self.claimed_store().await?;
        // All are marked before the first is deleted, as in Kafka: none is read any more.
        for segment in &segments {
            self.note_state(remote, self.update_of(segment, SegmentState::DeleteStarted)).await?;
        }
        for segment in &segments {
            self.delete_segment(remote, segment).await?;
        }
        Ok(segments.len())
    }

    /// Deletes the objects of a segment, here and in the store.
    pub(super) async fn delete_objects(
        self: &Arc<Self>,
        segment: &RemoteSegment,
    ) -> Result<(), DeletionError> {
        let store = self.claimed_store().await?;
        let (own, doomed) = (self.clone(), segment.clone());
        on_thread(move || {
            own.forget_parts(&doomed);
            store.delete_segment(&doomed)
        })
        .await?;
        Ok(())
    }

    /// Deletes a segment: marks it, deletes its objects, and records the deletion.
    pub(super) async fn delete_segment(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        segment: &RemoteSegment,
    ) -> Result<(), DeletionError> {
        // Before the mark: the store may be that of another cluster.
        self.claimed_store().await?;
        self.note_state(remote, self.update_of(segment, SegmentState::DeleteStarted)).await?;
        self.counts.delete_requests.add(1);
        self.delete_objects(segment).await?;
        self.note_state(remote, self.update_of(segment, SegmentState::DeleteFinished)).await?;
        Ok(())
    }
}
