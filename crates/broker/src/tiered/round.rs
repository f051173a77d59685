//! The work of tiered storage at intervals: finds the partitions with a remote side, reads their
//! metadata, and begins copies and deletions where none are in progress.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use levada_log::Tiering;
use levada_process::blocking::off_shard;
use levada_process::tasks::caught;
use levada_tiered::record::METADATA_TOPIC;

use super::feed::Origin;
use super::{RemotePartition, Tiers, name_of};
use crate::replica::Partition;

/// Interval at which metadata is read that other brokers write.
const READ_INTERVAL: Duration = Duration::from_secs(1);

impl Tiers {
    /// Does the work of tiered storage until the broker stops; never returns. On a thread with a
    /// local set of tasks.
    pub(crate) async fn run(self: Arc<Self>) {
        if !self.is_enabled() {
            return std::future::pending().await;
        }
        if let Err(error) = self.store() {
            tracing::error!(%error, "cannot open the remote store; the broker copies nothing, and serves no remote records");
        }
        loop {
            self.round().await;
            let interval_ms = self.config.load().remote_log.task_interval_ms.unsigned_abs();
            let next_round = tokio::time::sleep(Duration::from_millis(interval_ms));
            tokio::pin!(next_round);
            loop {
                tokio::select! {
                    () = &mut next_round => break,
                    () = tokio::time::sleep(READ_INTERVAL), if !self.is_alone() => {
                        let own = self.clone();
                        off_shard(move || own.read_feeds()).await;
                    }
                }
            }
        }
    }

    async fn round(self: &Arc<Self>) {
        let own = self.clone();
        let has_tiered = off_shard(move || own.has_tiered_partition()).await;
        if has_tiered
            && self.feed_count().is_none()
            && let Err(failure) = self.controller.ensure_internal_topic(METADATA_TOPIC).await
        {
            tracing::warn!(?failure, "cannot create {METADATA_TOPIC}; the broker repeats the attempt");
        }
        let own = self.clone();
        let work = off_shard(move || own.find_work()).await;
        for one in work {
            self.begin(one);
        }
    }

    fn has_tiered_partition(&self) -> bool {
        let partitions = self.replicas.partitions().all();
        partitions.iter().any(|partition| self.tiering(partition) != Tiering::Local)
    }

    /// Updates the list of partitions, reads their metadata, and returns the work that is to be
    /// done. Blocks.
    pub(super) fn find_work(&self) -> Vec<Work> {
        if self.feed_count().is_none() {
            return Vec::new();
        }
        self.enter_partitions();
        self.read_feeds();
        let mut work = Vec::new();
        for remote in self.all().into_iter().filter(|remote| remote.is_ready()) {
            let name = remote.name();
            let served = self.replicas.partitions().by_id(name.topic_id, name.partition);
            match served {
                Some(partition) if self.tiering(&partition) != Tiering::Local => {
                    let is_led = partition.check_leader(-1).is_ok();
                    remote.was_led.store(is_led, Ordering::Relaxed);
                    if is_led {
                        work.push(Work::Tend(remote, partition));
                    } else {
                        self.follow_copies(&remote, &partition);
                    }
                }
                // The topic no longer has remote storage.
                Some(partition) => {
                    if partition.check_leader(-1).is_ok() {
                        work.push(Work::Remove(remote));
                    } else {
                        self.forget(&remote);
                    }
                }
                None if self.metadata.image().topic_by_id(name.topic_id).is_some() => {
                    // Its log is being opened, or the replica has left this broker.
                    remote.was_led.store(false, Ordering::Relaxed);
                }
                None if self.is_alone() || remote.was_led.load(Ordering::Relaxed) => {
                    work.push(Work::Remove(remote));
                }
                None => self.forget(&remote),
            }
        }
        work
    }

    /// Begins to read the metadata of tiered partitions that are new here. A broker without a
    /// cluster reads all of it, and finds the remote segments of topics that were deleted before it
    /// stopped.
    fn enter_partitions(&self) {
        if self.is_alone() {
            let mut feeds = self.feeds.write();
            for index in 0..self.feed_count().unwrap_or(0) {
                feeds.entry(index).or_default();
            }
        }
        let is_known = |partition: &Partition| {
            self.partitions.read().contains_key(&(partition.topic_id(), partition.index()))
        };
        let mut new = self.replicas.partitions().all();
        new.retain(|partition| self.tiering(partition) != Tiering::Local && !is_known(partition));
        self.subscribe(new.iter().map(|partition| name_of(partition)));
    }

    /// Reads the metadata partitions in use. Blocks.
    pub(crate) fn read_feeds(&self) {
        let indexes: Vec<i32> = self.feeds.read().keys().copied().collect();
        for index in indexes {
            self.read_feed(index, Origin::Nearest);
        }
    }

    /// A follower deletes local segments up to the same offset as its leader.
    fn follow_copies(&self, remote: &RemotePartition, partition: &Partition) {
        // Another round finds a partition whose metadata is not read yet.
        let _ = remote.tell_reach(partition.log());
        [&remote.begun_in, &remote.halted_in].iter().for_each(|epoch| epoch.store(-1, Ordering::Relaxed));
        [&remote.lag_bytes, &remote.lag_segments, &remote.delete_lag_bytes, &remote.delete_lag_segments]
            .iter()
            .for_each(|lag| lag.store(0, Ordering::Relaxed));
    }

    pub(super) fn forget(&self, remote: &RemotePartition) {
        if remote.copying.is_in_progress() {
            // A copy that fails reads its metadata back; a later round forgets the partition.
            return;
        }
        let name = remote.name();
        self.partitions.write().remove(&(name.topic_id, name.partition));
    }

    /// Starts the tasks of a partition that are not in progress.
    fn begin(self: &Arc<Self>, work: Work) {
        match work {
            // A topic that has remote storage again: what it had before goes first.
            Work::Tend(remote, _) if remote.removing.is_in_progress() => {}
            Work::Tend(remote, partition) => {
                if self.tiering(&partition) == Tiering::Copied && remote.copying.begin() {
                    let (own, remote, partition) = (self.clone(), remote.clone(), partition.clone());
                    tokio::task::spawn_local(async move {
                        let _ = caught("copying to the remote store", own.copy(&remote, &partition)).await;
                        remote.copying.end();
                    });
                }
                if remote.deleting.begin() {
                    let own = self.clone();
                    tokio::task::spawn_local(async move {
                        let expiry = own.expire(&remote, &partition);
                        let _ = caught("deletion from the remote store", expiry).await;
                        remote.deleting.end();
                    });
                }
            }
            // A copy in progress ends first: its segment is deleted with the others.
            Work::Remove(remote) if !remote.copying.is_in_progress() && remote.deleting.begin() => {
                let own = self.clone();
                remote.removing.begin();
                tokio::task::spawn_local(async move {
                    let _ = caught("deletion from the remote store", own.remove_all(&remote)).await;
                    remote.removing.end();
                    remote.deleting.end();
                });
            }
            Work::Remove(_) => {}
        }
    }
}

/// Work on a partition.
pub(super) enum Work {
    /// Copies, and deletions by retention.
    Tend(Arc<RemotePartition>, Arc<Partition>),
    /// Deletion of all remote segments.
    Remove(Arc<RemotePartition>),
}
