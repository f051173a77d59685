//! Retries across a restart of the broker: the time between a broken connection and the next
//! response.

use std::thread;
use std::time::{Duration, Instant};

use super::Cluster;
use crate::kafka_error;
use levada_terminal::failure::{Cause, Failure};
use levada_wire::error_code::ErrorCode;

/// Pauses between two attempts: the first and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time that a topic may be missing if there is no other limit: it may have been deleted.
const MISSING_LIMIT: Duration = Duration::from_secs(60);
/// Time that offsets of a group may be in an open transaction if there is no other limit: Kafka's
/// `transaction.max.timeout.ms` by default, after which the coordinator aborts the transaction.
const UNSTABLE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Time after which a refusal is printed: most pass within a moment, as leaders move.
const QUIET: Duration = Duration::from_secs(5);

/// Failures since the last success.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Time that a broker or a leader may be away; `None` if there is no limit.
    limit: Option<Duration>,
    since: Option<Instant>,
    pause: Duration,
    is_told: bool,
    is_refusal_told: bool,
}

/// True for a failure that ends when a broker returns, or when a partition gets a leader.
pub(crate) fn passes(failure: &Failure) -> bool {
    match failure.cause() {
        Cause::Connection => true,
        Cause::Code(code) => kafka_error::is_of_restart(code),
        Cause::Other => false,
    }
}

impl Outage {
    /// No failure so far.
    pub(crate) fn none(limit: Option<Duration>) -> Self {
        Self { limit, since: None, pause: FIRST_PAUSE, is_told: false, is_refusal_told: false }
    }

    /// Notes a success.
    pub(crate) fn over(&mut self) {
        if self.is_told {
            tell!("connected again");
        }
        // A partition may stay without a leader while others are read: one message is enough.
        *self = Self { is_refusal_told: self.is_refusal_told, ..Self::none(self.limit) };
    }

    /// Returns the failure if it is permanent or has lasted too long. Otherwise waits, and
    /// reconnects if the connection was lost. `is_asked_to_stop` ends the wait.
    pub(crate) fn bear(
        &mut self,
        cluster: &mut Cluster,
        failure: Failure,
        is_asked_to_stop: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        let mut failure = failure;
        loop {
            let since = self.since.get_or_insert_with(Instant::now).elapsed();
            let is_over = limit(self.limit, failure.cause()).is_some_and(|limit| since >= limit);
            if !passes(&failure) || is_over || is_asked_to_stop() {
                return Err(failure);
            }
            let was_lost = failure.cause() == Cause::Connection;
            if was_lost && !self.is_told {
                tell!("{}; connecting again", failure.line());
                self.is_told = true;
            }
            if !was_lost && !self.is_refusal_told && since >= QUIET {
                tell!("{}; trying again", failure.line());
                self.is_refusal_told = true;
            }
            thread::sleep(self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            if !was_lost {
                return Ok(());
            }
            match cluster.reconnect() {
                Ok(()) => return Ok(()),
                Err(other) => failure = other,
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
    fn a_given_limit_holds_for_refusals_as_for_lost_connections() {
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
