//! The phases of a broker in a cluster, and the transitions between them.

/// Phase in the life of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerPhase {
    /// The broker is not registered, or is registered and catches up with the metadata.
    Starting,
    /// The broker has caught up; it recovers logs and opens listeners.
    Recovery,
    /// The broker has been unfenced.
    Running,
    /// The broker requests that the controller moves its leaderships to other brokers.
    ShuttingDown,
    /// The registration belongs to another process: nothing may be written.
    Replaced,
    /// No further requests are sent.
    Stopped,
}

impl BrokerPhase {
    /// True if a broker in this phase may enter the other phase.
    pub(super) fn may_become(self, next: Self) -> bool {
        use BrokerPhase::{Recovery, Replaced, Running, ShuttingDown, Starting, Stopped};
        match self {
            Starting => matches!(next, Recovery | Replaced | Stopped),
            Recovery => matches!(next, Running | ShuttingDown | Replaced | Stopped),
            Running => matches!(next, Running | ShuttingDown | Replaced | Stopped),
            ShuttingDown | Replaced => next == Stopped,
            Stopped => false,
        }
    }
}
