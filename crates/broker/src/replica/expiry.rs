//! Expiry of producers: each idempotent producer leaves its epoch and last sequences in each
//! partition that it writes to, in memory and in snapshots, until `producer.id.expiration.ms` after
//! its last batch.

use std::sync::Arc;
use std::time::Duration;

use levada_process::blocking::off_shard;
use levada_process::clock::now_ms;

use crate::replica::housekeeping::Housekeeping;

impl Housekeeping {
    /// Searches for silent producers every `producer.id.expiration.check.interval.ms`; never
    /// returns.
    pub(crate) async fn run_producer_expiry(self: Arc<Self>) {
        loop {
            let interval_ms = self.config.load().producer_id_expiration_check_interval_ms.unsigned_abs();
            tokio::time::sleep(Duration::from_millis(interval_ms)).await;
            let housekeeping = self.clone();
            off_shard(move || housekeeping.expire_producers(now_ms())).await;
        }
    }

    /// Removes the producers of every partition whose last batch is older than this time. A
    /// producer with an open transaction stays.
    pub(crate) fn expire_producers(&self, now_ms: i64) {
        for partition in self.partitions.all() {
            let expired = partition.lane().with_writer(|writer| writer.expire_producers(now_ms));
            if let Some(expired) = expired.filter(|expired| *expired > 0) {
                tracing::debug!(partition = partition.name(), expired, "removed expired producers");
            }
        }
    }
}
