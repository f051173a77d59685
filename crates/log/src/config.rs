//! The part of a topic's configuration that a log needs: Kafka's keys, with Kafka's meaning and
//! defaults.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Largest valid offset of a checkpoint. Appends never reach it: a larger one is damage.
pub const OFFSET_MAX: i64 = i64::MAX / 2;

/// Clock of a partition's timestamps: `message.timestamp.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TimestampType {
    /// Timestamp of the producer.
    #[default]
    CreateTime,
    /// The broker's, at the append.
    LogAppendTime,
}

/// Way to write records to a segment's file: `levada.log.append`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AppendBy {
    /// One vectored write for a group of batches.
    #[default]
    Pwrite,
    /// A copy into a mapping of blocks that were allocated ahead.
    Mapped,
}

/// Part of a log that remote storage has: `remote.storage.enable` and `remote.log.copy.disable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Tiering {
    /// Nothing is in remote storage. The log begins in its first segment.
    #[default]
    Local,
    /// The old records. Closed segments are copied, and local ones are deleted once they are
    /// copied.
    Copied,
    /// The old records, and no further ones.
    ReadOnly,
}

/// A partition's configuration. Passed by value; pass a changed one to
/// [`crate::Writer::set_config`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`: a segment that would grow beyond is rolled first.
    pub segment_bytes: u32,
    /// `segment.ms`: a batch that is later than the segment's first by more than this, both by
    /// their timestamps, begins a new segment. If the first has no timestamp, the segment's own age
    /// counts.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: how much earlier a segment may be rolled, so that not all are rolled at
    /// once.
    pub segment_jitter_ms: i64,
    /// `index.interval.bytes`: about one index entry for this number of log bytes.
    pub index_interval_bytes: u32,
    /// `segment.index.bytes`: the size of an index at most; a full one rolls the segment.
    pub segment_index_bytes: u32,
    /// `max.message.bytes`: the largest batch.
    pub max_message_bytes: u32,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `retention.bytes`: -1 for no limit.
    pub retention_bytes: i64,
    /// `retention.ms`: -1 for no limit.
    pub retention_ms: i64,
    /// Part of the log that remote storage has.
    pub tiering: Tiering,
    /// `local.retention.bytes` of a log whose segments are copied: -1 for no limit.
    pub local_retention_bytes: i64,
    /// `local.retention.ms` of a log whose segments are copied: -1 for no limit.
    pub local_retention_ms: i64,
    /// `delete.retention.ms`: time for which compaction keeps tombstones, and markers of
    /// transactions without remaining records.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`: younger records are not compacted.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`: older records are compacted, however few they are.
    pub max_compaction_lag_ms: i64,
    /// `producer.id.expiration.ms`: time without a batch after which a producer's state is removed.
    pub producer_id_expiration_ms: i64,
    /// `levada.log.append`.
    pub append_by: AppendBy,
}

impl LogConfig {
    /// Bytes and ms for which the local segments stay, -1 each for no limit.
    pub(crate) fn local_limits(&self) -> (i64, i64) {
        match self.tiering {
            Tiering::Copied => (self.local_retention_bytes, self.local_retention_ms),
            Tiering::Local | Tiering::ReadOnly => (self.retention_bytes, self.retention_ms),
        }
    }

    /// Maximum time in ms by which a batch may be later than the first batch of the segment with
    /// this base offset; `salt` differs between partitions.
    pub(crate) fn roll_after_ms(&self, salt: &impl Hash, base: i64) -> i64 {
        let jitter_ms = self.segment_jitter_ms.clamp(0, self.segment_ms);
        if jitter_ms == 0 {
            return self.segment_ms;
        }
        let mut hasher = DefaultHasher::new();
        (salt, base).hash(&mut hasher);
        self.segment_ms - (hasher.finish() % jitter_ms.unsigned_abs()).cast_signed()
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        let days = |days: u64| Duration::from_secs(days * 86_400).as_millis() as i64;
        Self {
            segment_bytes: 1 << 30,
            segment_ms: days(7),
            segment_jitter_ms: 0,
            index_interval_bytes: 4096,
            segment_index_bytes: 10 << 20,
            max_message_bytes: 1_048_588,
            timestamp_type: TimestampType::CreateTime,
            retention_bytes: -1,
            retention_ms: days(7),
            tiering: Tiering::Local,
            local_retention_bytes: -1,
            local_retention_ms: days(7),
            delete_retention_ms: days(1),
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            producer_id_expiration_ms: days(1),
            append_by: AppendBy::Pwrite,
        }
    }
}
