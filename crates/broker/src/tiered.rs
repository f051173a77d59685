//! Tiered storage: segments of this broker's partitions in a remote store.
//!
//! [`Tiers`] has the remote segments of each tiered partition with a replica here, as the records
//! of `__remote_log_metadata` left them (`feed`, `publishing`). For partitions that this broker
//! leads it copies closed segments (`copying`), and deletes remote segments that are past their
//! retention, or whose topic has been deleted (`deletion`). `round` begins this work at intervals.
//! `reading` is the view that [`RemoteReads`] has. Work that waits for the store or for a disk runs
//! on threads that may wait.
//!
//! Nothing of it exists while `remote.log.storage.system.enable` is off.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use levada_log::Tiering;
use levada_metadata::Metadata;
use levada_process::rate_gate::RateGate;
use levada_remote::{RemoteError, RemoteErrorKind, Store};
use levada_tiered::TopicIdPartition;
use levada_wire::Uuid;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, oneshot};

use crate::controller::Controller;
use crate::live_config::LiveConfig;
use crate::remote_reads::RemoteReads;
use crate::replica::log_config::tiering;
use crate::replica::{Partition, Replicas};
use crate::transaction::Transactions;

mod copying;
mod counts;
mod deletion;
mod feed;
mod partition;
mod publishing;
mod reading;
mod round;

pub(crate) use counts::TierCounts;
pub(crate) use partition::{NotReady, RemotePartition};

use feed::Feed;

/// Topic id and index of a partition.
pub(crate) type TierKey = (Uuid, i32);

/// The remote side of the partitions of this broker.
pub(crate) struct Tiers {
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    replicas: Arc<Replicas>,
    controller: Arc<Controller>,
    transactions: Arc<Transactions>,
    store: Mutex<Option<Arc<Store>>>,
    /// True once the store is known to belong to this cluster.
    is_owned: AtomicBool,
    partitions: RwLock<HashMap<TierKey, Arc<RemotePartition>>>,
    /// Partitions of the metadata topic that are read.
    feeds: RwLock<BTreeMap<i32, Arc<Mutex<Feed>>>>,
    /// Ids of segments that are being copied, which the expiry does not delete.
    in_copy: Mutex<BTreeSet<Uuid>>,
    copiers: Semaphore,
    deleters: Semaphore,
    copy_gate: RateGate,
    counts: TierCounts,
    /// The reads of these segments, which refer to this.
    reads: OnceLock<Weak<RemoteReads>>,
}

impl Tiers {
    /// Remote storage without partitions, connections or threads.
    pub(crate) fn new(
        config: Arc<LiveConfig>,
        metadata: Arc<Metadata>,
        replicas: Arc<Replicas>,
        controller: Arc<Controller>,
        transactions: Arc<Transactions>,
    ) -> Self {
        let remote = config.load().remote_log;
        Self {
            config,
            metadata,
            replicas,
            controller,
            transactions,
            store: Mutex::default(),
            is_owned: AtomicBool::new(false),
            partitions: RwLock::default(),
            feeds: RwLock::default(),
            in_copy: Mutex::default(),
            copiers: Semaphore::new(remote.copier_threads as usize),
            deleters: Semaphore::new(remote.expiration_threads as usize),
            copy_gate: RateGate::default(),
            counts: TierCounts::default(),
            reads: OnceLock::new(),
        }
    }

    /// True if this broker copies segments to a remote store and reads them there.
    pub(crate) fn is_enabled(&self) -> bool {
        self.config.load().remote_log.is_enabled
    }

    /// The store, opened the first time.
    ///
    /// # Errors
    /// The configuration names no store, or one that cannot be used.
    pub(crate) fn store(&self) -> Result<Arc<Store>, RemoteError> {
        let mut store = self.store.lock();
        if let Some(store) = &*store {
            return Ok(store.clone());
        }
        let none =
            || RemoteError::new(RemoteErrorKind::Unsupported, "cannot open a store", "none is configured");
        let opened = Arc::new(Store::open(self.config.load().remote_store.as_ref().ok_or_else(none)?)?);
        *store = Some(opened.clone());
        Ok(opened)
    }

    /// The store for changes, which belongs to this cluster or is claimed for it now.
    ///
    /// # Errors
    /// Same as [`Self::store`]; the store is that of another cluster, or cannot be asked.
    async fn owned_store(self: &Arc<Self>) -> Result<Arc<Store>, RemoteError> {
        if self.is_owned.load(Ordering::Relaxed) { self.store() } else { self.claimed_store().await }
    }

    /// The store for deletions, which asks for its owner each time: in a store without conditional
    /// writes, another cluster may have replaced the owner.
    ///
    /// # Errors
    /// Same as [`Self::owned_store`].
    async fn claimed_store(self: &Arc<Self>) -> Result<Arc<Store>, RemoteError> {
        let (own, store) = (self.clone(), self.store()?);
        let claimed = store.clone();
        let result = on_thread(move || claimed.claim(own.metadata.cluster_id())).await;
        self.is_owned.store(result.is_ok(), Ordering::Relaxed);
        result.map(|()| store)
    }

    /// The remote state of a partition that has or had remote storage.
    pub(crate) fn partition(&self, topic_id: Uuid, index: i32) -> Option<Arc<RemotePartition>> {
        self.partitions.read().get(&(topic_id, index)).cloned()
    }

    /// The part of a served partition's log that remote storage has.
    pub(crate) fn tiering(&self, partition: &Partition) -> Tiering {
        tiering(&self.config.load(), &partition.config())
    }

    /// Counts of copies and deletions since the start.
    pub(crate) fn counts(&self) -> &TierCounts {
        &self.counts
    }

    /// The partitions with a remote side that this broker led when it last looked.
    pub(crate) fn led(&self) -> Vec<Arc<RemotePartition>> {
        let mut all = self.all();
        all.retain(|remote| remote.was_led.load(Ordering::Relaxed));
        all
    }

    /// All partitions with a remote side.
    pub(crate) fn all(&self) -> Vec<Arc<RemotePartition>> {
        self.partitions.read().values().cloned().collect()
    }

    /// True if no other broker can lead: the metadata has all topics.
    fn is_alone(&self) -> bool {
        !self.controller.is_remote()
    }

    fn node_id(&self) -> i32 {
        self.config.load().node_id
    }
}

/// Runs work that waits for the remote store on a separate thread, for which no stop of the broker
/// waits.
///
/// # Errors
/// The work's own, or no thread.
async fn on_thread<T: Send + 'static, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    E: From<RemoteError> + Send + 'static,
{
    let (sender, done) = oneshot::channel();
    let failed =
        |cause: &str| RemoteError::new(RemoteErrorKind::Local, "cannot work with the remote store", cause);
    let run = move || drop(sender.send(work()));
    if let Err(error) = thread::Builder::new().name("tier".to_owned()).spawn(run) {
        return Err(failed(&error.to_string()).into());
    }
    done.await.unwrap_or_else(|_| Err(failed("the thread has panicked").into()))
}

/// The name of a served partition in the metadata topic.
fn name_of(partition: &Partition) -> TopicIdPartition {
    TopicIdPartition {
        topic_id: partition.topic_id(),
        topic: partition.topic().to_owned(),
        partition: partition.index(),
    }
}

#[cfg(test)]
mod tests;
