//! Consumer groups, share groups and streams groups: members, generations and committed offsets.
//!
//! Everything here is a state machine without clock, socket or disk: a
//! [`Machine`](crate::machine::Machine) with one [`Coordinator`] for each partition of
//! `__consumer_offsets`.
//!
//! [`Coordinator`]: coordinator::Coordinator

mod classic;
pub mod config;
mod consumer;
pub mod coordinator;
mod embedded;
pub mod error;
pub mod event;
mod hash;
mod hosted;
mod java_map;
mod offsets;
pub mod records;
pub mod request;
mod share;
pub mod streams;
mod timers;
pub mod topics;
mod turn;

pub use consumer::ASSIGNORS;
pub use share::SHARE_ASSIGNOR;

pub use crate::machine::{EncodedRecord, Keyed, PersistFailure, PersistId, Request, Ticket, partition_for};
pub use config::{
    ConsumerConfig, GroupConfig, OwnSetting, OwnSettings, OwnStreamsSetting, ShareConfig, StreamsConfig,
};
pub use coordinator::Coordinator;
pub use error::{FencedEpoch, GroupError};
pub use event::{Action, Event, Outcome, Payload, Producer};
pub use topics::{GoneTopic, Topics, Visible};

#[cfg(test)]
mod tests;
