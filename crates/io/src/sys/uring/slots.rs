//! Ownership of memory that was given to the kernel: a state machine without system calls.
//!
//! Each operation has a slot, and the operation's *key* is the slot's index with the generation of
//! its use, so that a completion can never be taken for that of a later operation in the same slot.
//! Everything that the operation refers to stays in the slot until its last completion:
//!
//! ```text
//!            insert                result without F_MORE
//!  (free) ───────────► Submitted ──────────────────────────────────────────────► Done
//!                        │   │      result with F_MORE               notification
//!                        │   └──────────────────────────► Parked ──────────────► Released
//!                        │ notification                                   result
//!                        └──────────────────────────► Notified ───────► Parked, Released
//! ```
//!
//! A zero-copy send completes twice: with its result and, if that had `F_MORE`, with a notification
//! when the memory has no references any more. Errors are no exception: a failed send with `F_MORE`
//! is followed by its notification. Notifications of different sends come in any order.

/// The slots of one ring.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// An operation's key: unique among all present and past operations of the ring, up to 2³² uses of
/// one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64);

impl Key {
    /// The number that travels through the kernel.
    pub(crate) fn user_data(self) -> u64 {
        self.0
    }

    fn new(index: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    fn parts(user_data: u64) -> (usize, u32) {
        let low = user_data & u64::from(u32::MAX);
        let index = usize::try_from(low).unwrap_or(usize::MAX);
        (index, u32::try_from(user_data >> 32).unwrap_or(u32::MAX))
    }
}

/// Contents of a completion queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) user_data: u64,
    pub(crate) result: i32,
    /// `F_MORE`: a notification follows.
    pub(crate) more: bool,
    /// `F_NOTIF`: this is the notification.
    pub(crate) notification: bool,
}

/// Meaning of an entry for the operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// The operation has ended.
    Done { key: Key, result: i32, payload: T },
    /// The operation has its result; the kernel still refers to the payload.
    Parked { key: Key, result: i32 },
    /// The kernel refers to it no more. `usage` is the notification's result.
    Released { key: Key, usage: i32, payload: T },
    /// No operation of this ring is waiting for it.
    Stray,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Free,
    Submitted(T),
    Parked(T),
    Notified(T, i32),
}

impl<T> Slots<T> {
    /// A table for `capacity` simultaneous operations.
    pub(crate) fn new(capacity: u32) -> Self {
        let slots = (0..capacity).map(|_| Slot { generation: 0, state: State::Free }).collect();
        Self { slots, free: (0..capacity).rev().collect() }
    }

    /// Number of further operations that the table can accept.
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// Number of operations without their last completion.
    pub(crate) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Stores the memory and descriptors of an operation; returns them if the table is full.
    pub(crate) fn insert(&mut self, payload: T) -> Result<Key, T> {
        let Some(index) = self.free.pop() else { return Err(payload) };
        let slot = &mut self.slots[index as usize];
        assert!(matches!(slot.state, State::Free), "slot {index} is in use: its memory is the kernel's");
        slot.state = State::Submitted(payload);
        Ok(Key::new(index, slot.generation))
    }

    /// Resources of an operation, kept until its last completion.
    pub(crate) fn held(&mut self, key: Key) -> Option<&mut T> {
        let (index, generation) = Key::parts(key.0);
        let slot = self.slots.get_mut(index).filter(|slot| slot.generation == generation)?;
        match &mut slot.state {
            State::Submitted(payload) | State::Parked(payload) | State::Notified(payload, _) => Some(payload),
            State::Free => None,
        }
    }

    /// Processes one entry; it causes at most two steps, in the order in which they are reported.
    pub(crate) fn complete(&mut self, entry: Entry) -> [Option<Step<T>>; 2] {
        let (index, generation) = Key::parts(entry.user_data);
        let key = Key(entry.user_data);
        let result = entry.result;
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.generation == generation) else {
            return [Some(Step::Stray), None];
        };
        let steps = match (std::mem::replace(&mut slot.state, State::Free), entry.notification) {
            (State::Submitted(payload), false) if entry.more => {
                slot.state = State::Parked(payload);
                return [Some(Step::Parked { key, result }), None];
            }
            (State::Submitted(payload), true) => {
                slot.state = State::Notified(payload, result);
                return [None, None];
            }
            (State::Submitted(payload), false) => [Some(Step::Done { key, result, payload }), None],
            (State::Parked(payload), true) => [Some(Step::Released { key, usage: result, payload }), None],
            (State::Notified(payload, usage), false) => {
                let released = Step::Released { key, usage, payload };
                [Some(Step::Parked { key, result }), Some(released)]
            }
            (other, _) => {
                // A second result, a second notification, or an entry for a free slot: no operation
                // matches.
                slot.state = other;
                return [Some(Step::Stray), None];
            }
        };
        self.vacate(index);
        steps
    }

    /// Everything that is still in a slot.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        let states = self.slots.iter_mut().map(|slot| std::mem::replace(&mut slot.state, State::Free));
        states.filter_map(|state| match state {
            State::Free => None,
            State::Submitted(payload) | State::Parked(payload) | State::Notified(payload, _) => Some(payload),
        })
    }

    /// Frees a slot for the next use, under another generation.
    fn vacate(&mut self, index: usize) {
        assert!(matches!(self.slots[index].state, State::Free), "slot {index} still has its memory");
        self.slots[index].generation = self.slots[index].generation.wrapping_add(1);
        debug_assert!(self.free.len() < self.slots.len(), "slot {index} is given back twice");
        self.free.push(u32::try_from(index).expect("made from a u32"));
    }
}

#[cfg(test)]
mod tests;
