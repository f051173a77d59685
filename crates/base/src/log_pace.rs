//! Rate limit of log lines that clients can cause: a burst, then one per second. The next line has
//! the number of suppressed ones. Texts of clients in such a line are shortened.

use std::fmt;

use parking_lot::Mutex;

/// Maximum number of lines in a burst about events that clients can cause.
const BURST: u32 = 10;

/// Time after which one more line may be written, ms.
const EVERY_MS: i64 = 1000;

/// Bytes of a text that any client can make long, such as the name of a user.
const TEXT_BYTES_MAX: usize = 1000;

/// The beginning of a text of a client.
pub fn shortened(text: &str) -> &str {
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// The beginning of a message that may contain a text of a client.
pub struct Shortened<'a>(pub &'a dyn fmt::Display);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(shortened(&self.0.to_string()))
    }
}

/// The lines that may be written.
#[derive(Debug)]
pub struct LogPace {
    burst: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Time at which the lines written so far no longer count.
    until_ms: Option<i64>,
    left_out: u64,
}

impl Default for LogPace {
    fn default() -> Self {
        Self::of(BURST)
    }
}

impl LogPace {
    /// A pace that allows this number of lines in a burst, at least one.
    pub fn of(burst: u32) -> Self {
        Self { burst, state: Mutex::default() }
    }

    /// Number of lines that were left out before this one; `None` if this one is to be left out
    /// too. The time is that of the monotonic clock.
    pub fn admit(&self, now_ms: i64) -> Option<u64> {
        let mut state = self.state.lock();
        let until_ms = state.until_ms.unwrap_or(now_ms).max(now_ms);
        if until_ms - now_ms > EVERY_MS * i64::from(self.burst - 1) {
            state.left_out += 1;
            return None;
        }
        state.until_ms = Some(until_ms + EVERY_MS);
        Some(std::mem::take(&mut state.left_out))
    }

    /// Counts suppressed lines without a call of `admit`.
    pub fn leave_out(&self, count: u64) {
        self.state.lock().left_out += count;
    }
}

#[cfg(test)]
mod tests;
