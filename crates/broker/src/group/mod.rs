//! Consumer groups: who is a member, which generation it is, what has been committed.
//!
//! Everything here is a state machine without clock, socket or disk. A driver owns one
//! [`Coordinator`] for each partition of `__consumer_offsets` it leads and does three things for it:
//! it feeds [`Event`]s together with the time, it carries out the [`Action`]s that come back (append
//! the records, answer the tickets), and it calls again when [`Coordinator::deadline`] is due.
//!
//! [`Coordinator`]: coordinator::Coordinator
//! [`Coordinator::deadline`]: coordinator::Coordinator::deadline

mod classic;
pub mod config;
mod consumer;
pub mod coordinator;
mod embedded;
pub mod error;
pub mod event;
mod offsets;
pub mod records;
pub mod request;
mod timers;
pub mod topics;
mod turn;

pub(crate) use consumer::ASSIGNORS;

pub use config::{ConsumerConfig, GroupConfig, OwnSetting, OwnSettings};
pub use coordinator::{Coordinator, partition_for};
pub use error::{GroupError, PersistFailure};
pub use event::{Action, EncodedRecord, Event, Outcome, Payload, PersistId, Producer, Ticket};
pub use request::Request;
pub use topics::{Topics, Visible};

#[cfg(test)]
mod tests;
