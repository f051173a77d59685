//! The two clocks of the machine. Dates come from the wall clock, which people and time servers
//! set. Durations come from the monotonic clock, which is never set.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970. Later moments may have a smaller one.
    pub wall_ms: i64,
    /// Milliseconds since the process began to count; later moments never have a smaller one.
    pub steady_ms: i64,
}

impl Now {
    /// This moment.
    pub(crate) fn read() -> Self {
        Self { wall_ms: now_ms(), steady_ms: steady_ms() }
    }
}

/// The steady clock alone.
pub(crate) fn steady_ms() -> i64 {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    i64::try_from(BEGIN.elapsed().as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds since the machine was started. Unlike the steady clock, this one also counts the
/// time for which the machine was suspended.
pub(crate) fn uptime_ms() -> i64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}

/// Wall-clock time in milliseconds since 1970, as Kafka's timestamps have it.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
