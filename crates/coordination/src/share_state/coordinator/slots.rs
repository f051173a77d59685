//! The keys of a coordinator: the stored state of each, the draft of its next one, and the
//! operations that wait for it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::Place;
use crate::share_state::key::ShareKey;
use crate::share_state::records::Update;
use crate::share_state::request::Operation;
use crate::share_state::share::Share;

/// The keys. A key without stored state, draft and waiters is not there.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: BTreeMap<ShareKey, Slot>,
    /// Number of state batches of stored states and of drafts.
    batches: usize,
    /// Number of waiting operations and their state batches.
    waiting: usize,
}

#[derive(Debug, Default)]
struct Slot {
    stored: Option<Share>,
    draft: Option<Box<Draft>>,
    waiting: VecDeque<Waiter>,
    /// True if the topic did not exist at the last scan.
    is_orphan: bool,
}

/// The state of a key after the records that are on their way to the log.
#[derive(Debug)]
pub(super) struct Draft {
    /// The state; none if the key is removed.
    pub(super) share: Option<Share>,
    /// Position of the key's last snapshot among the records of the append, if it has one there.
    pub(super) snapshot_at: Option<usize>,
    /// Position of the key's last tombstone among the records of the append, if it has one there.
    pub(super) removed_at: Option<usize>,
    /// True if the host is appending the records: operations on the key wait.
    is_sent: bool,
}

/// An operation that waits for the records of its key.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) place: Place,
    pub(super) operation: Operation,
}

impl Slots {
    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of state batches, including those of drafts.
    pub(super) fn batches(&self) -> usize {
        self.batches
    }

    /// Number of waiting operations and of their state batches.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// True if records of the key are on their way to the log.
    pub(super) fn is_busy(&self, key: &ShareKey) -> bool {
        self.slots.get(key).is_some_and(Slot::is_busy)
    }

    /// True if the key has a draft whose append takes more records.
    pub(super) fn is_drafted(&self, key: &ShareKey) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.draft.as_ref().is_some_and(|draft| !draft.is_sent))
    }

    /// The state of a key by the log.
    pub(super) fn stored(&self, key: &ShareKey) -> Option<&Share> {
        self.slots.get(key)?.stored.as_ref()
    }

    /// The state of a key on which the next operation is decided.
    pub(super) fn latest(&self, key: &ShareKey) -> Option<&Share> {
        let slot = self.slots.get(key)?;
        slot.draft.as_ref().map_or(slot.stored.as_ref(), |draft| draft.share.as_ref())
    }

    /// The states by the log, in the order of the keys.
    pub(super) fn all_stored(&self) -> impl Iterator<Item = (&ShareKey, &Share)> {
        self.slots.iter().filter_map(|(key, slot)| Some((key, slot.stored.as_ref()?)))
    }

    /// The first keys after `last`, or of all, that have a state.
    pub(super) fn keys_after(&self, last: Option<&ShareKey>, most: usize) -> Vec<ShareKey> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let slots = self.slots.range((from, Bound::Unbounded)).filter(|(_, slot)| slot.stored.is_some());
        slots.map(|(key, _)| key.clone()).take(most).collect()
    }

    /// Drafts the next state of a key. The draft becomes the latest state; `change` modifies it and
    /// records the position of the record.
    pub(super) fn draft(&mut self, key: &ShareKey, change: impl FnOnce(&mut Draft)) {
        let slot = self.slots.entry(key.clone()).or_default();
        if slot.draft.is_none() {
            let share = slot.stored.clone();
            self.batches += batches(share.as_ref());
            let draft = Draft { share, snapshot_at: None, removed_at: None, is_sent: false };
            slot.draft = Some(Box::new(draft));
        }
        let Some(draft) = &mut slot.draft else { return };
        self.batches -= batches(draft.share.as_ref());
        change(draft);
        self.batches += batches(draft.share.as_ref());
    }

    /// Records that the host has the records of a draft.
    pub(super) fn sent(&mut self, key: &ShareKey) {
        if let Some(draft) = self.slots.get_mut(key).and_then(|slot| slot.draft.as_mut()) {
            draft.is_sent = true;
        }
    }

    /// Removes and returns the draft of a key; its records are in the log, or never will be.
    pub(super) fn take_draft(&mut self, key: &ShareKey) -> Option<Draft> {
        let draft = *self.slots.get_mut(key)?.draft.take()?;
        self.batches -= batches(draft.share.as_ref());
        self.tidy(key);
        Some(draft)
    }

    /// Replaces the stored state of a key; returns the offset of the first record that the former
    /// one needed.
    pub(super) fn store(&mut self, key: &ShareKey, next: Option<Share>) -> Option<i64> {
        self.batches += batches(next.as_ref());
        let slot = self.slots.entry(key.clone()).or_default();
        let before = std::mem::replace(&mut slot.stored, next);
        self.batches -= batches(before.as_ref());
        self.tidy(key);
        before.map(|share| share.floor)
    }

    /// Changes the stored state of a key by an update.
    pub(super) fn update(&mut self, key: &ShareKey, update: &Update) {
        if let Some(share) = self.slots.get_mut(key).and_then(|slot| slot.stored.as_mut()) {
            self.batches -= share.batches.len();
            share.update(update);
            self.batches += share.batches.len();
        }
    }

    /// Queues an operation that waits for the records of its key.
    pub(super) fn wait(&mut self, key: &ShareKey, waiter: Waiter) {
        self.waiting += waiter.operation.weight();
        self.slots.entry(key.clone()).or_default().waiting.push_back(waiter);
    }

    /// The operation that has waited longest for a key; none if it must wait longer.
    pub(super) fn next_waiter(&mut self, key: &ShareKey) -> Option<Waiter> {
        let slot = self.slots.get_mut(key)?;
        if slot.is_busy() {
            return None;
        }
        let waiter = slot.waiting.pop_front()?;
        self.waiting -= waiter.operation.weight();
        if slot.waiting.is_empty() {
            // A queue that was long once takes no memory.
            slot.waiting = VecDeque::new();
        }
        self.tidy(key);
        Some(waiter)
    }

    /// Notes if the topic of a key is missing; returns true if it was missing before too.
    pub(super) fn mark_orphan(&mut self, key: &ShareKey, is_orphan: bool) -> bool {
        let Some(slot) = self.slots.get_mut(key) else { return false };
        std::mem::replace(&mut slot.is_orphan, is_orphan) && is_orphan
    }

    /// Drops a key without state, drafts and waiters.
    fn tidy(&mut self, key: &ShareKey) {
        if self.slots.get(key).is_some_and(Slot::is_empty) {
            self.slots.remove(key);
        }
    }
}

impl Slot {
    fn is_busy(&self) -> bool {
        self.draft.as_ref().is_some_and(|draft| draft.is_sent)
    }

    fn is_empty(&self) -> bool {
        self.stored.is_none() && self.draft.is_none() && self.waiting.is_empty()
    }
}

fn batches(share: Option<&Share>) -> usize {
    share.map_or(0, |share| share.batches.len())
}
