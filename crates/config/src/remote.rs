//! Configuration of tiered storage: Kafka's `remote.*` keys.

use super::reader::Reader;

/// Copies to a remote store, deletions there, and reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteLogConfig {
    /// `remote.log.storage.system.enable`.
    pub is_enabled: bool,
    /// `remote.log.manager.task.interval.ms`.
    pub task_interval_ms: i64,
    /// `remote.log.manager.copier.thread.pool.size`.
    pub copier_threads: u32,
    /// `remote.log.manager.expiration.thread.pool.size`.
    pub expiration_threads: u32,
    /// `remote.log.manager.copy.max.bytes.per.second`.
    pub copy_max_bytes_per_second: i64,
    /// `remote.log.manager.fetch.max.bytes.per.second`.
    pub fetch_max_bytes_per_second: i64,
    /// `remote.log.metadata.custom.metadata.max.bytes`.
    pub custom_metadata_max_bytes: u32,
    /// `remote.log.reader.threads`.
    pub reader_threads: u32,
    /// `remote.log.reader.max.pending.tasks`.
    pub reader_pending_max: u32,
    /// `follower.fetch.last.tiered.offset.enable`.
    pub follower_begins_late: bool,
    /// `levada.remote.cache.bytes`.
    pub cache_bytes: u64,
    /// `remote.fetch.max.wait.ms`.
    pub fetch_max_wait_ms: i32,
    /// `remote.list.offsets.request.timeout.ms`.
    pub list_offsets_timeout_ms: i64,
    /// `rlmm.config.remote.log.metadata.topic.num.partitions`.
    pub topic_partitions: i32,
    /// `rlmm.config.remote.log.metadata.topic.replication.factor`.
    pub topic_replication_factor: i16,
    /// `rlmm.config.remote.log.metadata.topic.min.isr`.
    pub topic_min_insync_replicas: i16,
    /// `rlmm.config.remote.log.metadata.topic.retention.ms`.
    pub topic_retention_ms: i64,
}

impl Reader<'_> {
    pub(crate) fn remote_log(&self) -> RemoteLogConfig {
        RemoteLogConfig {
            is_enabled: self.is_true("remote.log.storage.system.enable"),
            task_interval_ms: self.long("remote.log.manager.task.interval.ms"),
            copier_threads: self.size("remote.log.manager.copier.thread.pool.size"),
            expiration_threads: self.size("remote.log.manager.expiration.thread.pool.size"),
            copy_max_bytes_per_second: self.long("remote.log.manager.copy.max.bytes.per.second"),
            fetch_max_bytes_per_second: self.long("remote.log.manager.fetch.max.bytes.per.second"),
            custom_metadata_max_bytes: self.size("remote.log.metadata.custom.metadata.max.bytes"),
            reader_threads: self.size("remote.log.reader.threads"),
            reader_pending_max: self.size("remote.log.reader.max.pending.tasks"),
            follower_begins_late: self.is_true("follower.fetch.last.tiered.offset.enable"),
            cache_bytes: self.long("levada.remote.cache.bytes").unsigned_abs(),
            fetch_max_wait_ms: self.int("remote.fetch.max.wait.ms"),
            list_offsets_timeout_ms: self.long("remote.list.offsets.request.timeout.ms"),
            topic_partitions: self.int("rlmm.config.remote.log.metadata.topic.num.partitions"),
            topic_replication_factor: self.short("rlmm.config.remote.log.metadata.topic.replication.factor"),
            topic_min_insync_replicas: self.short("rlmm.config.remote.log.metadata.topic.min.isr"),
            topic_retention_ms: self.long("rlmm.config.remote.log.metadata.topic.retention.ms"),
        }
    }
}
