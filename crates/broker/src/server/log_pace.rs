//! Rate limit of log lines that clients can cause: a burst, then one per second. The next line has
//! the number of suppressed ones.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines at once.
const BURST: u32 = 10;

/// The time that brings one more.
const EVERY: Duration = Duration::from_secs(1);

/// What may be told.
#[derive(Debug, Default)]
pub(crate) struct LogPace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the lines told so far have had their time.
    until: Option<Instant>,
    left_out: u64,
}

impl LogPace {
    /// Whether a line may be told at this time, and how many were left out before it.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let until = state.until.unwrap_or(now).max(now);
        if until.duration_since(now) > EVERY * (BURST - 1) {
            state.left_out += 1;
            return None;
        }
        state.until = Some(until + EVERY);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests;
