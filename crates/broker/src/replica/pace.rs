//! The pace of work in the background: bytes per second, rests, and an early end.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The pace of one kind of work, which several threads may share.
#[derive(Default)]
pub(super) struct Pace {
    throttle: Mutex<Throttle>,
    halted: Mutex<bool>,
    halt: Condvar,
}

impl Pace {
    /// Counts bytes read or written and waits as `bytes_per_second` requires; `false` once the
    /// broker stops.
    pub(super) fn go_on(&self, bytes: u64, bytes_per_second: f64) -> bool {
        let wait = self.throttle.lock().spend(bytes, bytes_per_second, Instant::now());
        self.rest(wait)
    }

    /// Time until everything counted so far is paid for; zero if that is too short for a timer.
    pub(super) fn debt(&self) -> Duration {
        self.throttle.lock().spend(0, f64::MAX, Instant::now())
    }

    /// Drops the debt of bytes that were counted at another rate.
    pub(super) fn forgive(&self) {
        *self.throttle.lock() = Throttle::default();
    }

    /// Waits; `false` once the broker stops.
    pub(super) fn rest(&self, wait: Duration) -> bool {
        let mut halted = self.halted.lock();
        if !*halted && !wait.is_zero() {
            self.halt.wait_for(&mut halted, wait);
        }
        !*halted
    }

    /// True once background work must end.
    pub(super) fn is_halted(&self) -> bool {
        *self.halted.lock()
    }

    /// Ends all background work soon.
    pub(super) fn halt(&self) {
        *self.halted.lock() = true;
        self.halt.notify_all();
    }
}

/// Spreads bytes over time.
#[derive(Debug, Default)]
struct Throttle {
    /// Time at which all bytes so far are within the rate.
    paid_at: Option<Instant>,
}

/// Minimum time to wait: timers are not more precise. A shorter wait is left out, and its bytes
/// count towards the next one.
const WAIT_MIN: Duration = Duration::from_millis(10);

/// The longest wait at a time, so that a raised rate is not waited for.
const WAIT_MAX: Duration = Duration::from_secs(1);

impl Throttle {
    fn spend(&mut self, bytes: u64, per_second: f64, now: Instant) -> Duration {
        let cost = Duration::try_from_secs_f64(bytes as f64 / per_second.max(1.0)).unwrap_or(WAIT_MAX);
        let paid_at = self.paid_at.map_or(now, |paid_at| paid_at.max(now)) + cost;
        self.paid_at = Some(paid_at);
        let wait = paid_at.saturating_duration_since(now);
        if wait < WAIT_MIN { Duration::ZERO } else { wait.min(WAIT_MAX) }
    }
}

#[cfg(test)]
mod tests;
