//! Requests to a coordinator of share-group state and their outcomes, independent of any wire
//! version.
//!
//! An API file converts its message to a [`StateRequest`] for each partition of
//! `__share_group_state` that its keys belong to, and the outcomes back. Kafka answers a request
//! without a group id, or without partitions, with an empty list; a coordinator refuses it.

use std::sync::Arc;

use levada_wire::Uuid;

use super::batches::StateBatch;
use super::coordinator::Coordinator;
use super::error::ShareStateError;
use super::event::{Event, Outcome, Question};
use super::key::ShareKey;
use crate::machine::{Keyed, Request, Ticket};

/// A request about keys of one group, all in one partition of `__share_group_state`. Its response
/// has the result or the refusal of each part, in the order of the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRequest<P> {
    group_id: Arc<str>,
    parts: Vec<P>,
    /// Text of the first part's key.
    key: String,
}

/// The part of a request about one key.
pub trait StatePart: Sized {
    /// The result of the part.
    type Answer;

    /// The topic and the partition.
    fn place(&self) -> (Uuid, i32);

    /// The part as an operation of the coordinator.
    fn into_operation(self) -> Operation;

    /// The result in an operation's result; none if that belongs to an operation of another type.
    fn answer(answer: PartAnswer) -> Option<Self::Answer>;
}

/// InitializeShareGroupState: the key gets a new state, with the leader epoch 0 and without state
/// batches, which replaces an existing one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitializePart {
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Index of the partition.
    pub partition: i32,
    /// Epoch of the state; -1 is never fenced.
    pub state_epoch: i32,
    /// Offset of the first record to deliver; -1 if it is not known yet.
    pub start_offset: i64,
}

/// ReadShareGroupState: the leader of a partition takes the state over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPart {
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Index of the partition.
    pub partition: i32,
    /// Leader epoch of the reader, which is stored; -1 if the reader has none.
    pub leader_epoch: i32,
}

/// WriteShareGroupState: the leader of a partition changes the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePart {
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Index of the partition.
    pub partition: i32,
    /// Epoch of the state that the writer has read; -1 is never fenced.
    pub state_epoch: i32,
    /// Leader epoch of the writer; -1 is never fenced.
    pub leader_epoch: i32,
    /// Offset before which no state is kept; -1 if it has not changed.
    pub start_offset: i64,
    /// Number of offsets, from the start offset on, whose delivery is complete; -1 if not known.
    pub delivery_complete_count: i32,
    /// Changed delivery states, in any order.
    pub batches: Vec<StateBatch>,
}

/// DeleteShareGroupState: the key loses its state, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletePart {
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Index of the partition.
    pub partition: i32,
}

/// ReadShareGroupStateSummary: an administrator reads a summary of the state. The leader epoch of
/// the request has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryPart {
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Index of the partition.
    pub partition: i32,
}

/// Result of [`ReadPart`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredState {
    /// Epoch of the state.
    pub state_epoch: i32,
    /// Offset of the first record to deliver; -1 if it is not known yet.
    pub start_offset: i64,
    /// The delivery states, in order and apart.
    pub batches: Vec<StateBatch>,
}

/// Result of [`SummaryPart`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSummary {
    /// Epoch of the state.
    pub state_epoch: i32,
    /// Leader epoch of the last record.
    pub leader_epoch: i32,
    /// Offset of the first record to deliver; -1 if it is not known yet.
    pub start_offset: i64,
    /// Number of offsets, from the start offset on, whose delivery is complete; -1 if not known.
    pub delivery_complete_count: i32,
}

impl StateSummary {
    /// Summary of a key without state.
    pub const UNINITIALIZED: Self =
        Self { state_epoch: 0, leader_epoch: 0, start_offset: -1, delivery_complete_count: -1 };
}

/// A part of a request, of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Initializes state, for InitializeShareGroupState.
    Initialize(InitializePart),
    /// Reads state, for ReadShareGroupState.
    Read(ReadPart),
    /// Changes state, for WriteShareGroupState.
    Write(WritePart),
    /// Deletes state, for DeleteShareGroupState.
    Delete(DeletePart),
    /// Summarizes state, for ReadShareGroupStateSummary.
    Summarize(SummaryPart),
}

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartAnswer {
    /// Result of an operation that changes the state: the change is in the log.
    Done,
    /// Result of [`Operation::Read`].
    State(StoredState),
    /// Result of [`Operation::Summarize`].
    Summary(StateSummary),
}

impl Operation {
    /// The topic and the partition.
    pub(super) fn place(&self) -> (Uuid, i32) {
        match self {
            Self::Initialize(part) => part.place(),
            Self::Read(part) => part.place(),
            Self::Write(part) => part.place(),
            Self::Delete(part) => part.place(),
            Self::Summarize(part) => part.place(),
        }
    }

    /// The operation with its state batches, if it has to wait.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Write(part) => 1 + part.batches.len(),
            _ => 1,
        }
    }
}

macro_rules! part {
    ($part:ident, $kind:ident -> $answer:ty, $pattern:pat => $taken:expr) => {
        impl StatePart for $part {
            type Answer = $answer;

            fn place(&self) -> (Uuid, i32) {
                (self.topic_id, self.partition)
            }

            fn into_operation(self) -> Operation {
                Operation::$kind(self)
            }

            fn answer(answer: PartAnswer) -> Option<$answer> {
                match answer {
                    $pattern => Some($taken),
                    _ => None,
                }
            }
        }
    };
}

part!(InitializePart, Initialize -> (), PartAnswer::Done => ());
part!(ReadPart, Read -> StoredState, PartAnswer::State(state) => state);
part!(WritePart, Write -> (), PartAnswer::Done => ());
part!(DeletePart, Delete -> (), PartAnswer::Done => ());
part!(SummaryPart, Summarize -> StateSummary, PartAnswer::Summary(summary) => summary);

impl<P: StatePart> StateRequest<P> {
    /// A request of a group. The keys of all parts belong to one partition.
    pub fn new(group_id: &str, parts: Vec<P>) -> Self {
        let group_id: Arc<str> = group_id.into();
        let key = parts.first().map_or_else(String::new, |part| {
            let (topic_id, partition) = part.place();
            ShareKey { group_id: group_id.clone(), topic_id, partition }.to_string()
        });
        Self { group_id, parts, key }
    }
}

impl<P: StatePart> Request<Coordinator> for StateRequest<P> {
    type Answer = Vec<Result<P::Answer, ShareStateError>>;

    fn event(self, ticket: Ticket) -> Event {
        let operations = self.parts.into_iter().map(P::into_operation).collect();
        Event::Ask(ticket, Question { group_id: self.group_id, operations })
    }

    fn answer(outcome: Outcome) -> Option<Self::Answer> {
        let answers = outcome.into_iter().map(|result| match result {
            Ok(answer) => P::answer(answer).map(Ok),
            Err(error) => Some(Err(error)),
        });
        answers.collect()
    }

    fn refused(&self, error: ShareStateError) -> Self::Answer {
        self.parts.iter().map(|_| Err(error)).collect()
    }
}

impl<P> Keyed for StateRequest<P> {
    /// The text of the first part's key.
    fn key(&self) -> &str {
        &self.key
    }
}
