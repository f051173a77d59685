//! Compaction: of the records with one key, only the last stays. What is to be done and when is
//! [`DirtySection`]; doing it is [`Cleaning`]; putting the result in place is the writer's
//! ([`crate::Writer::replace`]).
//!
//! Offsets never change: a batch keeps its first and last offset whatever is taken out of it, and
//! so do its producer and sequences. A tombstone, and the marker of a transaction of which nothing
//! is left, stay for `delete.retention.ms` after the first compaction that finds them so, and that
//! time is kept in their batch. Everything works on segments that are no longer written to and lie
//! below the last stable offset, so that it is known how their transactions ended.

use std::ops::ControlFlow;

use thiserror::Error;

use crate::LogError;

mod cleaning;
mod dirty;
mod filter;
mod group;
mod key_map;
mod output;
#[cfg(test)]
mod tests;
mod transactions;

pub use crate::producers::LastRecords;
pub use cleaning::{Cleaning, Counts, Job};
pub use dirty::DirtySection;
pub use output::Cleaned;

/// Told of each portion of bytes read or written; may block to slow the work down, and ends it by
/// `Break`.
pub type Throttle<'a> = &'a dyn Fn(u64) -> ControlFlow<()>;

/// The reason why a log was not compacted. It is as it was before.
#[derive(Debug, Error)]
pub enum CleanError {
    /// The pace said so.
    #[error("compaction was stopped")]
    Stopped,
    /// The disk failed, or what lies on it is not a log.
    #[error(transparent)]
    Log(#[from] LogError),
}

fn go_on(throttle: Throttle<'_>, bytes: u64) -> Result<(), CleanError> {
    match throttle(bytes) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CleanError::Stopped),
    }
}
