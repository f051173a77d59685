//! What goes into a coordinator and what comes out of it.

use std::sync::Arc;

use bytes::Bytes;

use super::config::OwnSettings;
use super::error::{GroupError, PersistFailure};
use super::request::{
    CommitOutcome, CommitRequest, ConsumerHeartbeatOutcome, ConsumerHeartbeatRequest, DeleteOutcome,
    DeleteRequest, EndTxnOutcome, EndTxnRequest, FetchOutcome, FetchRequest, HeartbeatOutcome,
    HeartbeatRequest, JoinOutcome, JoinRequest, LeaveOutcome, LeaveRequest, OffsetDeleteOutcome,
    OffsetDeleteRequest, SyncOutcome, SyncRequest, TxnCommitRequest,
};
use super::topics::Topics;

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
    /// A member of a consumer group joins, says that it is alive, or leaves.
    ConsumerHeartbeat(Ticket, ConsumerHeartbeatRequest),
    /// Offsets are to be stored.
    Commit(Ticket, CommitRequest),
    /// Offsets are to be stored if a transaction commits.
    TxnCommit(Ticket, TxnCommitRequest),
    /// A transaction has been decided.
    EndTxn(Ticket, EndTxnRequest),
    /// Stored offsets are asked for.
    Fetch(Ticket, FetchRequest),
    /// Stored offsets are to go.
    OffsetDelete(Ticket, OffsetDeleteRequest),
    /// Groups are to be deleted.
    Delete(Ticket, DeleteRequest),
    /// What an [`Action::Persist`] asked for is in the log from this offset on, or is not there at all.
    /// One such event must follow each action, in any order; they take effect in the order of the actions.
    Persisted(PersistId, Result<i64, PersistFailure>),
    /// Topics have come, gone or grown. To be told before [`Event::Loaded`], and whenever it happens.
    Topics(Arc<dyn Topics>),
    /// Groups have settings of their own, all of them; a member goes by them from its next heartbeat on. To be told
    /// before [`Event::Loaded`], and whenever they change.
    OwnSettings(Arc<OwnSettings>),
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
    /// Append this to the coordinator's partition as one batch, in the order of the actions, and report
    /// [`Event::Persisted`] with this id.
    Persist(PersistId, Payload),
}

/// One batch to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Records.
    Records(Vec<EncodedRecord>),
    /// Records that are part of a producer's transaction.
    Transactional(Producer, Vec<EncodedRecord>),
    /// The end of a transaction.
    Marker(EndTxnRequest),
}

impl Payload {
    /// Bytes of the longest key with its value.
    pub fn largest_record_bytes(&self) -> usize {
        let records = match self {
            Self::Records(records) | Self::Transactional(_, records) => &records[..],
            Self::Marker(_) => &[],
        };
        let bytes = |record: &EncodedRecord| record.key.len() + record.value.as_ref().map_or(0, Bytes::len);
        records.iter().map(bytes).max().unwrap_or(0)
    }
}

/// A producer in one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Producer {
    /// Its id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
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
    /// To [`Event::ConsumerHeartbeat`].
    ConsumerHeartbeat(ConsumerHeartbeatOutcome),
    /// To [`Event::Commit`].
    Commit(CommitOutcome),
    /// To [`Event::TxnCommit`].
    TxnCommit(CommitOutcome),
    /// To [`Event::EndTxn`].
    EndTxn(EndTxnOutcome),
    /// To [`Event::Fetch`].
    Fetch(FetchOutcome),
    /// To [`Event::OffsetDelete`].
    OffsetDelete(OffsetDeleteOutcome),
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
            Self::ConsumerHeartbeat(_) => Self::ConsumerHeartbeat(Err(error)),
            Self::Commit(_) => Self::Commit(Err(error)),
            Self::TxnCommit(_) => Self::TxnCommit(Err(error)),
            Self::EndTxn(_) => Self::EndTxn(Err(error)),
            Self::Fetch(_) => Self::Fetch(Err(error)),
            Self::OffsetDelete(_) => Self::OffsetDelete(Err(error)),
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
            Self::ConsumerHeartbeat(ticket, _) => (*ticket, Outcome::ConsumerHeartbeat(Err(error))),
            Self::Commit(ticket, request) => (*ticket, Outcome::Commit(request.refused(error))),
            Self::TxnCommit(ticket, _) => (*ticket, Outcome::TxnCommit(Err(error))),
            Self::EndTxn(ticket, _) => (*ticket, Outcome::EndTxn(Err(error))),
            Self::Fetch(ticket, request) => (*ticket, Outcome::Fetch(request.refused(error))),
            Self::OffsetDelete(ticket, _) => (*ticket, Outcome::OffsetDelete(Err(error))),
            Self::Delete(ticket, request) => (*ticket, Outcome::Delete(request.refused(error))),
            Self::Persisted(..)
            | Self::Topics(_)
            | Self::OwnSettings(_)
            | Self::PartitionsDeleted(_)
            | Self::Loaded
            | Self::Unload
            | Self::Tick => return None,
        })
    }

    /// The group this event is about, if it is about one and must not overtake others about it.
    pub(super) fn group_id(&self) -> Option<&str> {
        use super::request::Request;
        Some(match self {
            Self::Join(_, request) => request.group_id(),
            Self::Sync(_, request) => request.group_id(),
            Self::Heartbeat(_, request) => request.group_id(),
            Self::Leave(_, request) => request.group_id(),
            Self::ConsumerHeartbeat(_, request) => request.group_id(),
            Self::Commit(_, request) => request.group_id(),
            Self::TxnCommit(_, request) => request.group_id(),
            Self::OffsetDelete(_, request) => request.group_id(),
            Self::Delete(_, request) => request.group_id(),
            Self::EndTxn(..)
            | Self::Fetch(..)
            | Self::Persisted(..)
            | Self::Topics(_)
            | Self::OwnSettings(_)
            | Self::PartitionsDeleted(_)
            | Self::Loaded
            | Self::Unload
            | Self::Tick => return None,
        })
    }
}
