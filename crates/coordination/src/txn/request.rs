//! Requests to a transaction coordinator and their outcomes, independent of any wire version.
//!
//! An API file converts its message to one of these requests, and the outcome back. A refusal
//! always has the newest error code; [`TxnError::before_fencing`] returns the error for older
//! versions.

use super::coordinator::Coordinator;
use super::error::TxnError;
use super::event::{Event, Outcome, TopicPartition};
use crate::machine::{Keyed, Request, Ticket};

/// InitProducerId with a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitRequest {
    /// The transactional id.
    pub transactional_id: String,
    /// A transaction open for longer than this is aborted.
    pub timeout_ms: i32,
    /// The current producer id and epoch of the producer, from which it continues (version 3 and
    /// up).
    pub expected: Option<(i64, i16)>,
    /// True if the producer takes part in two-phase commit (version 6).
    pub enable_two_phase_commit: bool,
    /// True to keep a transaction that the producer has prepared (version 6).
    pub keep_prepared: bool,
}

/// Identity of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdentity {
    /// The producer id; -1 if the response has none.
    pub producer_id: i64,
    /// The producer's epoch; -1 if the response has none.
    pub producer_epoch: i16,
}

impl ProducerIdentity {
    /// Identity that stands for no producer.
    pub const NONE: Self = Self { producer_id: -1, producer_epoch: -1 };
}

/// Version of the client's transaction protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Partitions are added by request, the epoch stays the same from one transaction to the next:
    /// EndTxn up to version 4, AddPartitionsToTxn up to 4, AddOffsetsToTxn.
    Classic,
    /// Partitions are added by producing, and every end of a transaction gives the producer its
    /// next epoch (KIP-890): EndTxn from version 5, Produce from 12, TxnOffsetCommit from 5.
    EpochBump,
}

/// Partitions become part of the transaction, which begins with the first one: AddPartitionsToTxn;
/// AddOffsetsToTxn with the group's partition of `__consumer_offsets`; Produce from version 12 and
/// TxnOffsetCommit from version 5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddRequest {
    /// The transactional id.
    pub transactional_id: String,
    /// Producer id of the transactional id.
    pub producer_id: i64,
    /// Producer epoch of the transactional id.
    pub producer_epoch: i16,
    /// Transaction protocol of the client.
    pub protocol: Protocol,
    /// Partitions to add.
    pub partitions: Vec<TopicPartition>,
}

/// Are these partitions part of the transaction? Request of a partition before it accepts the first
/// records of a transaction from a [`Protocol::Classic`] client, and AddPartitionsToTxn 4 and up
/// with `verify_only`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyRequest {
    /// The transactional id.
    pub transactional_id: String,
    /// Producer id of the transactional id.
    pub producer_id: i64,
    /// Producer epoch of the transactional id.
    pub producer_epoch: i16,
    /// Partitions to verify.
    pub partitions: Vec<TopicPartition>,
}

/// Request to end a transaction (EndTxn).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndRequest {
    /// The transactional id.
    pub transactional_id: String,
    /// Producer id of the transactional id.
    pub producer_id: i64,
    /// Producer epoch of the transactional id.
    pub producer_epoch: i16,
    /// Transaction protocol of the client.
    pub protocol: Protocol,
    /// True to commit, false to abort.
    pub commit: bool,
}

macro_rules! request {
    ($request:ty, $kind:ident -> $answer:ty) => {
        impl Request<Coordinator> for $request {
            type Answer = Result<$answer, TxnError>;

            fn event(self, ticket: Ticket) -> Event {
                Event::$kind(ticket, self)
            }

            fn answer(outcome: Outcome) -> Option<Self::Answer> {
                match outcome {
                    Outcome::$kind(answer) => Some(Ok(answer)),
                    Outcome::Refused(error) => Some(Err(error)),
                    _ => None,
                }
            }

            fn refused(&self, error: TxnError) -> Self::Answer {
                Err(error)
            }
        }

        impl Keyed for $request {
            fn key(&self) -> &str {
                &self.transactional_id
            }
        }
    };
}

// The producer's new id and epoch.
request!(InitRequest, Init -> ProducerIdentity);
request!(AddRequest, Add -> ());
// For each partition of the request, in its order: the reason why it is not part of the
// transaction; none if it is.
request!(VerifyRequest, Verify -> Vec<Option<TxnError>>);
// The producer id and epoch from now on; none for a classic client, which keeps its own.
request!(EndRequest, End -> ProducerIdentity);
