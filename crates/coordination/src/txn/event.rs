//! Input and output of a transaction coordinator.

use super::error::TxnError;
use super::request::{AddRequest, EndRequest, InitRequest, ProducerIdentity, VerifyRequest};
use crate::machine::{self, PersistFailure, Signal};

pub use crate::machine::{EncodedRecord, PersistId, Ticket};

/// An event for [`Coordinator::step`](super::Coordinator::step).
#[derive(Clone, Debug)]
pub enum Event {
    /// A producer requests a transactional id (InitProducerId).
    Init(Ticket, InitRequest),
    /// Partitions become part of a transaction.
    Add(Ticket, AddRequest),
    /// A broker verifies that partitions are part of a transaction.
    Verify(Ticket, VerifyRequest),
    /// Commits or aborts a transaction.
    End(Ticket, EndRequest),
    /// The records of an [`Action::Persist`](machine::Action::Persist) are in the log from this
    /// offset on, or were not appended. One such event must follow each action, in the order of the
    /// actions.
    Persisted(PersistId, Result<i64, PersistFailure>),
    /// Results of [`Work::Markers`]: one entry for each partition. One such event must follow each
    /// action, in any order. A partition without an entry is tried again.
    MarkersWritten(MarkersId, Vec<(TopicPartition, MarkerResult)>),
    /// The result of [`Work::ProducerId`]: a producer id that has never been assigned. One such
    /// event must follow each action, in any order.
    ProducerId(Result<i64, TxnError>),
    /// Every record of the partition has been replayed: serve.
    Loaded,
    /// Another broker takes over, or this broker stops: respond to all tickets and drop the state.
    Unload,
    /// [`Coordinator::deadline`](super::Coordinator::deadline) has passed; no other input.
    Tick,
}

/// An order to the host.
pub type Action = machine::Action<Outcome, Vec<EncodedRecord>, Work>;

/// Work that a coordinator waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Write these markers, then report [`Event::MarkersWritten`] with this id.
    Markers(MarkersId, Markers),
    /// Find an unused producer id, then report [`Event::ProducerId`].
    ProducerId,
}

/// A decided transaction's end, to be written into partitions as control batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Markers {
    /// The producer whose transaction ends.
    pub producer_id: i64,
    /// The epoch of the markers.
    pub producer_epoch: i16,
    /// The epoch of this coordinator: the leader epoch of its partition.
    pub coordinator_epoch: i32,
    /// True to commit, false to abort.
    pub commit: bool,
    /// Version of transactions; from 2 on the epoch of the markers is larger than that of the
    /// transaction's records.
    pub transaction_version: i16,
    /// Destinations of the markers.
    pub partitions: Vec<TopicPartition>,
}

/// Result of one marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerResult {
    /// The marker is in the log.
    Written,
    /// The partition no longer exists.
    Gone,
    /// The partition did not accept the marker; retry.
    Failed,
    /// The partition has seen a newer epoch of the producer or of the coordinator: this decision is
    /// no longer ours to carry out.
    Fenced,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: String,
    /// Index of the partition.
    pub partition: i32,
}

/// The coordinator's name for one set of markers; opaque to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MarkersId(pub u64);

/// A response. [`Request::answer`](super::Request::answer) converts it to its specific type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Response to [`Event::Init`].
    Init(ProducerIdentity),
    /// Response to [`Event::Add`].
    Add(()),
    /// Response to [`Event::Verify`].
    Verify(Vec<Option<TxnError>>),
    /// Response to [`Event::End`].
    End(ProducerIdentity),
    /// Refusal of any request.
    Refused(TxnError),
}

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

impl Event {
    /// The ticket of a request that waits for a response, and its transactional id.
    pub(super) fn asker(&self) -> Option<(Ticket, &str)> {
        Some(match self {
            Self::Init(ticket, request) => (*ticket, &request.transactional_id),
            Self::Add(ticket, request) => (*ticket, &request.transactional_id),
            Self::Verify(ticket, request) => (*ticket, &request.transactional_id),
            Self::End(ticket, request) => (*ticket, &request.transactional_id),
            Self::Persisted(..)
            | Self::MarkersWritten(..)
            | Self::ProducerId(_)
            | Self::Loaded
            | Self::Unload
            | Self::Tick => return None,
        })
    }
}
