//! Recovery beside serving: after an unclean stop the logs are checked on threads of their own, and each enters service when it is
//! done. Until then its clients are told to come back, and the coordinators that live in it that they are loading.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use levada_wire::Uuid;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;

use crate::broker::Broker;
use crate::broker::data_dir::{Absence, Left, LeftBehind};
use crate::broker::opening::{Missing, log_config};
use crate::metadata::image::{ConfigResource, Image};
use crate::partition::{Partition, is_internal};

/// How far the recovery of all logs has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Partitions that were to be recovered at the start.
    pub total: usize,
    /// Those that are not served yet.
    pub left: usize,
    /// Bytes of log that were read and checked.
    pub checked_bytes: u64,
}

/// The recovery of one start; there is nothing to it if the last stop was clean.
#[derive(Default)]
pub struct Recovery {
    queue: Mutex<VecDeque<Missing>>,
    state: Mutex<State>,
    ended: Condvar,
    checked_bytes: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    total: usize,
    left: usize,
    threads: usize,
    is_halted: bool,
}

impl Recovery {
    /// How far it is.
    pub fn progress(&self) -> RecoveryProgress {
        let state = self.state.lock();
        RecoveryProgress {
            total: state.total,
            left: state.left,
            checked_bytes: self.checked_bytes.load(Ordering::Relaxed),
        }
    }

    /// Waits until nobody works on it any more, but no longer than `limit`; returns whether that is so. Unless it was halted, every
    /// partition is served then, or known to be offline.
    pub fn wait(&self, limit: Duration) -> bool {
        let mut state = self.state.lock();
        self.ended.wait_while_for(&mut state, |state| state.threads > 0, limit);
        state.threads == 0
    }

    pub(super) fn checked_bytes(&self) -> Arc<AtomicU64> {
        self.checked_bytes.clone()
    }

    /// The broker stops: what is not recovered by now is recovered by the next start.
    pub(crate) fn halt(&self) {
        self.state.lock().is_halted = true;
        self.queue.lock().clear();
    }

    fn is_halted(&self) -> bool {
        self.state.lock().is_halted
    }

    fn begin(&self, missing: Vec<Missing>, threads: usize) {
        let mut state = self.state.lock();
        (state.total, state.left, state.threads) = (missing.len(), missing.len(), threads);
        self.queue.lock().extend(missing);
    }

    fn partition_done(&self) {
        let mut state = self.state.lock();
        state.left -= 1;
        if state.left == 0 {
            tracing::info!(partitions = state.total, "recovery is complete");
        }
    }

    fn thread_done(&self) {
        self.state.lock().threads -= 1;
        self.ended.notify_all();
    }
}

/// A thread of the recovery ends, in whatever way.
struct ThreadDone<'a>(&'a Recovery);

impl Drop for ThreadDone<'_> {
    fn drop(&mut self) {
        self.0.thread_done();
    }
}

impl Broker {
    /// The recovery of this start.
    pub(crate) fn recovery(&self) -> &Arc<Recovery> {
        &self.recovery
    }

    pub(super) fn is_recovering(&self, topic: &str, index: i32) -> bool {
        self.unopened.lock().absence(topic, index) == Some(Absence::Recovering)
    }

    /// Recovers partitions on as many threads as are configured, or as there are cores; those of the coordinators first.
    pub(super) fn begin_recovery(self: &Arc<Self>, mut missing: Vec<Missing>, left: LeftBehind) {
        missing.sort_by_key(|one| !is_internal(&one.identity.topic));
        for one in &missing {
            let key = one.key();
            self.expect_coordinator(&key);
            let left = left.of(&key);
            self.unopened.lock().expect(key, left);
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.config().recovery_threads.unwrap_or_else(cores).min(missing.len());
        tracing::info!(
            partitions = missing.len(),
            threads,
            "the last stop was no clean one: logs are checked"
        );
        self.recovery.begin(missing, threads);
        let left = Arc::new(left);
        for at in 0..threads {
            let (broker, left) = (self.clone(), left.clone());
            let thread = std::thread::Builder::new().name(format!("recovery-{at}"));
            let (share, recovery) = (left.clone(), self.recovery.clone());
            let runtime = Handle::try_current().ok();
            let work = move || {
                let _done = ThreadDone(&recovery);
                // What coordinators have to write, and what the device is waited for, goes on there.
                let _entered = runtime.as_ref().map(Handle::enter);
                // Whoever waits for the recovery may want the broker's last owner to be gone.
                let broker = broker;
                broker.recover(&share);
            };
            if let Err(error) = thread.spawn(work) {
                tracing::error!(%error, "a thread for the recovery is missing");
                if at == 0 {
                    // Without any, this one has to do it.
                    self.recover(&left);
                }
                self.recovery.thread_done();
            }
        }
    }

    fn recover(&self, left: &LeftBehind) {
        loop {
            let next = self.recovery.queue.lock().pop_front();
            let Some(one) = next else { return };
            let key = one.key();
            let recovered = catch_unwind(AssertUnwindSafe(|| self.recover_one(one, left)));
            if recovered.is_err() {
                tracing::error!(
                    topic = key.0,
                    partition = key.1,
                    "offline: its recovery ended with a panic; opening it is tried again every few seconds"
                );
                self.unopened.lock().note(&key, left.of(&key));
            }
            if !self.is_recovering(&key.0, key.1) && self.partitions.by_name(&key.0, key.1).is_none() {
                self.give_coordinator_up(&key);
            }
            self.recovery.partition_done();
        }
    }

    fn recover_one(&self, one: Missing, left: &LeftBehind) {
        let id = one.identity.topic_id;
        let Ok(opened) = self.open_partition(one, |key| left.of(key)) else { return };
        // Nobody changes topics meanwhile.
        self.metadata.hold(|image| {
            if self.recovery.is_halted() {
                return;
            }
            match image.topic_by_id(id) {
                Some(topic) => {
                    let own = image.configs(&ConfigResource::topic(&**topic.name()));
                    let config = Arc::new(self.topic_config(topic.name(), own.map(|own| &**own)));
                    opened.configure(config.clone(), log_config(&self.config(), &config));
                    // A failure is told of there.
                    let _ = self.serve(vec![opened], |key| left.of(key));
                }
                None => self.discard_recovered(opened, image),
            }
        });
    }

    /// Its topic was deleted while it was recovered; a new one of that name may wait for the directory.
    fn discard_recovered(&self, opened: Partition, image: &Image) {
        let (topic, index) = (opened.topic().to_owned(), opened.index());
        drop(opened);
        let gone = self.data_dir.doom_partition(&topic, index);
        if let Err(error) = gone.and_then(|dir| self.data_dir.disk().remove_dir(&dir)) {
            tracing::warn!(topic, partition = index, %error, "files of a deleted partition remain");
        }
        let namesake: Option<Uuid> = image.topic(&topic).map(|topic| topic.id());
        self.unopened.lock().forget(&(topic, index));
        let missing = self.missing_partitions(image, namesake.into_iter());
        // A failure is told of there.
        let _ = self.open_and_serve(missing, |_| Left::default());
    }
}
