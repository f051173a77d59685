//! The times of a broker's life in its cluster, with Kafka's defaults.

/// Times of a broker's life, ms.
#[derive(Clone, Copy, Debug)]
pub struct LifecycleTimes {
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_ms: i64,
    /// `broker.session.timeout.ms`.
    pub session_ms: i64,
    /// `initial.broker.registration.timeout.ms`.
    pub registration_ms: i64,
    /// Pause between registrations while the predecessor's session lasts: it ends at most one
    /// session timeout after its last heartbeat.
    pub duplicate_ms: i64,
    /// Longest duration of one request.
    pub request_ms: i64,
    /// Longest duration of a controlled shutdown.
    pub shutdown_ms: i64,
    /// `log.dir.failure.timeout.ms`.
    pub directory_ms: i64,
}

impl Default for LifecycleTimes {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            heartbeat_ms: 2000,
            session_ms: 9000,
            registration_ms: 60_000,
            duplicate_ms: 300,
            request_ms: 4500,
            shutdown_ms: 300_000,
            directory_ms: 30_000,
        }
    }
}
