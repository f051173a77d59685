//! A limit of bytes per second, shared by several threads or tasks, that may change while they
//! wait.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Longest time after which a caller must try again, so that a raised rate takes effect early.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The longest time that a piece counts, ten years: the clock has no end then.
const TAKES_MAX_S: f64 = 315_360_000.0;

/// Admits one piece of work after the other.
#[derive(Debug, Default)]
pub struct RateGate(Mutex<Gate>);

#[derive(Debug, Default)]
struct Gate {
    /// Time at which the pieces so far are within the rate.
    free_at: Option<Instant>,
    bytes_per_second: i64,
}

impl RateGate {
    /// Zero if a piece of this size may begin; it counts from then on. Otherwise the time after
    /// which to try again. A changed rate resets the count. Does not block.
    pub fn admit(&self, bytes: u64, bytes_per_second: i64, now: Instant) -> Duration {
        let mut gate = self.0.lock();
        if gate.bytes_per_second != bytes_per_second {
            *gate = Gate { free_at: None, bytes_per_second };
        }
        let wait = gate.free_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        if !wait.is_zero() {
            return wait.min(PAUSE_MAX);
        }
        let seconds = bytes as f64 / bytes_per_second.max(1) as f64;
        gate.free_at = Some(now + Duration::from_secs_f64(seconds.min(TAKES_MAX_S)));
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    //! Pieces one after the other, and changes of the rate.

    use super::*;

    #[test]
    fn piece_waits_for_those_before_it() {
        let (gate, start) = (RateGate::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(gate.admit(1_000, 2_000, at(0)), Duration::ZERO);
        assert_eq!(gate.admit(5_000, 2_000, at(100)), Duration::from_millis(400));
        assert_eq!(gate.admit(5_000, 2_000, at(500)), Duration::ZERO);
        assert_eq!(gate.admit(1, 2_000, at(600)), PAUSE_MAX, "and asks again then");
        // Time that passed unused gives no credit.
        assert_eq!(gate.admit(2_000, 2_000, at(9_000)), Duration::ZERO);
        assert_eq!(gate.admit(1, 2_000, at(9_500)), Duration::from_millis(500));
    }

    #[test]
    fn raised_rate_ends_the_wait() {
        let (gate, now) = (RateGate::default(), Instant::now());
        assert_eq!(gate.admit(4 << 20, 1, now), Duration::ZERO);
        assert_eq!(gate.admit(4 << 20, 1, now), PAUSE_MAX);
        assert_eq!(gate.admit(4 << 20, i64::MAX, now), Duration::ZERO);
        assert!(gate.admit(1 << 40, i64::MAX, now) < Duration::from_millis(1));
    }
}
