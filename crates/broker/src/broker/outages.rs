//! The failure of a data directory while the broker runs. Its partitions leave service, and the
//! controllers get a report, so that other brokers lead them. Without the directory of the metadata
//! log, or without any, the process ends, as Kafka's does.

use std::sync::Arc;

use levada_wire::Uuid;
use parking_lot::Mutex;

use crate::blocking::off_shard;
use crate::broker::Broker;
use crate::replica::data_dir::DataDir;

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
            self.replicas.failures().notified().await;
            let broker = self.clone();
            off_shard(move || broker.act_on_failures()).await;
        }
    }

    /// Takes the partitions of directories that have failed out of service, and reports the
    /// directories to the controllers. Blocks.
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

    /// Ids of the directories that work, in order.
    pub(super) fn online_directories(&self) -> Vec<Uuid> {
        let mut ids: Vec<Uuid> = self.replicas.dirs().online().map(DataDir::id).collect();
        ids.sort_by_key(|id| id.to_bytes());
        ids
    }

    /// Has the process stop in order, for a reason that it ends with.
    pub(crate) fn give_up(&self, reason: String) {
        tracing::error!(reason, "the broker stops");
        let mut state = self.outages.0.lock();
        state.reason.get_or_insert(reason);
        state.announce();
    }

    /// Calls `tell` when the broker cannot continue, or at once if it already cannot.
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
