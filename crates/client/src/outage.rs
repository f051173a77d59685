//! Retries across a restart of the broker: the time between a broken connection and the next
//! response.

use std::thread;
use std::time::{Duration, Instant};

use levada_wire::error_code::ErrorCode;

use crate::cluster::Cluster;
use crate::error::{Cause, Caused};
use crate::notice::{Notice, Watch};

/// Pauses between two attempts: the first and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time that a topic may be missing if there is no other limit: it may have been deleted.
const MISSING_LIMIT: Duration = Duration::from_secs(60);
/// Time that offsets of a group may be in an open transaction if there is no other limit: Kafka's
/// `transaction.max.timeout.ms` by default, after which the coordinator aborts the transaction.
const UNSTABLE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Time after which a refusal is reported: most pass within a moment, as leaders move.
const QUIET: Duration = Duration::from_secs(5);

/// Failures since the last success.
#[derive(Debug)]
pub struct Outage {
    /// Longest outage of a broker or a leader; `None` if there is no limit.
    limit: Option<Duration>,
    since: Option<Instant>,
    pause: Duration,
    is_told: bool,
    is_refusal_told: bool,
}

impl Outage {
    /// A state without failures. The outage of a broker or a leader may last for `limit`. Without a
    /// limit, a topic may be missing for a minute, and offsets may be in an open transaction for 15
    /// minutes.
    #[must_use]
    pub fn none(limit: Option<Duration>) -> Self {
        Self { limit, since: None, pause: FIRST_PAUSE, is_told: false, is_refusal_told: false }
    }

    /// Notes a success: the outage is over.
    pub fn over<E>(&mut self, watch: &dyn Watch<E>) {
        if self.is_told {
            watch.notice(Notice::Connected);
        }
        // A partition may stay without a leader while others are read: one message is enough.
        *self = Self { is_refusal_told: self.is_refusal_told, ..Self::none(self.limit) };
    }

    /// Blocks for a pause, from 100 ms to 1 s as the outage lasts, and reconnects if the connection
    /// was lost. A request to stop ends the wait.
    ///
    /// # Errors
    /// The error itself, or that of the last attempt to connect, if it is permanent or has lasted
    /// too long, or if the caller stops.
    pub fn bear<E: Caused>(
        &mut self,
        cluster: &mut Cluster,
        error: E,
        watch: &dyn Watch<E>,
    ) -> Result<(), E> {
        let mut error = error;
        loop {
            let since = self.since.get_or_insert_with(Instant::now).elapsed();
            let cause = error.cause();
            let is_over = limit(self.limit, cause).is_some_and(|limit| since >= limit);
            if !cause.passes() || is_over || watch.is_asked_to_stop() {
                return Err(error);
            }
            let was_lost = cause == Cause::Connection;
            if was_lost && !self.is_told {
                watch.notice(Notice::Lost(&error));
                self.is_told = true;
            }
            if !was_lost && !self.is_refusal_told && since >= QUIET {
                watch.notice(Notice::Refused(&error));
                self.is_refusal_told = true;
            }
            thread::sleep(self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            if !was_lost {
                return Ok(());
            }
            match cluster.reconnect() {
                Ok(()) => return Ok(()),
                Err(other) => error = other.into(),
            }
        }
    }
}

/// Time that a failure of this cause may last.
fn limit(given: Option<Duration>, cause: Cause) -> Option<Duration> {
    let own = match cause.code() {
        Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId) => Some(MISSING_LIMIT),
        Some(ErrorCode::UnstableOffsetCommit) => Some(UNSTABLE_LIMIT),
        _ => None,
    };
    given.or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_limit_covers_refusals_and_lost_connections() {
        let (given, minute) = (Some(Duration::from_secs(600)), Some(Duration::from_secs(60)));
        let cases = [
            (Cause::Connection, None),
            (Cause::Code(5), None),
            (Cause::Code(19), None),
            (Cause::Code(3), minute),
            (Cause::Code(100), minute),
            (Cause::Code(88), Some(Duration::from_secs(900))),
        ];
        for (cause, without) in cases {
            assert_eq!((limit(given, cause), limit(None, cause)), (given, without), "{cause:?}");
        }
    }
}
