//! Retention: removes the segments that exceed `retention.ms` or `retention.bytes` of their topic.

use std::sync::Arc;
use std::time::Duration;

use crate::blocking::off_shard;
use crate::clock::now_ms;
use crate::replica::{Partition, Replicas};

impl Replicas {
    /// Looks for old segments every `log.retention.check.interval.ms`; never returns.
    pub(crate) async fn run_retention(self: Arc<Self>) {
        loop {
            let interval_ms = self.config.load().retention_check_interval_ms.unsigned_abs();
            tokio::time::sleep(Duration::from_millis(interval_ms)).await;
            let replicas = self.clone();
            off_shard(move || {
                for partition in replicas.partitions.all() {
                    replicas.delete_old_segments(&partition);
                }
            })
            .await;
        }
    }

    pub(crate) fn delete_old_segments(&self, partition: &Partition) {
        let discarded = partition.lane().with_writer(|writer| writer.delete_old_segments(now_ms()));
        // Files are renamed outside the lane: appends go on meanwhile.
        let retired = discarded.map(|discarded| {
            let discarded = discarded?;
            let (segments, bytes) = (discarded.count(), discarded.size_bytes());
            self.retire(partition, discarded).map(|()| (segments, bytes))
        });
        match retired {
            None | Some(Ok((0, _))) => {}
            Some(Ok((segments, bytes))) => {
                self.upkeep.retired(segments as u64, bytes);
                let log_start = partition.log().log_start();
                tracing::info!(
                    partition = partition.name(),
                    segments,
                    bytes,
                    log_start,
                    "old segments deleted"
                );
            }
            Some(Err(error)) => {
                tracing::error!(partition = partition.name(), %error, "cannot delete old segments");
            }
        }
    }
}
