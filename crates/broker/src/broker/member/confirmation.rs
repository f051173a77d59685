//! Proof that the metadata was read after a pause of the process.
//!
//! The first response after a pause may be older than the pause: it waited in the socket. The
//! second one is to a request that was sent after the first.

/// News of the metadata, as the membership counts them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// Time since the last response, ms.
    pub(super) since_fetch_ms: Option<i64>,
    /// High watermark of the metadata log.
    pub(super) high_watermark: i64,
    /// Offset of the last record that is in force.
    pub(super) applied: i64,
}

/// Progress of the proof. Times are those of the receipt of responses, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Confirmation {
    /// No confirmation is pending.
    #[default]
    Settled,
    /// Time at which the process continued, ms; no response since.
    Asked(i64),
    /// Time of the first response since then, ms.
    Once(i64),
}

/// Minimum time between two different responses, ms. A response's time is computed from two clocks
/// with milliseconds, so that it varies.
const APART_MS: i64 = 2;

impl Confirmation {
    /// Starts the proof again.
    pub(super) fn ask(&mut self, now_ms: i64) {
        *self = Self::Asked(now_ms);
    }

    /// Processes the present state; returns true if it completes the proof.
    pub(super) fn hears(&mut self, heard: Heard, now_ms: i64) -> bool {
        let Some(since_ms) = heard.since_fetch_ms else { return false };
        let answered_ms = now_ms.saturating_sub(since_ms);
        match *self {
            Self::Asked(asked_ms) if answered_ms > asked_ms + APART_MS => *self = Self::Once(answered_ms),
            Self::Once(first_ms) if answered_ms > first_ms + APART_MS => {
                // All that was committed then is in force.
                if heard.applied + 1 >= heard.high_watermark {
                    *self = Self::Settled;
                    return true;
                }
            }
            Self::Settled | Self::Asked(_) | Self::Once(_) => {}
        }
        false
    }
}

#[cfg(test)]
mod tests;
