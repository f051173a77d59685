//! The two clocks of the machine. Dates come from the wall clock, which operators and time servers
//! set. Durations come from the monotonic clock, which is never set.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use levada_base::Now;
use rustix::time::{ClockId, clock_gettime};

/// The present time.
pub fn now() -> Now {
    Now { wall_ms: now_ms(), steady_ms: steady_ms() }
}

/// The monotonic clock only.
pub fn steady_ms() -> i64 {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    i64::try_from(BEGIN.elapsed().as_millis()).unwrap_or(i64::MAX)
}

/// Whole milliseconds of a duration, in a width that logs write as a number.
pub fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the machine was started. Unlike the monotonic clock, this one also counts the
/// time for which the machine was suspended.
pub fn uptime_ms() -> i64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}

/// Wall-clock time in milliseconds since 1970, as Kafka's timestamps have it.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    #[cfg(any(test, feature = "testing"))]
    let now_ms = now_ms + skew::ms();
    now_ms
}

#[cfg(any(test, feature = "testing"))]
pub mod skew {
    //! A wall clock that was set, only for the calling thread.

    use std::cell::Cell;

    thread_local! {
        static SKEW_MS: Cell<i64> = const { Cell::new(0) };
    }

    pub(super) fn ms() -> i64 {
        SKEW_MS.get()
    }

    /// Runs work with the wall clock shifted by this time.
    pub fn by<T>(skew_ms: i64, work: impl FnOnce() -> T) -> T {
        let before = SKEW_MS.replace(skew_ms);
        let done = work();
        SKEW_MS.set(before);
        done
    }
}
