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
    let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    #[cfg(test)]
    let now_ms = now_ms + skew::ms();
    now_ms
}

#[cfg(test)]
pub(crate) mod skew {
    //! A wall clock that was set, for the calling thread alone.

    use std::cell::Cell;

    thread_local! {
        static SKEW_MS: Cell<i64> = const { Cell::new(0) };
    }

    pub(super) fn ms() -> i64 {
        SKEW_MS.get()
    }

    /// Runs work with the wall clock shifted by this time.
    pub(crate) fn by<T>(skew_ms: i64, work: impl FnOnce() -> T) -> T {
        let before = SKEW_MS.replace(skew_ms);
        let done = work();
        SKEW_MS.set(before);
        done
    }
}

#[cfg(test)]
pub(crate) mod cost {
    //! Growth of the cost of work with its size. Other work on the machine does not count.

    use rustix::time::{ClockId, clock_gettime};

    fn processor_ns() -> i64 {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    }

    /// The processor time of work of eight times the size, as a multiple of that of the size: about
    /// 8 if the cost is linear, 64 if it is quadratic.
    pub(crate) fn growth<W: FnOnce()>(size: usize, prepare: impl Fn(usize) -> W) -> f64 {
        let once = |size| {
            let work = prepare(size);
            let begun = processor_ns();
            work();
            processor_ns() - begun
        };
        let best = |size| (0..3).map(|_| once(size)).min().unwrap_or(0).max(1) as f64;
        best(8 * size) / best(size)
    }
}
