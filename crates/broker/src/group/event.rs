//! What goes into a coordinator and what comes out of it.

use bytes::Bytes;

use super::error::{GroupError, PersistFailure};
use super::request::{
    CommitOutcome, CommitRequest, DeleteOutcome, DeleteRequest, FetchOutcome, FetchRequest, HeartbeatOutcome,
    HeartbeatRequest, JoinOutcome, JoinRequest, LeaveOutcome, LeaveRequest, SyncOutcome, SyncRequest,
};

/// Something that happened, for [`Coordinator::step`](super::Coordinator::step).
#[derive(Clone, Debug)]
pub enum Event {
    /// A member asks to be part of the next generation.
    Join(Ticket, JoinRequest),
    /// A member asks for its assignment, or the leader brings everybody's.
    Sync(Ticket, SyncRequest),
    /// A member says that it is alive.
    Heartbeat(Ticket, HeartbeatRequest),
    /// Members leave, or are removed by an administrator.
    Leave(Ticket, LeaveRequest),
    /// Offsets are to be stored.
    Commit(Ticket, CommitRequest),
    /// Stored offsets are asked for.
    Fetch(Ticket, FetchRequest),
    /// Groups are to be deleted.
    Delete(Ticket, DeleteRequest),
    /// The records of an [`Action::Persist`] are in the log from this offset on, or are not there at all.
    /// One such event must follow each action, in the order of the actions.
    Persisted(PersistId, Result<i64, PersistFailure>),
    /// Topic partitions are gone; so are the offsets committed for them.
    PartitionsDeleted(Vec<(String, Vec<i32>)>),
    /// Every record of the partition has been replayed: serve.
    Loaded,
    /// Another broker takes over, or this one stops: answer everybody and forget.
    Unload,
    /// Nothing but the time: [`Coordinator::deadline`](super::Coordinator::deadline) is due.
    Tick,
}

/// Something the driver must do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answer the request that came with this ticket. Every ticket gets exactly one answer.
    Reply(Ticket, Outcome),
    /// Append these records to the coordinator's partition as one batch, then report
    /// [`Event::Persisted`] with this id.
    Persist(PersistId, Vec<EncodedRecord>),
}

/// The driver's name for one waiting request; opaque to the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The coordinator's name for one append; opaque to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersistId(pub u64);

/// Key and value of a record of `__consumer_offsets`, in Kafka's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRecord {
    /// The key; never empty.
    pub key: Bytes,
    /// The value; none for a tombstone.
    pub value: Option<Bytes>,
}

/// An answer. [`Request::outcome`](super::Request::outcome) takes the right kind out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To [`Event::Join`].
    Join(JoinOutcome),
    /// To [`Event::Sync`].
    Sync(SyncOutcome),
    /// To [`Event::Heartbeat`].
    Heartbeat(HeartbeatOutcome),
    /// To [`Event::Leave`].
    Leave(LeaveOutcome),
    /// To [`Event::Commit`].
    Commit(CommitOutcome),
    /// To [`Event::Fetch`].
    Fetch(FetchOutcome),
    /// To [`Event::Delete`].
    Delete(DeleteOutcome),
}

impl Outcome {
    /// The answer instead of this one if what it reports could not be stored.
    pub(super) fn failed(self, error: GroupError) -> Self {
        match self {
            Self::Join(outcome) => Self::Join(JoinOutcome::error(outcome.member_id, error)),
            Self::Sync(_) => Self::Sync(SyncOutcome::error(error)),
            Self::Heartbeat(_) => Self::Heartbeat(Err(error)),
            Self::Leave(_) => Self::Leave(Err(error)),
            Self::Commit(_) => Self::Commit(Err(error)),
            Self::Fetch(_) => Self::Fetch(Err(error)),
            Self::Delete(groups) => {
                Self::Delete(groups.into_iter().map(|(group_id, _)| (group_id, Some(error))).collect())
            }
        }
    }
}

impl Event {
    /// The ticket and the answer that refuses this event with `error`; none if nobody waits for one.
    pub fn refused(&self, error: GroupError) -> Option<(Ticket, Outcome)> {
        use super::request::Request;
        Some(match self {
            Self::Join(ticket, request) => (*ticket, Outcome::Join(request.refused(error))),
            Self::Sync(ticket, request) => (*ticket, Outcome::Sync(request.refused(error))),
            Self::Heartbeat(ticket, request) => (*ticket, Outcome::Heartbeat(request.refused(error))),
            Self::Leave(ticket, request) => (*ticket, Outcome::Leave(request.refused(error))),
            Self::Commit(ticket, request) => (*ticket, Outcome::Commit(request.refused(error))),
            Self::Fetch(ticket, request) => (*ticket, Outcome::Fetch(request.refused(error))),
            Self::Delete(ticket, request) => (*ticket, Outcome::Delete(request.refused(error))),
            Self::Persisted(..) | Self::PartitionsDeleted(_) | Self::Loaded | Self::Unload | Self::Tick => {
                return None;
            }
        })
    }
}
