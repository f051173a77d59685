//! Transactions: which producer owns a transactional id, what its open transaction covers, how it ends.
//!
//! Everything here is a state machine without clock, socket or disk. A driver owns one
//! [`Coordinator`] for each partition of `__transaction_state` it leads and does three things for it:
//! it feeds [`Event`]s together with the time, it carries out the [`Action`]s that come back (append
//! records, write markers, find producer ids, answer the tickets), and it calls again when
//! [`Coordinator::deadline`] is due.
//!
//! A producer without a transactional id needs no coordinator, only a producer id.
//!
//! [`Coordinator`]: coordinator::Coordinator
//! [`Coordinator::deadline`]: coordinator::Coordinator::deadline

mod alarms;
pub mod config;
pub mod coordinator;
pub mod error;
pub mod event;
pub mod records;
pub mod request;
pub mod transaction;

pub use crate::group::partition_for;
pub use config::TxnConfig;
pub use coordinator::Coordinator;
pub use error::{PersistFailure, TxnError};
pub use event::{Action, EncodedRecord, Event, Outcome, PersistId, Ticket, TopicPartition};
pub use request::Request;
pub use transaction::TxnState;

#[cfg(test)]
mod tests;
