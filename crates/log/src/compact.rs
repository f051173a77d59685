//! Compaction: of the records with one key, only the last stays. [`DirtySection`] decides the range
//! and the time, [`Cleaning`] does the work, and the writer puts the result in place
//! ([`crate::Writer::replace`]).
//!
//! Offsets never change: a batch keeps its first and last offset, its producer and its sequences,
//! whichever records are removed. A tombstone, and the marker of a transaction without remaining
//! records, stay for `delete.retention.ms` after the first compaction that finds them so; their
//! batch stores this time. Compaction uses only sealed segments below the last stable offset, so
//! the result of each of their transactions is known.

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

/// Called with each number of bytes read or written; may block to limit the rate, and ends the work
/// with `Break`.
pub type Throttle<'a> = &'a dyn Fn(u64) -> ControlFlow<()>;

/// The reason why a log was not compacted. The log is unchanged.
#[derive(Debug, Error)]
pub enum CleanError {
    /// The pace ended the work.
    #[error("compaction was stopped")]
    Stopped,
    /// Segments have left the log since the compaction began. Another compaction may succeed.
    #[error("retention or a truncation has removed segments during the compaction")]
    Overtaken,
    /// The disk failed, or its contents are not a log.
    #[error(transparent)]
    Log(#[from] LogError),
}

fn go_on(throttle: Throttle<'_>, bytes: u64) -> Result<(), CleanError> {
    match throttle(bytes) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CleanError::Stopped),
    }
}
