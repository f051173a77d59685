//! State of tiered storage.

/// Work with the remote store since the start, and the remote parts of logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteState {
    /// Bytes of segments that were copied.
    pub copied_bytes: u64,
    /// Number of started copies of segments.
    pub copies: u64,
    /// Number of copies that have failed.
    pub copy_errors: u64,
    /// Bytes of records that reads have returned.
    pub read_bytes: u64,
    /// Number of reads of partitions.
    pub reads: u64,
    /// Number of reads that have failed.
    pub read_errors: u64,
    /// Number of started deletions of segments.
    pub deletions: u64,
    /// Number of deletions that have failed.
    pub deletion_errors: u64,
    /// Bytes in the local cache of remote records.
    pub cache_bytes: u64,
    /// Number of parts of segments that a read has found in the cache.
    pub cache_hits: u64,
    /// Number of parts of segments that a read has not found in the cache.
    pub cache_misses: u64,
    /// Bytes that the cache has fetched from the store.
    pub cache_fetched_bytes: u64,
    /// The remote parts of partitions that this broker leads, by topic and number.
    pub logs: Vec<RemoteLogState>,
}

/// The remote part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteLogState {
    /// Topic of the partition.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
    /// Bytes of its remote segments.
    pub bytes: u64,
    /// Number of remote segments in the metadata.
    pub segments: u64,
    /// Bytes of closed segments that wait for their copy.
    pub copy_lag_bytes: u64,
    /// Number of closed segments that wait for their copy.
    pub copy_lag_segments: u64,
    /// Bytes of segments that wait for their deletion.
    pub delete_lag_bytes: u64,
    /// Number of segments that wait for their deletion.
    pub delete_lag_segments: u64,
}
