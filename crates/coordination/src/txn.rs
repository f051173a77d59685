//! Transactions: the owner of a transactional id, the partitions of its open transaction, and the
//! end of the transaction.
//!
//! Everything here is a state machine without clock, socket or disk: a
//! [`Machine`](crate::machine::Machine) with one [`Coordinator`] for each partition of
//! `__transaction_state`. Its work outside that partition is writing markers and finding producer
//! ids.
//!
//! A producer without a transactional id needs no coordinator, only a producer id.
//!
//! [`Coordinator`]: coordinator::Coordinator

mod alarms;
pub mod config;
pub mod coordinator;
pub mod destinations;
pub mod error;
pub mod event;
mod hosted;
pub mod records;
pub mod request;
pub mod transaction;

pub use crate::machine::{EncodedRecord, Keyed, PersistFailure, PersistId, Request, Ticket, partition_for};
pub use config::{LATE_AFTER_MS, TxnConfig};
pub use coordinator::Coordinator;
pub use error::TxnError;
pub use event::{Action, Event, Outcome, TopicPartition, Work};
pub use transaction::TxnState;

#[cfg(test)]
mod tests;
