//! Retention: removes the segments that exceed `retention.ms` or `retention.bytes` of their topic.

use std::sync::Arc;
use std::time::Duration;

use levada_process::blocking::off_shard;
use levada_process::clock::now_ms;
use levada_wire::error_code::ErrorCode;

use crate::replica::housekeeping::Housekeeping;
use crate::replica::{Partition, Replicas};

/// Value for the high watermark in a request to delete records.
const HIGH_WATERMARK: i64 = -1;

impl Replicas {
    /// Deletes the records of a partition before an offset (-1: the high watermark), and returns
    /// the partition's first offset afterwards. The caller then has it stored, with those of other
    /// partitions, by [`Checkpoints::store_misleading`]. Blocks.
    ///
    /// [`Checkpoints::store_misleading`]: crate::replica::Checkpoints::store_misleading
    ///
    /// # Errors
    /// This broker does not lead the partition, its topic keeps records by their keys, or the
    /// offset is not in the log.
    pub(crate) fn delete_records(&self, partition: &Partition, offset: i64) -> Result<i64, ErrorCode> {
        partition.check_leader(-1)?;
        let policy = partition.config().cleanup_policy;
        if policy.compact && !policy.delete {
            return Err(ErrorCode::PolicyViolation);
        }
        let high_watermark = partition.log().high_watermark();
        let offset = if offset == HIGH_WATERMARK { high_watermark } else { offset };
        if !(0..=high_watermark).contains(&offset) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let advanced = partition.lane().with_writer(|writer| writer.advance_log_start(offset));
        let discarded = advanced.ok_or(ErrorCode::NotLeaderOrFollower)?;
        self.checkpoints.note_misleading();
        // Files are renamed outside the lane: appends continue at the same time.
        let removed = discarded.and_then(|discarded| self.removals.retire(partition, discarded));
        partition.waiters().wake();
        match removed {
            Ok(()) => Ok(partition.log().log_start()),
            Err(error) => {
                tracing::error!(partition = partition.name(), %error, "cannot delete records");
                Err(ErrorCode::KafkaStorageError)
            }
        }
    }
}

impl Housekeeping {
    /// Checks for old segments every `log.retention.check.interval.ms`; never returns.
    pub(crate) async fn run_retention(self: Arc<Self>) {
        loop {
            let interval_ms = self.config.load().retention_check_interval_ms.unsigned_abs();
            tokio::time::sleep(Duration::from_millis(interval_ms)).await;
            let housekeeping = self.clone();
            off_shard(move || {
                for partition in housekeeping.partitions.all() {
                    housekeeping.delete_old_segments(&partition);
                }
            })
            .await;
        }
    }

    pub(crate) fn delete_old_segments(&self, partition: &Partition) {
        let discarded = partition.lane().with_writer(|writer| writer.delete_old_segments(now_ms()));
        // Files are renamed outside the lane: appends continue at the same time.
        let retired = discarded.map(|discarded| {
            let discarded = discarded?;
            let (segments, bytes) = (discarded.count(), discarded.size_bytes());
            self.removals.retire(partition, discarded).map(|()| (segments, bytes))
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
