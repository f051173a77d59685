//! Copying closed segments of a partition to the remote store, in order.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use levada_log::{ClosedSegment, LogError};
#[cfg(not(test))]
use levada_metadata::uuid::random as new_id;
use levada_process::blocking::off_shard;
use levada_process::clock::now_ms;
use levada_remote::{RemoteError, RemoteErrorKind, SegmentFile, SegmentFiles, Store};
use levada_tiered::copying::{CopyLag, lost_before};
use levada_tiered::record::METADATA_TOPIC;
use levada_tiered::{RemoteRecord, RemoteSegment, RemoteSegmentId, SegmentState, SegmentUpdate};
use levada_wire::Uuid;
use levada_wire::primitives::Bytes;
use parking_lot::Mutex;

use super::feed::Origin;
use super::publishing::PublishError;
#[cfg(test)]
use super::tests::new_id;
use super::{NotReady, RemotePartition, Tiers, on_thread};
use crate::replica::Partition;

/// Pause before the end of a copy is noted again.
const DOUBT_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 1_000 });

/// The reason why a segment was not copied.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] RemoteError),
    #[error(transparent)]
    Metadata(#[from] PublishError),
    #[error("the segment is in the store, and its metadata is in doubt: {0}")]
    Unconfirmed(PublishError),
    #[error(transparent)]
    NotReady(#[from] NotReady),
    #[error(
        "the store has returned metadata of {bytes} bytes for a segment, more than remote.log.metadata.custom.metadata.max.bytes ({max}): copying of the partition has stopped"
    )]
    CustomMetadata { bytes: usize, max: u32 },
    #[error(
        "the segment from offset {offset} has {bytes} bytes, and the metadata can describe at most 2147483647"
    )]
    TooLarge { offset: i64, bytes: u64 },
    #[error("the segment from offset {offset} has no leader epoch, and cannot be described in the metadata")]
    NoEpoch { offset: i64 },
    #[error("partition {0} of {METADATA_TOPIC} cannot be read now")]
    Unread(i32),
    #[error(
        "the leader epochs of the records from offset {log_start} to {known} are lost, so that their remote segments \
         cannot be identified: let another replica lead, or delete the records before offset {known}"
    )]
    LostLineage { log_start: i64, known: i64 },
    #[error(
        "the records from offset {log_start} to {local_start} are not on the disk, and {METADATA_TOPIC} does not know \
         where they are: restore that topic, with its number of partitions, or delete the records before offset {local_start}"
    )]
    LostMetadata { log_start: i64, local_start: i64 },
    #[error("an interrupted copy of the segment from offset {offset} is not deleted yet")]
    Interrupted { offset: i64 },
    #[error("another leader has deleted the copy of the segment from offset {offset} meanwhile")]
    Deleted { offset: i64 },
    #[error("this broker no longer leads the partition")]
    Resigned,
}

fn file((file, length): &(File, u64)) -> SegmentFile<'_> {
    SegmentFile { file, length: *length }
}

/// The closed segments from an offset on that are due for a copy: those before the first one that
/// is to stay only on the local disk for now.
fn due(partition: &Partition, from: i64, closed: Vec<ClosedSegment>) -> Result<Vec<ClosedSegment>, LogError> {
    let config = partition.config();
    let lag = CopyLag { ms: config.copy_lag_ms(), bytes: config.copy_lag_bytes() };
    if lag.is_reached(0, 0) {
        return Ok(closed);
    }
    let (mut newer_bytes, now_ms) = (partition.log().bytes_from(from), now_ms());
    let mut due = Vec::new();
    for segment in closed {
        newer_bytes = newer_bytes.saturating_sub(segment.size_bytes());
        if !lag.is_reached(now_ms.saturating_sub(segment.newest_ms()?), newer_bytes) {
            break;
        }
        due.push(segment);
    }
    Ok(due)
}

/// Marks a segment as being copied until it is dropped, also by a panic.
struct InCopy<'a> {
    all: &'a Mutex<BTreeSet<Uuid>>,
    id: Uuid,
}

impl<'a> InCopy<'a> {
    fn begin(all: &'a Mutex<BTreeSet<Uuid>>, id: Uuid) -> Self {
        all.lock().insert(id);
        Self { all, id }
    }
}

impl Drop for InCopy<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

impl Tiers {
    /// Copies the segments that are closed and below the last stable offset, up to the first
    /// failure. The next round continues there.
    pub(super) async fn copy(self: &Arc<Self>, remote: &Arc<RemotePartition>, partition: &Arc<Partition>) {
        let epoch = partition.leadership().leader_epoch();
        if remote.halted_in.load(Ordering::Relaxed) == epoch {
            return;
        }
        if let Err(error) = self.copy_closed(remote, partition, epoch).await {
            match error {
                CopyError::Resigned | CopyError::NotReady(_) | CopyError::Unread(_) => {}
                CopyError::CustomMetadata { .. } => {
                    remote.halted_in.store(epoch, Ordering::Relaxed);
                    self.counts.copy_errors.add(1);
                    tracing::error!(partition = partition.name(), %error, "copying to the remote store has ended");
                }
                CopyError::LostLineage { .. } | CopyError::LostMetadata { .. } => {
                    self.counts.copy_errors.add(1);
                    if remote.told_lost.is_new((epoch, error.to_string())) {
                        tracing::warn!(partition = partition.name(), %error, "the broker keeps the remote segments of a log, and copies nothing");
                    }
                }
                error => {
                    self.counts.copy_errors.add(1);
                    tracing::warn!(partition = partition.name(), %error, "cannot copy a segment to the remote store; the broker repeats the attempt");
                }
            }
        }
        self.note_lag(remote, partition);
    }

    fn note_lag(&self, remote: &RemotePartition, partition: &Partition) {
        let (bytes, segments) = partition.log().only_local();
        let bytes = bytes.saturating_sub(partition.log().active_bytes());
        remote.lag_bytes.store(bytes, Ordering::Relaxed);
        remote.lag_segments.store(segments.saturating_sub(1) as u64, Ordering::Relaxed);
    }

    async fn copy_closed(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        partition: &Arc<Partition>,
        epoch: i32,
    ) -> Result<(), CopyError> {
        self.begin_term(remote, partition, epoch).await?;
        let log = partition.shared_log();
        // Includes copies whose end was noted without a confirmation to this broker.
        remote.tell_reach(&log)?;
        let from = (log.highest_remote() + 1).max(log.log_start());
        let closed = due(partition, from, log.closed_segments(from, log.last_stable()))?;
        if closed.is_empty() {
            return Ok(());
        }
        let Ok(_turn) = self.copiers.acquire().await else { return Ok(()) };
        for segment in closed {
            self.pass_gate(segment.size_bytes()).await;
            self.copy_segment(remote, partition, (segment, epoch)).await?;
        }
        Ok(())
    }

    /// Waits until the rate limit admits the copy of a segment of this size.
    async fn pass_gate(&self, bytes: u64) {
        loop {
            let rate = self.config.load().remote_log.copy_max_bytes_per_second;
            let wait = self.copy_gate.admit(bytes, rate, Instant::now());
            if wait.is_zero() {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// At the beginning of a term of leadership: the reach of the copies follows from the metadata,
    /// and so does the log's start.
    async fn begin_term(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        partition: &Arc<Partition>,
        epoch: i32,
    ) -> Result<(), CopyError> {
        if remote.begun_in.load(Ordering::Relaxed) == epoch {
            return Ok(());
        }
        // The records of the leader before this one.
        let (own, feed) = (self.clone(), remote.feed());
        if !off_shard(move || own.read_feed(feed, Origin::Leader)).await {
            return Err(CopyError::Unread(remote.feed()));
        }
        let log = partition.log();
        let (first, log_start, local_start) = (remote.first_of(log)?, log.log_start(), log.local_log_start());
        if first.is_none_or(|first| first > log_start)
            && let Some(known) = lost_before(&log.leader_epochs(), log_start, local_start)
        {
            return Err(CopyError::LostLineage { log_start, known });
        }
        if log_start < local_start && !remote.was_ever_copied()? {
            return Err(CopyError::LostMetadata { log_start, local_start });
        }
        remote.told_lost.clear();
        self.raise_log_start(partition, first.unwrap_or(local_start)).await?;
        remote.tell_reach(log)?;
        self.end_interrupted(remote, partition).await?;
        tracing::info!(
            partition = partition.name(),
            log_start = log.log_start(),
            highest_remote = log.highest_remote(),
            "the remote part of a log is known"
        );
        remote.begun_in.store(epoch, Ordering::Relaxed);
        Ok(())
    }

    /// Deletes the copies that this broker has started and not finished: it was stopped, or lost
    /// the leadership. The expiry repeats deletions that have begun. A copy stays that was
    /// finished, and whose end the metadata has lost.
    async fn end_interrupted(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        partition: &Partition,
    ) -> Result<(), CopyError> {
        let is_ours = |segment: &RemoteSegment| {
            segment.state == SegmentState::CopyStarted && segment.broker_id == self.node_id()
        };
        for segment in remote.segments()?.into_iter().filter(|segment| is_ours(segment)) {
            if remote.has_alone(&segment, partition.log())? && self.is_readable(&segment).await? {
                tracing::warn!(segment = %segment.id, "{METADATA_TOPIC} has lost the end of a copy, and only the store has its records; the broker notes the end again");
                self.note_state(remote, self.update_of(&segment, SegmentState::CopyFinished)).await?;
                continue;
            }
            self.clean_up(remote, &segment, true).await;
            if remote.state_of(segment.id.id)? == Some(SegmentState::CopyStarted) {
                return Err(CopyError::Interrupted { offset: segment.start_offset });
            }
        }
        Ok(())
    }

    /// True if the store has all objects of a segment, and Levada can read them.
    async fn is_readable(&self, segment: &RemoteSegment) -> Result<bool, RemoteError> {
        let (store, segment) = (self.store()?, segment.clone());
        match on_thread(move || store.check_readable(&segment)).await {
            Err(error) if error.kind == RemoteErrorKind::NotFound => Ok(false),
            read => read.map(|()| true),
        }
    }

    async fn copy_segment(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        partition: &Arc<Partition>,
        (closed, epoch): (ClosedSegment, i32),
    ) -> Result<(), CopyError> {
        let is_led = || partition.check_leader(-1).is_ok() && partition.leadership().leader_epoch() == epoch;
        if !is_led() {
            return Err(CopyError::Resigned);
        }
        let segment = self.describe(remote, &closed)?;
        let _in_copy = InCopy::begin(&self.in_copy, segment.id.id);
        let announced = async {
            let store = self.owned_store().await?;
            self.publish(remote, RemoteRecord::Segment(segment.clone())).await?;
            Ok(store)
        };
        let announced: Result<Arc<Store>, CopyError> = announced.await;
        let is_announced = announced.is_ok();
        let copied = match announced {
            Ok(store) => self.upload(store, &segment, closed).await,
            Err(error) => Err(error),
        };
        let done = match copied {
            Ok(custom) if is_led() => self.finish(remote, (&segment, custom), is_led).await,
            Ok(_) => Err(CopyError::Resigned),
            Err(error) => Err(error),
        };
        let done = done.and_then(|()| match remote.tell_copied(&segment, partition.log()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(CopyError::Deleted { offset: segment.start_offset }),
            Err(error) => Err(CopyError::Unconfirmed(error.into())),
        });
        // Other brokers may rely on a copy whose end the metadata has, or will have.
        if done.as_ref().is_err_and(|error| !matches!(error, CopyError::Unconfirmed(_))) {
            self.clean_up(remote, &segment, is_announced).await;
        }
        done?;
        self.counts.copied_bytes.add(u64::try_from(segment.size).unwrap_or(0));
        self.note_lag(remote, partition);
        tracing::info!(
            partition = partition.name(),
            start_offset = segment.start_offset,
            end_offset = segment.end_offset,
            bytes = segment.size,
            "segment copied to the remote store"
        );
        Ok(())
    }

    fn describe(&self, remote: &RemotePartition, closed: &ClosedSegment) -> Result<RemoteSegment, CopyError> {
        let epochs = closed.epochs();
        let (offset, bytes) = (closed.base(), closed.size_bytes());
        let size = i32::try_from(bytes).map_err(|_| CopyError::TooLarge { offset, bytes })?;
        if epochs.is_empty() {
            return Err(CopyError::NoEpoch { offset });
        }
        Ok(RemoteSegment {
            id: RemoteSegmentId { partition: remote.name().clone(), id: new_id() },
            start_offset: offset,
            end_offset: closed.next_base() - 1,
            max_timestamp_ms: closed.newest_ms()?,
            broker_id: self.node_id(),
            event_timestamp_ms: now_ms(),
            size,
            epochs,
            custom_metadata: None,
            state: SegmentState::CopyStarted,
            txn_index_empty: closed.is_txn_index_empty()?,
        })
    }

    /// Uploads a copy that is announced.
    async fn upload(
        &self,
        store: Arc<Store>,
        segment: &RemoteSegment,
        closed: ClosedSegment,
    ) -> Result<Option<Bytes>, CopyError> {
        self.counts.copy_requests.add(1);
        let segment = segment.clone();
        on_thread(move || {
            let files = closed.files(now_ms())?;
            let files = SegmentFiles {
                log: SegmentFile { file: &files.log, length: closed.size_bytes() },
                offset_index: file(&files.offset_index),
                time_index: file(&files.time_index),
                txn_index: files.txn_index.as_ref().map(file),
                producer_snapshot: &files.producer_snapshot,
                epochs: &files.leader_epochs,
            };
            Ok(store.put_segment(&segment, &files)?)
        })
        .await
    }

    /// Notes the end of a copy. If the metadata may have it without this broker's knowledge, the
    /// attempt is repeated while the broker leads: others may rely on the copy already.
    async fn finish(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        (segment, custom): (&RemoteSegment, Option<Bytes>),
        is_led: impl Fn() -> bool,
    ) -> Result<(), CopyError> {
        let max = self.config.load().remote_log.custom_metadata_max_bytes;
        let bytes = custom.as_ref().map_or(0, Bytes::len);
        if bytes > max as usize {
            return Err(CopyError::CustomMetadata { bytes, max });
        }
        let update = self.update_of(segment, SegmentState::CopyFinished);
        let update = SegmentUpdate { custom_metadata: custom, ..update };
        let mut is_logged = false;
        loop {
            match self.note_state(remote, update.clone()).await {
                Ok(()) => return Ok(()),
                // Nothing was sent.
                Err(error @ PublishError::Encoding(_)) => return Err(error.into()),
                Err(error) if !is_led() => return Err(CopyError::Unconfirmed(error)),
                Err(error) => {
                    if !std::mem::replace(&mut is_logged, true) {
                        tracing::warn!(segment = %segment.id, %error, "cannot note the end of a copy; the broker repeats the attempt");
                    }
                    tokio::time::sleep(DOUBT_PAUSE).await;
                }
            }
        }
    }

    /// Deletes the objects that a failed copy may have left in the store. If this fails, the expiry
    /// deletes them later, unless another leader has noted their deletion already. The next term
    /// does it if the metadata is being read again.
    async fn clean_up(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        segment: &RemoteSegment,
        is_announced: bool,
    ) {
        let cleaned = match remote.state_of(segment.id.id) {
            Ok(Some(_)) => self.delete_segment(remote, segment).await,
            Ok(None) if !is_announced => return,
            // Another leader has deleted the copy, perhaps before the last object was there.
            Ok(None) => self.delete_objects(segment).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = cleaned {
            tracing::warn!(segment = %segment.id, %error, "cannot delete an incomplete copy from the remote store; the broker repeats the attempt");
        }
    }

    pub(super) fn update_of(&self, segment: &RemoteSegment, state: SegmentState) -> SegmentUpdate {
        SegmentUpdate {
            id: segment.id.clone(),
            broker_id: self.node_id(),
            event_timestamp_ms: now_ms(),
            custom_metadata: segment.custom_metadata.clone(),
            state,
        }
    }
}
