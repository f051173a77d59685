//! Problems of a cluster that programs report in the same words: `levada cluster health` and the
//! console of a broker.

use std::fmt;
use std::time::Duration;

use levada_wire::error_code::ErrorCode;

use crate::error::Cause;

/// State of a broker that the metadata does not show to clients.
pub const FENCED: &str =
    "fenced: the controllers get no heartbeats from it, or it is starting; see its /readyz and its log";

/// Problem of the controllers. Brokers serve without them, so that only a request that the
/// controllers answer, such as DescribeQuorum, finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllersProblem {
    /// None of them responded within this time.
    Silent(Duration),
    /// No controller is active.
    NoLeader,
}

impl ControllersProblem {
    /// The problem that the leader in a response of the quorum shows; -1 for none.
    #[must_use]
    pub fn of_leader(leader: i32) -> Option<Self> {
        (leader < 0).then_some(Self::NoLeader)
    }

    /// The problem that a failed request shows, which had this time.
    #[must_use]
    pub fn of_failure(cause: Cause, limit: Duration) -> Option<Self> {
        let is_silent = cause == Cause::Connection || cause.code() == Some(ErrorCode::RequestTimedOut);
        is_silent.then_some(Self::Silent(limit))
    }
}

impl fmt::Display for ControllersProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(limit) => match limit.as_millis() {
                ms if ms % 1000 == 0 => write!(f, "the controllers did not respond within {} s", ms / 1000)?,
                ms => write!(f, "the controllers did not respond within {ms} ms")?,
            },
            Self::NoLeader => f.write_str("no controller is active")?,
        }
        f.write_str(": no leader is elected, and nothing in the cluster can be changed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_and_lost_connections_are_silence() {
        let of = |cause| ControllersProblem::of_failure(cause, Duration::from_secs(5));
        let silent = Some(ControllersProblem::Silent(Duration::from_secs(5)));
        assert_eq!(of(Cause::Connection), silent);
        assert_eq!(of(Cause::Code(ErrorCode::RequestTimedOut.code())), silent);
        assert_eq!(of(Cause::Code(ErrorCode::ClusterAuthorizationFailed.code())), None);
        assert_eq!(of(Cause::Other), None);
        let said = |ms| ControllersProblem::Silent(Duration::from_millis(ms)).to_string();
        assert!(said(5000).starts_with("the controllers did not respond within 5 s: no leader"));
        assert!(said(1500).starts_with("the controllers did not respond within 1500 ms: no leader"));
        assert_eq!(ControllersProblem::of_leader(0), None);
        assert_eq!(ControllersProblem::of_leader(-1), Some(ControllersProblem::NoLeader));
    }
}
