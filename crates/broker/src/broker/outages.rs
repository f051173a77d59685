//! The failure of a data directory while the broker runs. Its partitions leave service, and the
//! controllers get a report, so that other brokers lead them. Without the directory of the metadata
//! log, or without any, the process ends, as Kafka's does.
//!
//! Also directories whose storage refuses records. Their partitions are read as before. The
//! controllers get a report of each that another broker can lead, until the storage accepts records
//! again.

use std::sync::Arc;
use std::time::Duration;

use levada_process::blocking::off_shard;
use levada_process::clock::uptime_ms;
use levada_process::tasks::guarded;
use levada_wire::Uuid;
use parking_lot::Mutex;

use crate::broker::Broker;
use crate::replica::data_dir::DataDir;

/// Interval between two checks for storage that refuses records, or accepts them again.
const LOOK: Duration = Duration::from_secs(1);

/// Duration after which work of a writer counts as waiting for storage that is frozen or stuck.
const BLOCKED_AFTER: Duration = Duration::from_secs(3);

/// Reason for which the broker cannot continue.
#[derive(Default)]
pub(super) struct Outages(Mutex<State>);

#[derive(Default)]
struct State {
    reason: Option<String>,
    tell: Option<Box<dyn Fn() + Send>>,
}

impl State {
    fn announce(&self) {
        if let (Some(tell), Some(_)) = (&self.tell, &self.reason) {
            tell();
        }
    }
}

impl Broker {
    /// Acts on directories that fail; never returns.
    pub(crate) async fn run_outages(self: Arc<Self>) {
        loop {
            self.replicas.dirs().news().notified().await;
            let broker = self.clone();
            off_shard(move || broker.act_on_failures()).await;
        }
    }

    /// Removes the partitions of failed directories from service, and reports the directories to
    /// the controllers. Blocks.
    pub(crate) fn act_on_failures(&self) {
        let failed = self.replicas.take_failed_directories();
        if failed.is_empty() {
            return;
        }
        self.publisher.abandon_failed();
        if self.replicas.dirs().is_hopeless() {
            let paths: Vec<String> = failed.iter().map(|dir| dir.path.display().to_string()).collect();
            return self.give_up(format!(
                "log directory {} has failed, and the broker cannot run without it: check the disk, then start the \
                 broker again",
                paths.join(", ")
            ));
        }
        match &self.membership {
            Some(membership) => failed.iter().for_each(|dir| membership.directory_failed(dir.id)),
            None => self.controller.lose_directories(&self.online_directories()),
        }
    }

    /// Watches for storage that refuses records, or accepts them again; never returns. Nothing here
    /// waits for the storage, which may be frozen.
    pub(crate) async fn run_storage_watch(self: Arc<Self>) {
        loop {
            self.watch_storage(uptime_ms(), |work| drop(tokio::task::spawn_blocking(work)));
            // The notification or the end of the pause: both are the time to look.
            let _ = tokio::time::timeout(LOOK, self.replicas.dirs().refusals().notified()).await;
        }
    }

    /// Checks the storage once. `beside` runs work that may wait.
    pub(crate) fn watch_storage(self: &Arc<Self>, now_ms: i64, beside: impl Fn(Box<dyn FnOnce() + Send>)) {
        self.replicas.refuse_blocked(BLOCKED_AFTER);
        for (at, dir) in self.replicas.dirs().iter().enumerate() {
            let is_refusal = dir.take_refusal();
            if is_refusal || dir.takes_probe(now_ms) {
                let broker = self.clone();
                let work = move || broker.attend_to_directory(at, is_refusal, now_ms);
                beside(Box::new(move || drop(guarded("the watch of a log directory", work))));
            }
        }
    }

    /// Acts on a refusal, or checks if a directory accepts records again. Blocks.
    fn attend_to_directory(&self, at: usize, is_refusal: bool, now_ms: i64) {
        let Some(dir) = self.replicas.dirs().iter().nth(at) else { return };
        if is_refusal {
            let partitions = self.replicas.in_directory(dir);
            // In this order: a replica that still followed would join the replicas in sync again.
            self.publisher.unfollow(&partitions);
            self.report_lost(now_ms);
            self.publisher.resign_from(&partitions);
        } else if dir.probe(now_ms) {
            let partitions = self.replicas.in_directory(dir);
            self.publisher.serve_again(&partitions);
            self.replicas.report_placed(&partitions);
        }
    }

    /// Ids of the directories that work, in order.
    pub(super) fn online_directories(&self) -> Vec<Uuid> {
        let mut ids: Vec<Uuid> = self.replicas.dirs().online().map(DataDir::id).collect();
        ids.sort_by_key(|id| id.to_bytes());
        ids
    }

    /// Stops the process in order, with this reason as its last message.
    pub(crate) fn give_up(&self, reason: String) {
        tracing::error!(reason, "the broker stops");
        let mut state = self.outages.0.lock();
        state.reason.get_or_insert(reason);
        state.announce();
    }

    /// Calls `tell` when the broker cannot continue, or immediately if it already cannot.
    pub(crate) fn on_fatal(&self, tell: impl Fn() + Send + 'static) {
        let mut state = self.outages.0.lock();
        state.tell = Some(Box::new(tell));
        state.announce();
    }

    /// Reason for which the broker cannot continue.
    pub(crate) fn fatal_reason(&self) -> Option<String> {
        self.outages.0.lock().reason.clone()
    }
}
