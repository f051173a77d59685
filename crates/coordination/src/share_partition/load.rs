//! The state of a new machine, from the share state that the share coordinator has.

use super::dead_letters::DeadLetter;
use super::gap::GapWindow;
use super::ledger::{DeadLetterReason, RecordState, Run};
use super::limits::ShareLimits;
use super::write::{DeliverySpan, delivery_count};
use super::{SharePartition, SharePhase};

/// Share state of a partition, as ReadShareGroupState returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedState {
    /// Epoch of the share state.
    pub state_epoch: i32,
    /// Start offset. ReadShareGroupState returns -1 if the group has none yet: then the caller
    /// takes the offset that `share.auto.offset.reset` names.
    pub start_offset: i64,
    /// States by offset, in order and without overlaps.
    pub spans: Vec<DeliverySpan>,
}

/// Reason why a share state cannot be used. The machine is then [`SharePhase::Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The state was loaded, or the machine has ended.
    #[error("the share partition is {0:?} and does not wait for its state")]
    NotLoading(SharePhase),
    /// The start offset is negative.
    #[error("the share state has no start offset: {0}")]
    NoStartOffset(i64),
    /// A span begins below the start offset or before the end of the span before it, ends before it
    /// begins, or reaches the end of all offsets.
    #[error("the share state has a span of offsets that is not valid (first offset {0})")]
    Span(i64),
    /// The number is not that of a state.
    #[error("the share state has the unknown delivery state {0}")]
    State(i8),
}

impl SharePartition {
    /// Applies the state that the share coordinator has, and becomes [`SharePhase::Active`].
    /// Returns the records whose dead letters the previous leader may not have written.
    ///
    /// # Errors
    /// The state is not valid; the machine must be dropped.
    pub fn load(&mut self, state: &LoadedState, limits: &ShareLimits) -> Result<Vec<DeadLetter>, LoadError> {
        if self.phase != SharePhase::Loading {
            return Err(LoadError::NotLoading(self.phase));
        }
        self.phase = SharePhase::Failed;
        if state.start_offset < 0 {
            return Err(LoadError::NoStartOffset(state.start_offset));
        }
        (self.start, self.next) = (state.start_offset, state.start_offset);
        let mut gap_start = None;
        for span in &state.spans {
            if span.first < self.next || span.last < span.first || span.last == i64::MAX {
                return Err(LoadError::Span(span.first));
            }
            if span.first > self.next {
                gap_start = gap_start.or(Some(self.next));
            }
            let deliveries = delivery_count(span.delivery_count);
            let state = loaded_state(span.state, deliveries, limits)?;
            self.ledger.add_batch(span.first, span.last);
            self.ledger.add_run(span.first, Run::at_rest(span.last, state, deliveries));
            self.next = span.last + 1;
        }
        self.gap = gap_start.map(|start| GapWindow { start, end: self.next });
        self.state_epoch = state.state_epoch;
        self.phase = SharePhase::Active;
        self.advance();
        Ok(self.dead_letters())
    }
}

/// State of loaded records. Acquired records have lost their member with the previous leader.
fn loaded_state(id: i8, deliveries: u16, limits: &ShareLimits) -> Result<RecordState, LoadError> {
    match id {
        0 | 1 => Ok(RecordState::Available),
        2 => Ok(RecordState::Acknowledged),
        3 if !limits.dead_letters => Ok(RecordState::Archived),
        3 if deliveries >= limits.delivery_limit => {
            Ok(RecordState::Archiving(DeadLetterReason::AttemptsExhausted))
        }
        3 => Ok(RecordState::Archiving(DeadLetterReason::Rejected)),
        4 => Ok(RecordState::Archived),
        unknown => Err(LoadError::State(unknown)),
    }
}
