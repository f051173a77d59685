//! Retries across a restart of the broker: the time between a broken connection and the next
//! response.

use std::thread;
use std::time::{Duration, Instant};

use super::Cluster;
use crate::failure::{Cause, Failure};
use crate::kafka_error;

/// Pauses between two attempts: the first and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time that a broker that answers may refuse for reasons that pass, such as a partition without
/// leader.
const CODE_LIMIT: Duration = Duration::from_secs(60);

/// Failures since the last success.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Time that a broker may be away; `None` if there is no limit.
    limit: Option<Duration>,
    since: Option<Instant>,
    pause: Duration,
    is_told: bool,
}

impl Outage {
    /// No failure so far.
    pub(crate) fn none(limit: Option<Duration>) -> Self {
        Self { limit, since: None, pause: FIRST_PAUSE, is_told: false }
    }

    /// Notes a success.
    pub(crate) fn over(&mut self) {
        if self.is_told {
            tell!("connected again");
        }
        *self = Self::none(self.limit);
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
            let limit = match failure.cause() {
                Cause::Connection => self.limit,
                Cause::Code(code) if kafka_error::is_of_restart(code) => {
                    Some(self.limit.map_or(CODE_LIMIT, |limit| limit.min(CODE_LIMIT)))
                }
                _ => return Err(failure),
            };
            let since = *self.since.get_or_insert_with(Instant::now);
            if limit.is_some_and(|limit| since.elapsed() >= limit) || is_asked_to_stop() {
                return Err(failure);
            }
            let was_lost = failure.cause() == Cause::Connection;
            if was_lost && !self.is_told {
                tell!("{}; connecting again", failure.line());
                self.is_told = true;
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
