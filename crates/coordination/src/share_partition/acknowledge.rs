//! Acknowledgements: a member reports the result of each record that it has acquired. A request is
//! checked as a whole before the first change, so that a refused one needs no rollback.

use std::sync::Arc;

use super::dead_letters::refused;
use super::leases::LeaseId;
use super::ledger::{DeadLetterReason, RecordState, Run};
use super::limits::ShareLimits;
use super::release::after_lock;
use super::write::{StateWrite, add_span};
use super::{SharePartition, SharePhase};

/// Acknowledgement of neighbouring offsets. It may be a part of a tracked batch, or span several.
#[derive(Clone, Copy, Debug)]
pub struct AckBatch<'a> {
    /// First offset.
    pub first: i64,
    /// Last offset, inclusive.
    pub last: i64,
    /// Acknowledgement types, one for all offsets or one for each: 0 gap, 1 accept, 2 release, 3
    /// reject, 4 renew.
    pub types: &'a [i8],
}

/// Reason why an acknowledgement is refused. Nothing of the request has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AckError {
    /// The batches are not in order, have types that are not valid, or end past the tracked
    /// records.
    #[error("the acknowledgement is not valid")]
    InvalidRequest,
    /// A record is not locked, is locked for another member, or waits for the end of an earlier
    /// acknowledgement; or locks of the group cannot be renewed.
    #[error("the records are not in a state in which this member can acknowledge them")]
    InvalidRecordState,
    /// The share partition would need more entries than the limit.
    #[error("the share partition tracks too many records one by one")]
    TooManyEntries,
    /// The share partition is not loaded, or has ended.
    #[error("the share partition is not active")]
    NotActive,
}

/// Result of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckType {
    Gap,
    Accept,
    Release,
    Reject,
    Renew,
}

impl AckType {
    fn parse(id: i8) -> Result<Self, AckError> {
        match id {
            0 => Ok(Self::Gap),
            1 => Ok(Self::Accept),
            2 => Ok(Self::Release),
            3 => Ok(Self::Reject),
            4 => Ok(Self::Renew),
            _ => Err(AckError::InvalidRequest),
        }
    }

    /// State of an acquired run after the acknowledgement; none if the run stays acquired.
    fn outcome(self, run: &Run, limits: &ShareLimits) -> Option<RecordState> {
        match self {
            Self::Gap => Some(RecordState::Archived),
            Self::Accept => Some(RecordState::Acknowledged),
            Self::Release => Some(after_lock(run, limits)),
            Self::Reject => Some(refused(DeadLetterReason::Rejected, limits)),
            Self::Renew => None,
        }
    }
}

impl AckBatch<'_> {
    /// Checks the form of the batch; `before` is the last offset of the batch before it.
    fn check(&self, before: i64) -> Result<(), AckError> {
        let is_ordered = self.first >= before && self.first <= self.last && self.last < i64::MAX;
        let count = self.last.wrapping_sub(self.first).wrapping_add(1);
        let is_complete = self.types.len() == 1 || i64::try_from(self.types.len()) == Ok(count);
        if !is_ordered || !is_complete {
            return Err(AckError::InvalidRequest);
        }
        self.types.iter().try_for_each(|id| AckType::parse(*id).map(drop))
    }

    /// Types of the offsets from `first` to `last`, which are in the batch, as the last offset of
    /// each group of equal types.
    fn types(&self, first: i64, last: i64) -> impl Iterator<Item = (i64, i8)> {
        let whole = self.types.first().filter(|_| self.types.len() == 1).map(|id| (last, *id));
        let index = |offset: i64| usize::try_from(offset - self.first).unwrap_or(usize::MAX);
        let each = if whole.is_some() { None } else { self.types.get(index(first)..=index(last)) };
        let mut end = first - 1;
        let groups = each.unwrap_or_default().chunk_by(i8::eq).map(move |group| {
            end += group.len() as i64;
            (end, group[0])
        });
        whole.into_iter().chain(groups)
    }
}

/// Neighbouring offsets with the same result.
struct AckStep {
    first: i64,
    last: i64,
    kind: AckType,
}

/// Checked acknowledgements, and the maximum number of entries that they add.
#[derive(Default)]
struct AckPlan {
    steps: Vec<AckStep>,
    added: usize,
}

impl AckPlan {
    fn push(&mut self, first: i64, last: i64, kind: AckType) {
        match self.steps.last_mut() {
            Some(step) if step.kind == kind && step.last + 1 == first => step.last = last,
            _ => self.steps.push(AckStep { first, last, kind }),
        }
    }
}

impl SharePartition {
    /// Applies the acknowledgements of a member at `now_ms` of the monotonic clock. Offsets below
    /// the start offset have no effect. Returns the write that commits the changes; none if nothing
    /// needs a write.
    ///
    /// # Errors
    /// If any of the acknowledgements cannot be applied. Then none is.
    pub fn acknowledge(
        &mut self,
        member: &Arc<str>,
        batches: &[AckBatch<'_>],
        limits: &ShareLimits,
        now_ms: i64,
    ) -> Result<Option<StateWrite>, AckError> {
        if self.phase != SharePhase::Active {
            return Err(AckError::NotActive);
        }
        let plan = self.plan(member, batches, limits)?;
        if plan.added > 0 && self.ledger.run_count().saturating_add(plan.added) > limits.max_entries {
            return Err(AckError::TooManyEntries);
        }
        let renewed = if plan.steps.iter().any(|step| step.kind == AckType::Renew) {
            self.ledger.leases_mut().open(Arc::clone(member), limits.lock_end_ms(now_ms))
        } else {
            LeaseId::NONE
        };
        let mut spans = Vec::new();
        for step in plan.steps {
            self.ledger.change(step.first, step.last, |_, first, run| {
                let Some(state) = step.kind.outcome(&run, limits) else {
                    return Some(Run { lease: renewed, ..run });
                };
                let changed = Run { state, is_pending: true, ..run };
                add_span(&mut spans, first, &changed);
                Some(changed)
            });
        }
        Ok((!spans.is_empty()).then(|| self.open_write(spans, true)))
    }

    /// Checks all acknowledgements of a request.
    fn plan(
        &self,
        member: &str,
        batches: &[AckBatch<'_>],
        limits: &ShareLimits,
    ) -> Result<AckPlan, AckError> {
        let (mut plan, mut before) = (AckPlan::default(), -1);
        for batch in batches {
            batch.check(before)?;
            if batch.first == before {
                // The last record of the batch before would change twice.
                return Err(AckError::InvalidRecordState);
            }
            before = batch.last;
            if batch.last >= self.start {
                self.check_bounds(batch)?;
                self.plan_batch(&mut plan, member, batch, limits)?;
            }
        }
        Ok(plan)
    }

    /// Checks that the batch begins and ends at tracked records.
    fn check_bounds(&self, batch: &AckBatch<'_>) -> Result<(), AckError> {
        let begin = self.ledger.floor_batch(batch.first.max(self.start));
        let (_, end) = begin.and(self.ledger.floor_batch(batch.last)).ok_or(AckError::InvalidRecordState)?;
        if end < batch.first || end < batch.last { Err(AckError::InvalidRequest) } else { Ok(()) }
    }

    fn plan_batch(
        &self,
        plan: &mut AckPlan,
        member: &str,
        batch: &AckBatch<'_>,
        limits: &ShareLimits,
    ) -> Result<(), AckError> {
        let from = batch.first.max(self.start);
        for (begin, run) in self.ledger.runs(from, batch.last) {
            if !run.is_held() || !self.ledger.leases().is_held_by(run.lease, member) {
                return Err(AckError::InvalidRecordState);
            }
            let (mut first, last) = (begin.max(from), run.last.min(batch.last));
            plan.added += usize::from(first > begin) + usize::from(last < run.last);
            for (end, id) in batch.types(first, last) {
                let kind = AckType::parse(id)?;
                if kind == AckType::Renew && !limits.renew_enabled {
                    return Err(AckError::InvalidRecordState);
                }
                plan.push(first, end, kind);
                plan.added += usize::from(end < last);
                first = end + 1;
            }
        }
        Ok(())
    }
}
