//! Membership of a broker in a KRaft quorum, and replication between its brokers, sans-I/O: events
//! and the time go in, actions come out. A driver owns sockets, clock and disk, and translates
//! actions to I/O.
//!
//! Each machine has `step(event, now_ms) -> Vec<action>` and a deadline at which the driver steps
//! it without an event. Times are milliseconds of one monotonic clock; requests carry a number of
//! the machine's own, so that a response that comes late or twice is recognised.

pub mod channel;
pub mod directories;
pub mod envelope;
pub mod errors;
pub mod lifecycle;
pub mod observer;
pub mod producer_ids;
pub mod quorum;
pub mod replication;

pub use channel::Channel;
pub use directories::Directories;
pub use lifecycle::Lifecycle;
pub use observer::Observer;
pub use producer_ids::ProducerIds;
pub use quorum::{Address, Quorum, Target};
