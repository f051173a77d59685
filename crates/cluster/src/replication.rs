//! Replication between brokers, as state machines: `leader` decides for a partition that this
//! broker leads, `isr` sends its changes of in-sync replicas to the controller, and `commits` keeps
//! the order of those who wait for the high watermark.
//!
//! The machines own no log. They take its offsets as numbers, and return the high watermark.

pub mod commits;
pub mod isr;
pub mod leader;

pub use commits::Commits;
pub use isr::IsrUpdates;
pub use leader::Leader;
