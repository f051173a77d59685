//! Writes of the share state, in two phases: a change is in memory, the share coordinator stores
//! it, and then the change is committed or rolled back.

use super::dead_letters::DeadLetter;
use super::leases::Leases;
use super::ledger::{DeadLetterReason, RecordState, Run};
use super::limits::ShareLimits;
use super::release::after_lock;
use super::{SharePartition, SharePhase};

/// The machine's number of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(pub u64);

/// State of neighbouring offsets in the form of share state records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverySpan {
    /// First offset.
    pub first: i64,
    /// Last offset, inclusive.
    pub last: i64,
    /// Number of the state ([`RecordState::id`]).
    pub state: i8,
    /// Number of times the records were acquired.
    pub delivery_count: i16,
}

/// Request to the share coordinator: WriteShareGroupState of one partition. The host reports the
/// result to [`SharePartition::written`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateWrite {
    /// Number with which the host reports the result.
    pub id: WriteId,
    /// Epoch of the share state, by which the coordinator refuses a former one.
    pub state_epoch: i32,
    /// Epoch of the leader, by which the coordinator refuses a former leader.
    pub leader_epoch: i32,
    /// Share-partition start offset.
    pub start_offset: i64,
    /// Number of offsets, from the start offset on, whose delivery is complete.
    pub delivery_complete_count: i32,
    /// States that have changed, in the order of their offsets.
    pub spans: Vec<DeliverySpan>,
}

/// Reason why the share coordinator has not stored a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// A later leader epoch or state epoch exists.
    Fenced,
    /// The group, the topic or the share state was deleted.
    Gone,
    /// The share coordinator is not available, or has refused the write for another reason.
    Unavailable,
}

/// Effects of the end of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// True if waiting fetches may be served: records have become available, or the start offset
    /// has moved.
    pub wakes_fetches: bool,
    /// Records that the host copies to the dead letter queue.
    pub dead_letters: Vec<DeadLetter>,
}

/// Number of the state of records that wait for their dead letters.
const ARCHIVING: i8 = RecordState::Archiving(DeadLetterReason::Rejected).id();

impl SharePartition {
    /// A write of these changes. Its end commits them if they are pending, and reports the records
    /// that wait for dead letters.
    pub(super) fn open_write(&mut self, spans: Vec<DeliverySpan>, is_pending: bool) -> StateWrite {
        let id = WriteId(self.next_write);
        self.next_write += 1;
        let mut waiting: Vec<(i64, i64)> = Vec::new();
        for span in spans.iter().filter(|span| is_pending || span.state == ARCHIVING) {
            match waiting.last_mut() {
                Some((_, last)) if last.saturating_add(1) == span.first => *last = span.last,
                _ => waiting.push((span.first, span.last)),
            }
        }
        self.writes.insert(id, waiting);
        StateWrite {
            id,
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start,
            delivery_complete_count: i32::try_from(self.ledger.complete()).unwrap_or(i32::MAX),
            spans,
        }
    }

    /// Handles the end of a write, at `now_ms` of the monotonic clock: commits its changes, or
    /// rolls them back. Records whose lock has ended in the meantime become available if the
    /// changes are rolled back. Ends the machine if the share coordinator has refused its epochs.
    /// Has no effect for an unknown write.
    pub fn written(
        &mut self,
        id: WriteId,
        result: Result<(), WriteFault>,
        limits: &ShareLimits,
        now_ms: i64,
    ) -> Written {
        let Some(waiting) = self.writes.remove(&id) else { return Written::default() };
        if matches!(result, Err(WriteFault::Fenced | WriteFault::Gone)) {
            self.phase = SharePhase::Fenced;
        }
        let mut written = Written::default();
        for (first, last) in waiting {
            self.ledger.change(first, last, |leases, first, run| {
                let ended = if run.is_pending { settle(leases, run, result, limits, now_ms) } else { run };
                written.wakes_fetches |= ended.is_free();
                written.dead_letters.extend(DeadLetter::of(first, &ended));
                run.is_pending.then_some(ended)
            });
        }
        written.wakes_fetches |= self.advance();
        written
    }
}

/// Updates a run at the end of the write of its change.
fn settle(
    leases: &Leases,
    run: Run,
    result: Result<(), WriteFault>,
    limits: &ShareLimits,
    now_ms: i64,
) -> Run {
    match result {
        Ok(()) => run.settled(run.state),
        Err(_) if leases.has_ended(run.lease, now_ms) => run.settled(after_lock(&run, limits)),
        Err(_) => Run { state: RecordState::Acquired, is_pending: false, ..run },
    }
}

/// Adds a run that has changed to the spans of a write.
pub(super) fn add_span(spans: &mut Vec<DeliverySpan>, first: i64, run: &Run) {
    let (state, delivery_count) = (run.state.id(), count_id(run.deliveries));
    match spans.last_mut() {
        Some(span)
            if span.last.saturating_add(1) == first
                && (span.state, span.delivery_count) == (state, delivery_count) =>
        {
            span.last = run.last;
        }
        _ => spans.push(DeliverySpan { first, last: run.last, state, delivery_count }),
    }
}

/// A delivery count in the form of records and responses.
pub(super) fn count_id(deliveries: u16) -> i16 {
    i16::try_from(deliveries).unwrap_or(i16::MAX)
}

/// A delivery count of a record or a response.
pub(super) fn delivery_count(count: i16) -> u16 {
    u16::try_from(count).unwrap_or(0)
}
