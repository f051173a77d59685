//! Settings and bounds of a coordinator of share-group state, as plain numbers.

/// Settings of a coordinator of share-group state; the defaults are Kafka's, where Kafka has the
/// setting.
///
/// Memory of a coordinator: some 300 bytes and the group id for each key, 24 bytes for each state
/// batch, and twice that for the keys that are being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareStateConfig {
    /// Number of updates of a key between two snapshots
    /// (`share.coordinator.snapshot.update.records.per.snapshot`, 0 to 500).
    pub updates_per_snapshot: u32,
    /// Age of a snapshot from which on a new one is written, and the interval between the scans for
    /// such keys (`share.coordinator.cold.partition.snapshot.interval.ms`).
    pub cold_interval_ms: i64,
    /// Interval between two deletions of records that no key needs
    /// (`share.coordinator.state.topic.prune.interval.ms`).
    pub prune_interval_ms: i64,
    /// Interval between the rounds of a scan, and between the attempts to remove the keys of a
    /// deleted topic.
    pub round_ms: i64,
    /// Number of keys that a round of a scan visits, and of keys that it removes.
    pub round_keys: usize,
    /// Maximum number of keys; a new key above this limit is refused.
    pub keys_max: usize,
    /// Maximum number of state batches of a write, and of a key: 50 000 take 1 MB in a record.
    pub key_batches_max: usize,
    /// Maximum number of state batches of all keys; a write that adds batches above this limit is
    /// refused.
    pub batches_max: usize,
    /// Maximum number of requests that wait for the records of earlier requests, with their state
    /// batches.
    pub waiting_max: usize,
    /// Bytes of keys and values from which on a batch takes no more records. Far below the largest
    /// batch that the partition accepts.
    pub batch_bytes: usize,
}

impl Default for ShareStateConfig {
    fn default() -> Self {
        Self {
            updates_per_snapshot: 500,
            cold_interval_ms: 5 * 60 * 1_000,
            prune_interval_ms: 5 * 60 * 1_000,
            round_ms: 1_000,
            round_keys: 1_000,
            keys_max: 200_000,
            key_batches_max: 50_000,
            batches_max: 4_000_000,
            waiting_max: 500_000,
            batch_bytes: 64 << 10,
        }
    }
}
