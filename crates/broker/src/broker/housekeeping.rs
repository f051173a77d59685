//! One round of housekeeping, room by room.

use std::sync::Arc;

use crate::blocking::off_shard;
use crate::broker::Broker;
use crate::clock::now_ms;

impl Broker {
    /// One round of housekeeping, off the shards.
    pub(crate) async fn keep_house(self: &Arc<Self>) {
        let broker = self.clone();
        off_shard(move || {
            broker.replicas.keep_logs();
            broker.publisher.open_unopened();
            broker.publisher.lead_unstored();
            broker.controller.record_directories();
            broker.replicas.store_checkpoints();
            broker.replicas.remove_discarded();
            broker.controller.shorten();
            broker.tls.refresh(&broker.config());
            broker.fetch_sessions().end_idle(now_ms());
            broker.access.audit().tell_left_out();
        })
        .await;
    }

    /// Records the directories of replicas that move, as soon as they are to be known. Never
    /// returns.
    pub(crate) async fn run_directory_records(self: Arc<Self>) {
        loop {
            self.replicas.moves().announced().notified().await;
            let broker = self.clone();
            off_shard(move || broker.controller.record_directories()).await;
        }
    }
}
