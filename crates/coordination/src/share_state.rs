//! State of share groups (KIP-932): the start offset, the delivery states and the delivery counts
//! of the records of one partition, for each group that shares it.
//!
//! Everything here is a state machine without clock, socket or disk: a
//! [`Machine`](crate::machine::Machine) with one [`Coordinator`] for each partition of
//! `__share_group_state`. Leaders of shared partitions and the coordinators of share groups send it
//! requests. A key ([`ShareKey`]) is a group, a topic id and a partition; its text decides which
//! coordinator has it.
//!
//! [`Coordinator`]: coordinator::Coordinator

pub mod batches;
pub mod config;
pub mod coordinator;
pub mod error;
pub mod event;
mod hosted;
pub mod key;
pub mod records;
pub mod request;
mod share;
mod timers;
pub mod topics;

pub use crate::machine::{EncodedRecord, Keyed, PersistFailure, PersistId, Request, Ticket, partition_for};
pub use batches::StateBatch;
pub use config::ShareStateConfig;
pub use coordinator::Coordinator;
pub use error::ShareStateError;
pub use event::{Action, Event, Outcome, Work};
pub use key::ShareKey;
pub use topics::TopicSizes;

#[cfg(test)]
mod tests;
