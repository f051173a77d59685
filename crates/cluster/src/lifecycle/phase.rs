//! The phases of a broker in a cluster, and the transitions between them.

/// Phase in the life of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerPhase {
    /// Not registered, or registered and catching up with the metadata.
    Starting,
    /// Caught up; logs are recovered and listeners opened.
    Recovery,
    /// Has been unfenced.
    Running,
    /// Asks the controller to move its leaderships away.
    ShuttingDown,
    /// The registration belongs to another process: nothing may be written.
    Replaced,
    /// Nothing is sent any more.
    Stopped,
}

impl BrokerPhase {
    /// True if a broker in this phase may come to the other one.
    pub(super) fn may_become(self, next: BrokerPhase) -> bool {
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
