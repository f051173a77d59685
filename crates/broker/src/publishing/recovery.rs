//! Recovery while the broker serves: after an unclean shutdown, separate threads check the logs,
//! and each partition enters service when its check is done. Until then its clients get a retriable
//! error, and its coordinators are loading.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use levada_metadata::controller::is_internal;
use levada_metadata::image::{ConfigResource, Image, Topic};
use levada_wire::Uuid;
use tokio::runtime::Handle;

use crate::publishing::Publisher;
use crate::replica::last_shutdown::{LastShutdown, PartitionAtShutdown};
use crate::replica::log_config::{log_config, topic_config};
use crate::replica::opening::Missing;
use crate::replica::{Leadership, Partition, Recovery};

/// A thread of the recovery has ended, also by a panic.
struct ThreadDone<'a>(&'a Recovery);

impl Drop for ThreadDone<'_> {
    fn drop(&mut self) {
        self.0.thread_done();
    }
}

impl Publisher {
    /// Recovers partitions on as many threads as are configured, or as there are cores; those of
    /// the coordinators first.
    pub(super) fn begin_recovery(&self, mut missing: Vec<Missing>, left: LastShutdown) {
        missing.sort_by_key(|one| !is_internal(&one.identity.topic));
        for one in &missing {
            let key = one.key();
            if one.identity.leadership.is_leader() {
                self.coordinators.expect(&key);
            }
            let left = left.of(&key);
            self.replicas.unopened().lock().expect(key, left);
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.config.load().recovery_threads.unwrap_or_else(cores).min(missing.len());
        tracing::info!(partitions = missing.len(), threads, "unclean shutdown detected; checking logs");
        let recovery = self.replicas.recovery();
        recovery.begin(missing, threads);
        let left = Arc::new(left);
        for at in 0..threads {
            let (publisher, share) = (self.clone(), left.clone());
            let thread = std::thread::Builder::new().name(format!("recovery-{at}"));
            let counted = recovery.clone();
            let runtime = Handle::try_current().ok();
            let work = move || {
                let _done = ThreadDone(&counted);
                // Writes of coordinators, and waits for the device, need a runtime.
                let _entered = runtime.as_ref().map(Handle::enter);
                // A caller that waits for the recovery may need the replicas to be dropped.
                let publisher = publisher;
                publisher.recover(&share);
            };
            if let Err(error) = thread.spawn(work) {
                tracing::error!(%error, "cannot start a recovery thread");
                if at == 0 {
                    // Without any, this one has to do it.
                    self.recover(&left);
                }
                recovery.thread_done();
            }
        }
    }

    fn recover(&self, left: &LastShutdown) {
        let recovery = self.replicas.recovery();
        while let Some(one) = recovery.next() {
            let key = one.key();
            let recovered = catch_unwind(AssertUnwindSafe(|| self.recover_one(one, left)));
            if recovered.is_err() {
                tracing::error!(
                    topic = key.0,
                    partition = key.1,
                    "partition offline: its recovery panicked; the broker retries every few seconds"
                );
                let mut unopened = self.replicas.unopened().lock();
                let left = unopened.of(&key);
                unopened.note(&key, left);
            }
            let (topic, index) = (&key.0, key.1);
            let is_served = self.replicas.partitions().by_name(topic, index).is_some();
            if !self.replicas.unopened().lock().is_recovering(topic, index) && !is_served {
                self.coordinators.give_up(&key);
            }
            recovery.partition_done();
        }
        // A failure is in the log.
        let _ = self.replicas.checkpoints().store_misleading();
    }

    fn recover_one(&self, one: Missing, left: &LastShutdown) {
        let id = one.identity.topic_id;
        let Ok(opened) = self.replicas.open_partition(one, |key| left.of(key)) else { return };
        // Topics cannot change during this time.
        self.metadata.hold(|image| {
            if self.replicas.recovery().is_halted() {
                return;
            }
            let broker = self.config.load();
            let topic = image.topic_by_id(id);
            let registered = topic.and_then(|topic| Some((topic, topic.partition(opened.index())?)));
            match registered.filter(|(_, registered)| registered.replicas.contains(&broker.node_id)) {
                Some((topic, registered)) => {
                    let own = image.configs(&ConfigResource::topic(&**topic.name()));
                    let config = Arc::new(topic_config(&broker, topic.name(), own.map(|own| &**own)));
                    opened.configure(config.clone(), log_config(&broker, &config));
                    opened.lead(Leadership::of(registered, broker.node_id));
                    // The other side reports a failure.
                    let _ = self.serve(vec![opened]);
                }
                None => self.discard_recovered(opened, image),
            }
        });
    }

    /// Discards a recovered log whose topic was deleted during the recovery, or whose replica left
    /// this node; a new partition of that name may wait for the directory.
    fn discard_recovered(&self, opened: Partition, image: &Image) {
        let (topic, index) = (opened.topic().to_owned(), opened.index());
        drop(opened);
        let doomed = self.replicas.mark_unserved_deleted(&topic, index);
        doomed.iter().for_each(|dir| self.replicas.dirs().remove(dir));
        let namesake: Option<Uuid> = image.topic(&topic).map(|topic| topic.id());
        let missing = self.replicas.missing(image, namesake.into_iter());
        // The other side reports a failure.
        let _ = self.open_and_serve(missing, |_| PartitionAtShutdown::default());
    }

    /// The replica of a partition that is not served has left this node. Returns its directory for
    /// removal; while a thread checks the log, that thread removes it.
    pub(super) fn stop_unserved(&self, topic: &Topic, index: i32) -> Option<PathBuf> {
        self.coordinators.resign_at(topic.name(), index);
        let recovery = self.replicas.recovery();
        if recovery.withdraw(topic.id(), index) {
            recovery.partition_done();
        } else if self.replicas.unopened().lock().is_recovering(topic.name(), index) {
            return None;
        }
        self.replicas.mark_unserved_deleted(topic.name(), index)
    }

    /// Updates the leader of a partition that is not served: its coordinator is loading, or on
    /// another broker.
    pub(super) fn lead_unserved(&self, topic: &Topic, index: i32, leadership: &Leadership) {
        let key = (topic.name().to_string(), index);
        if self.replicas.unopened().lock().is_recovering(&key.0, key.1) {
            if leadership.is_leader() {
                self.coordinators.expect(&key);
            } else {
                self.coordinators.give_up(&key);
            }
        }
    }
}
