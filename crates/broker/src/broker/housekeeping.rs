//! One round of housekeeping: the periodic work of each subject in turn.

use std::sync::Arc;

use levada_process::blocking::off_shard;
use levada_process::clock::{now_ms, steady_ms};
use levada_process::tasks::guarded;

use crate::broker::Broker;

/// The work of one subject in a round. Blocks.
type Work = fn(&Broker);

/// The subjects and their work, in this order. Work that panics runs again in the next round, and
/// does not delay the others.
const ROOMS: [(&str, Work); 15] = [
    ("upkeep of logs", |broker| broker.replicas.housekeeping().keep_logs()),
    ("opening of partitions", |broker| broker.publisher.open_unopened()),
    ("threads that follow other brokers", |broker| broker.publisher.follow_pending()),
    ("leader epochs not stored", |broker| broker.publisher.lead_unstored()),
    ("records of directories", |broker| broker.controller.record_directories()),
    ("checkpoints", |broker| broker.replicas.checkpoints().store()),
    ("removal of files", |broker| broker.replicas.removals().remove_due()),
    ("snapshot of the metadata", |broker| broker.controller.shorten()),
    ("expiry of delegation tokens", |broker| broker.controller.sweep_tokens(steady_ms(), now_ms())),
    ("reload of certificates", |broker| broker.tls.refresh(&broker.config())),
    ("expiry of fetch sessions", |broker| broker.fetch_sessions().end_idle(steady_ms())),
    ("expiry of client metrics", |broker| broker.telemetry.expire()),
    ("memory that was freed", |broker| broker.heap.give_back(steady_ms())),
    ("expiry of encoded topics", |broker| broker.encoded_topics.expire(steady_ms())),
    ("count of audit entries", |broker| broker.access.audit().tell_left_out()),
];

impl Broker {
    /// One round of housekeeping, off the shards.
    pub(crate) async fn keep_house(self: &Arc<Self>) {
        let broker = self.clone();
        off_shard(move || broker.keep_rooms()).await;
    }

    /// Does one round of housekeeping on this thread. Blocks.
    pub(crate) fn keep_rooms(&self) {
        for (name, room) in ROOMS {
            // The panic is logged.
            let _ = guarded(name, || room(self));
        }
    }

    /// Records the directories of replicas that move, as soon as the move needs it. Never returns.
    pub(crate) async fn run_directory_records(self: Arc<Self>) {
        loop {
            self.replicas.moves().announced().notified().await;
            let broker = self.clone();
            off_shard(move || broker.controller.record_directories()).await;
        }
    }
}
