//! Replication between brokers, as state machines: `leader` decides for a partition that this
//! broker leads, `isr` sends its changes of in-sync replicas to the controller, and `commits` keeps
//! the order of the waiters for the high watermark. `follower` has the state of one partition that
//! another broker leads, and `fetcher` follows all partitions of one leader over one connection;
//! `apply` does its tasks on a log. `throttle` measures the rate of replicated bytes. `recount`
//! compares the replicas of a partition whose designated leader has lost records.
//!
//! The machines own no log. They get its offsets as numbers, and return the high watermark, or
//! tasks for the log.

pub mod apply;
pub mod commits;
pub mod fetcher;
pub mod follower;
pub mod isr;
pub mod leader;
pub mod recount;
pub mod throttle;

pub use commits::Commits;
pub use fetcher::Fetcher;
pub use follower::Follower;
pub use isr::IsrUpdates;
pub use leader::Leader;
pub use recount::Recount;

#[cfg(test)]
mod tests;
