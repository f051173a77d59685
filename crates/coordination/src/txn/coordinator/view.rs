//! Read-only queries of a coordinator: the list of transactional ids, the details of one, and the
//! partitions in which transactions are to be ended.

use std::collections::BTreeSet;

use super::{Coordinator, Phase};
use crate::txn::error::TxnError;
use crate::txn::event::TopicPartition;
use crate::txn::request::ProducerIdentity;
use crate::txn::transaction::{Transaction, TxnState};

/// State names of ListTransactions; the last two never occur.
const STATE_NAMES: [&str; 8] = [
    TxnState::Empty.name(),
    TxnState::Ongoing.name(),
    TxnState::PrepareCommit.name(),
    TxnState::PrepareAbort.name(),
    TxnState::CompleteCommit.name(),
    TxnState::CompleteAbort.name(),
    "Dead",
    "PrepareEpochFence",
];

/// True if ListTransactions has a state of that name.
pub fn is_state(name: &str) -> bool {
    STATE_NAMES.contains(&name)
}

/// Filter of the list; an empty list matches everything.
#[derive(Clone, Default)]
pub struct ListFilter {
    /// Names of states, as Kafka writes them.
    pub states: Vec<String>,
    /// Producer ids, in order.
    pub producer_ids: Vec<i64>,
    /// Only transactions that have been running for longer than this; -1 for all (version 1 and
    /// up).
    pub longer_than_ms: i64,
}

/// Response to ListTransactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The transactional ids, in order.
    pub transactions: Vec<Listed>,
    /// Names in the filter that are no states.
    pub unknown_states: Vec<String>,
}

/// A transactional id as ListTransactions shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The transactional id.
    pub transactional_id: String,
    /// Producer id of the transactional id.
    pub producer_id: i64,
    /// State of the transactional id.
    pub state: TxnState,
}

/// A transactional id as DescribeTransactions shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Producer that owns the transactional id.
    pub owner: ProducerIdentity,
    /// State of the transactional id.
    pub state: TxnState,
    /// Transaction timeout, ms.
    pub timeout_ms: i32,
    /// Time at which the transaction began, or -1.
    pub start_ms: i64,
    /// The partitions it covers, in order; while it ends, those without a marker.
    pub partitions: Vec<TopicPartition>,
}

/// Numbers of transactions that this process has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Number of committed transactions.
    pub committed: u64,
    /// Number of aborted transactions.
    pub aborted: u64,
}

impl Ended {
    /// Counts a transaction that is complete.
    pub(super) fn count(&mut self, state: Option<TxnState>) {
        match state {
            Some(TxnState::CompleteCommit) => self.committed += 1,
            Some(TxnState::CompleteAbort) => self.aborted += 1,
            _ => {}
        }
    }
}

impl Coordinator {
    /// Numbers of transactions that this process has ended.
    pub fn ended(&self) -> Ended {
        self.ended
    }

    /// The state of each transactional id.
    pub fn states(&self) -> impl Iterator<Item = TxnState> {
        self.entries.values().map(|entry| entry.current.state)
    }

    /// The transactional ids of this coordinator that pass `filter`.
    ///
    /// # Errors
    /// While the coordinator loads, and when it has been unloaded.
    pub fn list(&self, filter: &ListFilter, now_ms: i64) -> Result<Listing, TxnError> {
        self.serving()?;
        let unknown_states = filter.states.iter().filter(|state| !is_state(state));
        let unknown_states = unknown_states.cloned().collect();
        let wanted = self.entries.iter().filter(|(_, entry)| filter.admits(&entry.current, now_ms));
        let transactions = wanted.map(|(transactional_id, entry)| Listed {
            transactional_id: transactional_id.clone(),
            producer_id: entry.current.producer_id,
            state: entry.current.state,
        });
        Ok(Listing { transactions: transactions.collect(), unknown_states })
    }

    /// The partitions in which this coordinator will end a transaction of one of these producers:
    /// an open one, or a decided one that lacks markers. Returned with the producer ids.
    ///
    /// # Errors
    /// While the coordinator loads, and when it has been unloaded.
    pub fn unfinished(&self, producers: &BTreeSet<i64>) -> Result<Vec<(i64, TopicPartition)>, TxnError> {
        self.serving()?;
        let transactions = self.entries.values().map(|entry| &entry.current);
        let wanted = transactions.filter(|one| producers.contains(&one.producer_id));
        let places =
            wanted.flat_map(|one| one.partitions.iter().map(|place| (one.producer_id, place.clone())));
        Ok(places.collect())
    }

    /// Describes a transactional id.
    ///
    /// # Errors
    /// The coordinator loads or is unloaded, or it does not have the id.
    pub fn describe(&self, transactional_id: &str) -> Result<Described, TxnError> {
        if transactional_id.is_empty() {
            return Err(TxnError::InvalidRequest);
        }
        self.serving()?;
        let entry = self.entries.get(transactional_id).ok_or(TxnError::TransactionalIdNotFound)?;
        let current = &entry.current;
        Ok(Described {
            owner: current.owner(),
            state: current.state,
            timeout_ms: current.timeout_ms,
            start_ms: current.start_ms,
            partitions: current.partitions.iter().cloned().collect(),
        })
    }

    fn serving(&self) -> Result<(), TxnError> {
        match self.phase {
            Phase::Serving => Ok(()),
            Phase::Loading => Err(TxnError::CoordinatorLoadInProgress),
            Phase::Unloaded => Err(TxnError::NotCoordinator),
        }
    }
}

impl AsRef<str> for Listed {
    fn as_ref(&self) -> &str {
        &self.transactional_id
    }
}

impl ListFilter {
    fn admits(&self, current: &Transaction, now_ms: i64) -> bool {
        let running_ms = now_ms.saturating_sub(current.start_ms);
        (self.states.is_empty() || self.states.iter().any(|state| state == current.state.name()))
            && (self.producer_ids.is_empty() || self.producer_ids.binary_search(&current.producer_id).is_ok())
            && (self.longer_than_ms < 0 || running_ms > self.longer_than_ms)
    }
}
