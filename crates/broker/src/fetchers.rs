//! Fetches from the brokers that lead other partitions of this node.
//!
//! For each leader there are at most `num.replica.fetchers` threads for the replicas in sync, and
//! as many for those that catch up, each with a blocking connection and the partitions that fall to
//! it. A thread waits for responses and for the disk, which no shard does for it. `worker` is a
//! thread; `rebuilding` gets the state of logs whose beginning only remote storage has.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use levada_cluster::replication::fetcher::PartitionKey;
use levada_metadata::Metadata;
use parking_lot::Mutex;

use crate::cluster::ClusterMembership;
use crate::live_config::LiveConfig;
use crate::remote_reads::RemoteSegments;
use crate::replica::Replicas;

mod rebuilding;
mod worker;

use self::worker::{Command, Worker};

/// A thread among those that follow a leader.
///
/// Replicas that catch up have threads of their own. The leader reads their records from the disk,
/// and this node writes them there: after such a response, producers to replicas in sync would wait
/// for their acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WorkerId {
    leader: i32,
    is_in_sync: bool,
    number: usize,
}

/// The threads that follow leaders, and the partitions of each.
pub(crate) struct Fetchers {
    rooms: Rooms,
    totals: Arc<Totals>,
    state: Mutex<State>,
}

/// Components that a thread uses.
#[derive(Clone)]
pub(crate) struct Rooms {
    pub(crate) config: Arc<LiveConfig>,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) membership: Arc<ClusterMembership>,
    /// Remote storage; none if it is off.
    remote: Arc<OnceLock<Arc<dyn RemoteSegments>>>,
}

/// Counts of all threads since the start, ended threads included.
#[derive(Default)]
struct Totals {
    errors: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    workers: BTreeMap<WorkerId, Worker>,
    placed: HashMap<PartitionKey, WorkerId>,
    /// Partitions whose thread could not be started.
    pending: HashMap<PartitionKey, WorkerId>,
    /// Workers without partitions, which end.
    ending: Vec<Worker>,
    is_stopped: bool,
}

impl Fetchers {
    /// Fetchers without a thread.
    pub(crate) fn new(
        (config, metadata, replicas): (Arc<LiveConfig>, Arc<Metadata>, Arc<Replicas>),
        membership: Arc<ClusterMembership>,
    ) -> Self {
        let rooms = Rooms { config, metadata, replicas, membership, remote: Arc::default() };
        Self { rooms, totals: Arc::default(), state: Mutex::default() }
    }

    /// Gives the threads access to remote storage, before the first partition follows a leader.
    pub(crate) fn use_remote(&self, segments: Arc<dyn RemoteSegments>) {
        // Set once, at the start.
        let _ = self.rooms.remote.set(segments);
    }

    /// Makes a partition follow this leader from now on, in its leader epoch; -1, or this node, for
    /// none. The replica of this node is in sync, or catches up.
    pub(crate) fn follow(&self, partition: PartitionKey, leader: i32, is_in_sync: bool) {
        let config = self.rooms.config.load();
        let node_id = config.node_id;
        let threads = config.cluster.as_ref().map_or(1, |cluster| cluster.replication.fetchers);
        let mut state = self.state.lock();
        if leader < 0 || leader == node_id || state.is_stopped {
            state.forget(&partition);
            return;
        }
        let id = WorkerId { leader, is_in_sync, number: thread_of(&partition, threads) };
        state.follow(partition, id, || Worker::start((self.rooms.clone(), self.totals.clone()), id));
    }

    /// Starts the partitions whose thread could not be started, up to the first whose thread cannot
    /// be started either. Once in a round of housekeeping.
    pub(crate) fn retry(&self) {
        let pending = self.state.lock().pending.clone();
        for (partition, WorkerId { leader, is_in_sync, .. }) in pending {
            self.follow(partition, leader, is_in_sync);
            if self.state.lock().pending.contains_key(&partition) {
                return;
            }
        }
    }

    /// Stops following the leader of a partition.
    pub(crate) fn forget(&self, partition: PartitionKey) {
        self.state.lock().forget(&partition);
    }

    /// Lag of each followed partition: records up to its leader's high watermark, as of the last
    /// response; -1 before the first.
    pub(crate) fn lags(&self) -> Vec<(PartitionKey, i64)> {
        let state = self.state.lock();
        state.workers.values().flat_map(Worker::lags).collect()
    }

    /// Number of failed fetches and of responses that could not be used.
    pub(crate) fn errors(&self) -> u64 {
        self.totals.errors.load(Ordering::Relaxed)
    }

    /// Bytes of records in the responses of leaders.
    pub(crate) fn bytes(&self) -> u64 {
        self.totals.bytes.load(Ordering::Relaxed)
    }

    /// Ends all threads. Blocks until they have processed their last responses.
    pub(crate) fn stop(&self) {
        let workers = {
            let mut state = self.state.lock();
            state.is_stopped = true;
            state.placed.clear();
            state.pending.clear();
            let mut workers = std::mem::take(&mut state.ending);
            workers.extend(std::mem::take(&mut state.workers).into_values());
            workers
        };
        workers.iter().for_each(Worker::end);
        workers.into_iter().for_each(Worker::join);
    }
}

impl Drop for Fetchers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl State {
    /// Assigns a partition to a thread, which is started if there is none.
    fn follow(&mut self, partition: PartitionKey, id: WorkerId, start: impl FnOnce() -> io::Result<Worker>) {
        let is_placed = self.placed.get(&partition) == Some(&id);
        if !is_placed {
            self.forget(&partition);
        }
        let worker = match self.workers.entry(id) {
            Entry::Occupied(running) => running.into_mut(),
            Entry::Vacant(vacant) => match start() {
                Ok(worker) => vacant.insert(worker),
                Err(error) => {
                    let leader = id.leader;
                    // One line for all partitions.
                    if self.pending.is_empty() {
                        tracing::error!(%error, leader, "cannot start a thread that follows another broker; the broker retries every few seconds");
                    }
                    self.pending.insert(partition, id);
                    return;
                }
            },
        };
        worker.tell(Command::Follow(partition));
        worker.partitions += usize::from(!is_placed);
        self.placed.insert(partition, id);
        self.pending.remove(&partition);
    }

    fn forget(&mut self, partition: &PartitionKey) {
        self.pending.remove(partition);
        let Some(id) = self.placed.remove(partition) else { return };
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.partitions -= 1;
        if worker.partitions > 0 {
            worker.tell(Command::Forget(*partition));
        } else if let Some(worker) = self.workers.remove(&id) {
            worker.end();
            self.ending.retain(|ending| !ending.has_ended());
            self.ending.push(worker);
        }
    }
}

/// The number of a partition's thread, spread as evenly as the ids are.
fn thread_of((topic, index): &PartitionKey, threads: usize) -> usize {
    let spread = topic
        .as_bytes()
        .iter()
        .fold(0usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    spread.wrapping_add(usize::try_from(*index).unwrap_or(0)) % threads.max(1)
}

#[cfg(test)]
mod tests;
