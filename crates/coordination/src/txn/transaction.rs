//! A transactional id: its owner, the partitions of its transaction, and its legal state
//! transitions.

use std::collections::BTreeSet;

use serde::Serialize;

use super::error::TxnError;
use super::event::TopicPartition;
use super::request::{ProducerIdentity, Protocol};

/// Epoch of a producer that has none yet.
pub const NO_EPOCH: i16 = -1;
/// Producer id that stands for no producer.
pub const NO_PRODUCER: i64 = -1;
/// The last epoch that a client receives: one more is reserved to fence it.
const LAST_EPOCH: i16 = i16::MAX - 1;
/// Version of the transaction protocol that this broker itself uses (`transaction.version`).
const EPOCH_BUMP_VERSION: i16 = 2;

/// A coordinator's state of one transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The producer id that owns the transactional id.
    pub producer_id: i64,
    /// The producer id before this one, or -1.
    pub previous_producer_id: i64,
    /// The producer id that applies after the transaction, or -1.
    pub next_producer_id: i64,
    /// The producer's epoch; -1 if none is assigned yet.
    pub producer_epoch: i16,
    /// The previous epoch, if the producer requested to continue from it, or -1. Not in the log: a
    /// retry across a restart is fenced.
    pub last_producer_epoch: i16,
    /// A transaction open for longer than this is aborted.
    pub timeout_ms: i32,
    /// State of the transaction.
    pub state: TxnState,
    /// The partitions that the transaction covers; while it ends, those whose marker is not written
    /// yet.
    pub partitions: BTreeSet<TopicPartition>,
    /// Time at which the transaction began, or -1.
    pub start_ms: i64,
    /// Time of the last change.
    pub last_update_ms: i64,
    /// Version of the protocol the client spoke last; from 2 on every end of a transaction gives
    /// the next epoch.
    pub client_version: i16,
}

/// State of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TxnState {
    /// The producer has its epoch, but no transaction yet.
    Empty,
    /// A transaction is open.
    Ongoing,
    /// The commit is decided: markers are being written.
    PrepareCommit,
    /// The abort is decided: markers are being written.
    PrepareAbort,
    /// The transaction is committed in every partition.
    CompleteCommit,
    /// The transaction is aborted in every partition.
    CompleteAbort,
}

impl TxnState {
    /// Kafka's name of the state, as in responses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    /// True if a transaction may change from this state to `next`.
    pub(super) fn may_become(self, next: Self) -> bool {
        match next {
            Self::Empty => self.is_at_rest(),
            Self::Ongoing => self.is_at_rest() || self == Self::Ongoing,
            Self::PrepareCommit => self == Self::Ongoing,
            // Without an open transaction, the abort fences a producer that may have begun one by
            // producing.
            Self::PrepareAbort => self.is_at_rest() || self == Self::Ongoing,
            Self::CompleteCommit => self == Self::PrepareCommit,
            Self::CompleteAbort => self == Self::PrepareAbort,
        }
    }

    /// True if an id in this state may be removed.
    pub(super) fn is_at_rest(self) -> bool {
        matches!(self, Self::Empty | Self::CompleteCommit | Self::CompleteAbort)
    }

    pub(super) fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

impl Protocol {
    fn version(self) -> i16 {
        match self {
            Self::Classic => 0,
            Self::EpochBump => EPOCH_BUMP_VERSION,
        }
    }
}

impl Transaction {
    /// A new id; its producer gets its epoch by [`Transaction::next_epoch`].
    pub(super) fn new(producer_id: i64, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            producer_id,
            previous_producer_id: NO_PRODUCER,
            next_producer_id: NO_PRODUCER,
            producer_epoch: NO_EPOCH,
            last_producer_epoch: NO_EPOCH,
            timeout_ms,
            state: TxnState::Empty,
            partitions: BTreeSet::new(),
            start_ms: -1,
            last_update_ms: now_ms,
            client_version: 0,
        }
    }

    /// Owner of the id.
    pub(super) fn owner(&self) -> ProducerIdentity {
        ProducerIdentity { producer_id: self.producer_id, producer_epoch: self.producer_epoch }
    }

    /// True if this producer id has no further epoch.
    pub(super) fn is_exhausted(&self) -> bool {
        self.producer_epoch >= LAST_EPOCH
    }

    /// True if a producer with this id and epoch may continue: it is still the owner, or it was the
    /// owner just before its epochs ran out and does not have its new id yet.
    pub(super) fn knows(&self, (producer_id, epoch): (i64, i16)) -> bool {
        self.producer_epoch == NO_EPOCH
            || producer_id == self.producer_id
            || (producer_id == self.previous_producer_id && epoch >= LAST_EPOCH)
    }

    /// True if the last response to EndTxn went to this producer, so that it repeats its request.
    pub(super) fn is_retried_by(&self, producer_id: i64, epoch: i16) -> bool {
        self.ran_over_from(producer_id, epoch) || i32::from(self.producer_epoch) == i32::from(epoch) + 1
    }

    /// True if the producer's epochs ran out when it ended its transaction, and it does not have
    /// its new id yet.
    pub(super) fn ran_over_from(&self, producer_id: i64, epoch: i16) -> bool {
        producer_id == self.previous_producer_id && epoch == LAST_EPOCH && self.producer_epoch == 0
    }

    /// Advances the producer to its next epoch, or keeps the epoch of a lost response.
    pub(super) fn next_epoch(
        &self,
        timeout_ms: i32,
        expected: Option<i16>,
        now_ms: i64,
    ) -> Result<Self, TxnError> {
        let bumped = self.producer_epoch.saturating_add(1);
        let (producer_epoch, last_producer_epoch) = match expected {
            None => (bumped, NO_EPOCH),
            Some(epoch) if epoch == self.producer_epoch || self.producer_epoch == NO_EPOCH => {
                (bumped, self.producer_epoch)
            }
            // A later producer would have left no last epoch.
            Some(epoch) if epoch == self.last_producer_epoch => (self.producer_epoch, epoch),
            Some(_) => return Err(TxnError::ProducerFenced),
        };
        Ok(Self { producer_epoch, last_producer_epoch, ..self.restarted(timeout_ms, now_ms) })
    }

    /// The producer restarts with another producer id; `last_epoch` is the epoch that it requested
    /// to continue from.
    pub(super) fn next_producer(
        &self,
        producer_id: i64,
        timeout_ms: i32,
        last_epoch: Option<i16>,
        now_ms: i64,
    ) -> Self {
        Self {
            producer_id,
            producer_epoch: 0,
            last_producer_epoch: last_epoch.unwrap_or(NO_EPOCH),
            ..self.restarted(timeout_ms, now_ms)
        }
    }

    fn restarted(&self, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            timeout_ms,
            partitions: BTreeSet::new(),
            start_ms: -1,
            last_update_ms: now_ms,
            ..self.turned_into(TxnState::Empty)
        }
    }

    /// Adds partitions to the transaction, which begins with the first of them.
    pub(super) fn with_partitions(
        &self,
        partitions: &[TopicPartition],
        protocol: Protocol,
        now_ms: i64,
    ) -> Self {
        let mut next = self.turned_into(TxnState::Ongoing);
        next.partitions.extend(partitions.iter().cloned());
        next.start_ms = if self.state == TxnState::Ongoing { self.start_ms } else { now_ms };
        next.last_update_ms = now_ms;
        next.client_version = protocol.version();
        next
    }

    /// Records the decision. `next_producer_id` applies after the transaction, or is -1.
    pub(super) fn prepared(
        &self,
        commit: bool,
        protocol: Protocol,
        next_producer_id: i64,
        now_ms: i64,
    ) -> Self {
        let state = if commit { TxnState::PrepareCommit } else { TxnState::PrepareAbort };
        let mut next = self.turned_into(state);
        if protocol == Protocol::EpochBump {
            next.producer_epoch = self.producer_epoch.saturating_add(1);
            next.last_producer_epoch = self.producer_epoch;
        }
        // An abort before the first partition begins the transaction now.
        next.start_ms = if self.state == TxnState::Ongoing { self.start_ms } else { now_ms };
        next.next_producer_id = next_producer_id;
        next.last_update_ms = now_ms;
        next.client_version = protocol.version();
        next
    }

    /// The transaction after its decision has been carried out.
    pub(super) fn completed(&self, now_ms: i64) -> Self {
        let committed = self.state == TxnState::PrepareCommit;
        let state = if committed { TxnState::CompleteCommit } else { TxnState::CompleteAbort };
        let mut next = self.turned_into(state);
        if self.client_version >= EPOCH_BUMP_VERSION && self.next_producer_id != NO_PRODUCER {
            next.producer_id = self.next_producer_id;
            next.producer_epoch = 0;
        }
        next.next_producer_id = NO_PRODUCER;
        next.partitions.clear();
        next.last_update_ms = now_ms;
        next
    }

    fn turned_into(&self, state: TxnState) -> Self {
        Self { state, previous_producer_id: self.producer_id, ..self.clone() }
    }
}
