//! Records on their way to the dead letter queue (KIP-1191): refused for good, and not archived
//! before the host has written their dead letters.

use super::ledger::{DeadLetterReason, RecordState, Run};
use super::limits::ShareLimits;
use super::write::{StateWrite, add_span, count_id};
use super::{SharePartition, SharePhase};

/// Neighbouring records that the host copies to the dead letter queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// First offset.
    pub first: i64,
    /// Last offset, inclusive.
    pub last: i64,
    /// Number of times the records were acquired.
    pub delivery_count: i16,
    /// Reason for the dead letter.
    pub reason: DeadLetterReason,
}

impl DeadLetter {
    /// The dead letters of a run; none if the run needs none, or if its state is not stored yet.
    pub(super) fn of(first: i64, run: &Run) -> Option<Self> {
        match run.state {
            RecordState::Archiving(reason) if !run.is_pending => {
                Some(Self { first, last: run.last, delivery_count: count_id(run.deliveries), reason })
            }
            _ => None,
        }
    }
}

impl SharePartition {
    /// All records that wait for their dead letters.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.ledger
            .runs(self.start, i64::MAX)
            .filter_map(|(first, run)| DeadLetter::of(first, &run))
            .collect()
    }

    /// Archives the records with these offsets (pairs of first and last), whose dead letters are
    /// written or were abandoned. This happens immediately: if the write of the share state fails,
    /// a later leader writes the dead letters again.
    pub fn dead_letters_done(&mut self, offsets: &[(i64, i64)]) -> Option<StateWrite> {
        if self.phase != SharePhase::Active {
            return None;
        }
        let mut spans = Vec::new();
        for (first, last) in offsets {
            self.ledger.change(*first, *last, |_, first, run| {
                DeadLetter::of(first, &run)?;
                let archived = run.settled(RecordState::Archived);
                add_span(&mut spans, first, &archived);
                Some(archived)
            });
        }
        (!spans.is_empty()).then(|| self.open_write(spans, false))
    }
}

/// State of records that a member has refused for good, or that were delivered too often.
pub(super) fn refused(reason: DeadLetterReason, limits: &ShareLimits) -> RecordState {
    if limits.dead_letters { RecordState::Archiving(reason) } else { RecordState::Archived }
}
