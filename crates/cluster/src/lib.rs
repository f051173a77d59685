//! Membership of a broker in a KRaft quorum, sans-I/O: events and the time go in, actions come out. A driver
//! owns sockets, clock and disk, and translates actions to I/O.
//!
//! Each machine has `step(event, now_ms) -> Vec<action>` and a deadline at which it wants to be stepped without
//! an event. Times are milliseconds of one monotonic clock; requests carry a number of the machine's own, so
//! that an answer that comes late or twice is recognised.

pub mod errors;
pub mod lifecycle;
pub mod observer;
pub mod quorum;

pub use lifecycle::Lifecycle;
pub use observer::Observer;
pub use quorum::{Address, Quorum, Target};
