//! Locks of acquired records: for each its member, and the time at which it expires.
//!
//! Records that one request acquires share a lease, so that a record that is tracked alone needs no
//! deadline and no member of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of a lease while runs of records refer to it; then free for another lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeaseId(u32);

impl LeaseId {
    /// The lease of records that are not locked.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// Lock of the records of one acquisition or renewal.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) member: Arc<str>,
    /// End of the lock by the monotonic clock.
    pub(super) deadline_ms: i64,
    /// Number of runs that refer to the lease.
    runs: u32,
}

/// All leases of a share partition. A lease ends with the last run that refers to it.
#[derive(Debug, Default)]
pub(super) struct Leases {
    slots: Vec<Option<Lease>>,
    free: Vec<u32>,
    /// Deadlines that have not been reported as due.
    deadlines: BTreeSet<(i64, LeaseId)>,
}

impl Leases {
    /// A lease without runs. The caller adds runs, or ends it by [`Leases::close_unused`].
    pub(super) fn open(&mut self, member: Arc<str>, deadline_ms: i64) -> LeaseId {
        let lease = Some(Lease { member, deadline_ms, runs: 0 });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = lease;
                slot
            }
            None => {
                self.slots.push(lease);
                (self.slots.len() - 1) as u32
            }
        };
        self.deadlines.insert((deadline_ms, LeaseId(slot)));
        LeaseId(slot)
    }

    /// Ends the lease if no run refers to it.
    pub(super) fn close_unused(&mut self, id: LeaseId) {
        let Some(lease) = self.lease(id) else { return };
        if lease.runs > 0 {
            return;
        }
        self.deadlines.remove(&(lease.deadline_ms, id));
        self.slots[id.0 as usize] = None;
        if self.free.len() + 1 == self.slots.len() {
            // No lease is left: nothing stays of a time with many.
            (self.slots, self.free) = (Vec::new(), Vec::new());
        } else {
            self.free.push(id.0);
        }
    }

    /// Counts another run of the lease.
    pub(super) fn add(&mut self, id: LeaseId) {
        if let Some(lease) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) {
            lease.runs += 1;
        }
    }

    /// Counts one run less, and ends the lease with the last one.
    pub(super) fn remove(&mut self, id: LeaseId) {
        if let Some(lease) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) {
            lease.runs = lease.runs.saturating_sub(1);
            self.close_unused(id);
        }
    }

    /// The lease with this number; none for [`LeaseId::NONE`].
    pub(super) fn lease(&self, id: LeaseId) -> Option<&Lease> {
        self.slots.get(id.0 as usize).and_then(Option::as_ref)
    }

    /// True if `member` holds the lease.
    pub(super) fn is_held_by(&self, id: LeaseId, member: &str) -> bool {
        self.lease(id).is_some_and(|lease| *lease.member == *member)
    }

    /// True if the lock has ended by `now_ms`.
    pub(super) fn has_ended(&self, id: LeaseId, now_ms: i64) -> bool {
        self.lease(id).is_none_or(|lease| lease.deadline_ms <= now_ms)
    }

    /// Leases of a member.
    pub(super) fn of_member(&self, member: &str) -> BTreeSet<LeaseId> {
        let ids = (0..self.slots.len() as u32).map(LeaseId);
        ids.filter(|id| self.is_held_by(*id, member)).collect()
    }

    /// The earliest deadline that has not been reported as due.
    pub(super) fn earliest_ms(&self) -> Option<i64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Leases whose lock has ended by `now_ms`. Each is returned once.
    pub(super) fn take_due(&mut self, now_ms: i64) -> BTreeSet<LeaseId> {
        let mut due = BTreeSet::new();
        while self.earliest_ms().is_some_and(|earliest_ms| earliest_ms <= now_ms) {
            due.extend(self.deadlines.pop_first().map(|(_, id)| id));
        }
        due
    }

    /// Number of leases.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
