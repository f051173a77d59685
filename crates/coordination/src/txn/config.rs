//! Settings of a transaction coordinator, as plain numbers.

/// An open transaction whose producer is silent for longer than `max_timeout_ms` and this is late,
/// as in Kafka: its coordinator should have ended it.
pub const LATE_AFTER_MS: i64 = 5 * 60 * 1000;

/// Settings of a transaction coordinator; the defaults are Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnConfig {
    /// Maximum transaction timeout of a producer (`transaction.max.timeout.ms`).
    pub max_timeout_ms: i32,
    /// Time after which an unused transactional id is removed (`transactional.id.expiration.ms`).
    pub id_expiration_ms: i64,
    /// Interval between scans for transactions that exceed their timeout
    /// (`transaction.abort.timed.out.transaction.cleanup.interval.ms`).
    pub abort_interval_ms: i64,
    /// Interval between scans for expired transactional ids
    /// (`transaction.remove.expired.transaction.cleanup.interval.ms`).
    pub expiration_interval_ms: i64,
    /// Time to wait before markers and completions that could not be written are tried again.
    pub retry_ms: i64,
}

impl Default for TxnConfig {
    fn default() -> Self {
        Self {
            max_timeout_ms: 900_000,
            id_expiration_ms: 7 * 24 * 60 * 60 * 1_000,
            abort_interval_ms: 10_000,
            expiration_interval_ms: 60 * 60 * 1_000,
            retry_ms: 100,
        }
    }
}
