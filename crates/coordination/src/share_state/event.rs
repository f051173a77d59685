//! Input and output of a coordinator of share-group state.

use std::sync::Arc;

use levada_wire::Uuid;

use super::error::ShareStateError;
use super::request::{Operation, PartAnswer};
use super::topics::TopicSizes;
use crate::machine::{self, PersistFailure, Signal};

pub use crate::machine::{EncodedRecord, PersistId, Ticket};

/// An event for [`Coordinator::step`](super::Coordinator::step).
#[derive(Clone, Debug)]
pub enum Event {
    /// A request about keys of one group, built by [`StateRequest`](super::request::StateRequest).
    Ask(Ticket, Question),
    /// The records of an [`Action::Persist`](machine::Action::Persist) are in the log from this
    /// offset on, and committed, or were not appended. One such event must follow each action, in
    /// any order; they take effect in the order of the actions.
    Persisted(PersistId, Result<i64, PersistFailure>),
    /// Topics were created, deleted or extended. Needed before [`Event::Loaded`], and after each
    /// change.
    Topics(Arc<dyn TopicSizes>),
    /// Topics are deleted, and so is the state of their partitions.
    TopicsDeleted(Vec<Uuid>),
    /// The work [`Work::Prune`] is done: the log begins at this offset. A host that could not do
    /// it reports nothing, and gets the work again.
    Pruned(i64),
    /// Every record of the partition has been replayed: serve.
    Loaded,
    /// Another broker takes over, or this broker stops: respond to all tickets and drop the state.
    Unload,
    /// [`Coordinator::deadline`](super::Coordinator::deadline) has passed; no other input.
    Tick,
}

/// Operations on keys of one group. A request has operations of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Id of the group.
    pub group_id: Arc<str>,
    /// Operations of the request.
    pub operations: Vec<Operation>,
}

/// An order to the host.
pub type Action = machine::Action<Outcome, Vec<EncodedRecord>, Work>;

/// Work outside the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Delete the records of the coordinator's partition before this offset, as DeleteRecords
    /// does, then report [`Event::Pruned`]. No key needs them, and every record that replaces one
    /// of them is committed.
    Prune(i64),
}

/// A response: for each operation of the request, in its order, the result or the refusal.
/// [`Request::answer`](super::Request::answer) converts it to its specific type.
pub type Outcome = Vec<Result<PartAnswer, ShareStateError>>;

impl From<Signal> for Event {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Persisted(id, result) => Self::Persisted(id, result),
            Signal::Loaded => Self::Loaded,
            Signal::Unload => Self::Unload,
            // The host refuses requests that wait for too long.
            Signal::Tick | Signal::Overdue(_) => Self::Tick,
        }
    }
}
