//! Input and output of a group coordinator, made from one table of its requests.

use std::sync::Arc;

use bytes::Bytes;

use super::config::OwnSettings;
use super::coordinator::{Coordinator, GroupWork, Matched, ShareStateEnd};
use super::error::GroupError;
use super::request::{
    AlterShareOffsetsOutcome, AlterShareOffsetsRequest, Answer, CommitOutcome, CommitRequest,
    ConsumerHeartbeatOutcome, ConsumerHeartbeatRequest, DeleteOutcome, DeleteRequest,
    DeleteShareOffsetsOutcome, DeleteShareOffsetsRequest, EndTxnOutcome, EndTxnRequest, FetchOutcome,
    FetchRequest, HeartbeatOutcome, HeartbeatRequest, JoinOutcome, JoinRequest, LeaveOutcome, LeaveRequest,
    OffsetDeleteOutcome, OffsetDeleteRequest, ShareHeartbeatOutcome, ShareHeartbeatRequest,
    StreamsHeartbeatOutcome, StreamsHeartbeatRequest, SyncOutcome, SyncRequest, TxnCommitRequest, refuse,
    refuse_delete, refuse_heartbeat,
};
use super::topics::{GoneTopic, Topics};
use crate::machine::{self, Keyed, PersistFailure, Request, Signal};

pub use crate::machine::{EncodedRecord, PersistId, Ticket};

/// Defines [`Event`], [`Outcome`] and the implementations of [`Request`] from the table below.
macro_rules! requests {
    ($($(#[$doc:meta])* $kind:ident($request:ty) -> $answer:ty, $order:ident, $limit:expr, $refuse:expr;)*) => {
        /// An event for [`Coordinator::step`].
        #[derive(Clone, Debug)]
        pub enum Event {
            $($(#[$doc])* $kind(Ticket, $request),)*
            /// The records of an [`Action::Persist`](machine::Action::Persist) are in the log from
            /// this offset on, or were not appended. One such event must follow each action, in any
            /// order; they take effect in the order of the actions.
            Persisted(PersistId, Result<i64, PersistFailure>),
            /// The append takes longer than a request may wait.
            Overdue(PersistId),
            /// The expressions of a [`MatchWork`](super::coordinator::MatchWork) have been compared
            /// with the names of topics.
            Matched(Matched),
            /// The share coordinator has done the work of a
            /// [`ShareStateWork`](super::coordinator::ShareStateWork), or has refused it. One such
            /// event must follow each work, in any order.
            ShareStateDone(ShareStateEnd),
            /// Topics were created, deleted or extended. Needed before [`Event::Loaded`], and after
            /// each change.
            Topics(Arc<dyn Topics>),
            /// The settings of single groups, complete; a member follows them from its next
            /// heartbeat on. Needed before [`Event::Loaded`], and after each change.
            OwnSettings(Arc<OwnSettings>),
            /// Topics are deleted, and so are their committed offsets.
            TopicsDeleted(Vec<GoneTopic>),
            /// Every record of the partition has been replayed: serve.
            Loaded,
            /// Another broker takes over, or this broker stops: respond to all requests and drop
            /// the state.
            Unload,
            /// [`Coordinator::deadline`] has passed.
            Tick,
        }

        /// A response. [`Request::answer`] converts it to its specific type.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Outcome {
            $(#[doc = concat!("To [`Event::", stringify!($kind), "`].")] $kind($answer),)*
        }

        impl Outcome {
            /// The response that replaces this one if the change could not be stored.
            pub(super) fn failed(self, error: GroupError) -> Self {
                match self {
                    $(Self::$kind(answer) => Self::$kind(Answer::failed(answer, error)),)*
                }
            }
        }

        impl Event {
            /// The ticket and the response that refuses this event with `error`; none if no request
            /// waits for one.
            pub fn refused(&self, error: GroupError) -> Option<(Ticket, Outcome)> {
                match self {
                    $(Self::$kind(ticket, request) => Some((*ticket, Outcome::$kind(request.refused(error)))),)*
                    _ => None,
                }
            }

            /// The group whose other events this event has to wait for.
            pub(super) fn group_id(&self) -> Option<&str> {
                match self {
                    $(Self::$kind(_, request) => $order(request),)*
                    Self::Matched(matched) => Some(&matched.group_id),
                    Self::ShareStateDone(end) => Some(&end.group_id),
                    _ => None,
                }
            }
        }

        $(
            impl Request<Coordinator> for $request {
                type Answer = $answer;

                const HAS_LIMIT: bool = $limit;

                fn event(self, ticket: Ticket) -> Event {
                    Event::$kind(ticket, self)
                }

                fn answer(outcome: Outcome) -> Option<$answer> {
                    match outcome {
                        Outcome::$kind(answer) => Some(answer),
                        _ => None,
                    }
                }

                fn refused(&self, error: GroupError) -> $answer {
                    $refuse(self, error)
                }
            }
        )*
    };
}

// Kind, request and answer. `in_turn`: the request waits while records of its group are on their
// way to the log; `at_once`: it does not. Then [`Request::HAS_LIMIT`]. At the end, the function
// that makes the response of a refused request.
requests! {
    /// A member joins the next generation.
    Join(JoinRequest) -> JoinOutcome, in_turn, false, JoinOutcome::refusing;
    /// A member requests its assignment, or the leader sends all assignments.
    Sync(SyncRequest) -> SyncOutcome, in_turn, false, SyncOutcome::refusing;
    /// A heartbeat of a member.
    Heartbeat(HeartbeatRequest) -> HeartbeatOutcome, in_turn, true, refuse_heartbeat;
    /// Members leave, or are removed by an administrator.
    Leave(LeaveRequest) -> LeaveOutcome, in_turn, true, refuse;
    /// A member of a consumer group joins, sends a heartbeat, or leaves.
    ConsumerHeartbeat(ConsumerHeartbeatRequest) -> ConsumerHeartbeatOutcome, in_turn, true, refuse;
    /// Offsets are to be stored.
    Commit(CommitRequest) -> CommitOutcome, in_turn, true, refuse;
    /// Offsets are to be stored if a transaction commits. Their records are appended in this step,
    /// while the caller keeps the transaction's end out of the partition.
    TxnCommit(TxnCommitRequest) -> CommitOutcome, at_once, true, refuse;
    /// A transaction has been decided.
    EndTxn(EndTxnRequest) -> EndTxnOutcome, at_once, true, refuse;
    /// Looks up stored offsets.
    Fetch(FetchRequest) -> FetchOutcome, at_once, true, refuse;
    /// Deletes stored offsets.
    OffsetDelete(OffsetDeleteRequest) -> OffsetDeleteOutcome, in_turn, true, refuse;
    /// A member of a share group joins, sends a heartbeat, or leaves.
    ShareHeartbeat(ShareHeartbeatRequest) -> ShareHeartbeatOutcome, in_turn, true, refuse;
    /// A member of a streams group joins, sends a heartbeat, or leaves.
    StreamsHeartbeat(StreamsHeartbeatRequest) -> StreamsHeartbeatOutcome, in_turn, true, refuse;
    /// Start offsets of a share group are to be set.
    AlterShareOffsets(AlterShareOffsetsRequest) -> AlterShareOffsetsOutcome, in_turn, true, refuse;
    /// Deletes start offsets of a share group.
    DeleteShareOffsets(DeleteShareOffsetsRequest) -> DeleteShareOffsetsOutcome, in_turn, true, refuse;
    /// Groups are to be deleted.
    Delete(DeleteRequest) -> DeleteOutcome, in_turn, true, refuse_delete;
}

fn in_turn(request: &impl Keyed) -> Option<&str> {
    Some(request.key())
}

fn at_once<R>(_: &R) -> Option<&str> {
    None
}

impl From<Signal> for Event {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Persisted(id, result) => Self::Persisted(id, result),
            Signal::Overdue(id) => Self::Overdue(id),
            Signal::Loaded => Self::Loaded,
            Signal::Unload => Self::Unload,
            Signal::Tick => Self::Tick,
        }
    }
}

/// An order to the host.
pub type Action = machine::Action<Outcome, Payload, GroupWork>;

/// Records of one append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Records without a transaction.
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
    /// Producer id.
    pub id: i64,
    /// Producer epoch.
    pub epoch: i16,
}
