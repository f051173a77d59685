//! Waiters for the high watermark of a partition, such as produce requests with acks=all. Each
//! waiter is returned exactly once: when the high watermark has reached its offset, when the
//! leadership is lost, or when the waiter is cancelled.

use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// Identifies a waiter, for [`Commits::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitTicket {
    /// The high watermark that is waited for.
    offset: i64,
    number: u64,
}

/// The waiters of one partition, in the order of their offsets.
#[derive(Debug)]
pub struct Commits<W> {
    waiting: BTreeMap<CommitTicket, W>,
    last_number: u64,
}

impl<W> Default for Commits<W> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), last_number: 0 }
    }
}

impl<W> Commits<W> {
    /// Adds a waiter until the high watermark is at least `offset`.
    pub fn wait(&mut self, offset: i64, waiter: W) -> CommitTicket {
        self.last_number += 1;
        let ticket = CommitTicket { offset, number: self.last_number };
        let other = self.waiting.insert(ticket, waiter);
        debug_assert!(other.is_none(), "two waiters have the ticket {ticket:?}");
        ticket
    }

    /// Removes the waiters for this high watermark or a lower one.
    pub fn reached(&mut self, high_watermark: i64) -> impl Iterator<Item = W> + use<W> {
        let left = match high_watermark.checked_add(1) {
            Some(offset) => self.waiting.split_off(&CommitTicket { offset, number: 0 }),
            None => BTreeMap::new(),
        };
        let due = std::mem::replace(&mut self.waiting, left);
        debug_assert!(due.last_key_value().is_none_or(|(ticket, _)| ticket.offset <= high_watermark));
        debug_assert!(
            self.waiting.first_key_value().is_none_or(|(ticket, _)| ticket.offset > high_watermark)
        );
        due.into_values()
    }

    /// Removes all: the leadership is lost.
    pub fn lost(&mut self) -> impl Iterator<Item = W> + use<W> {
        std::mem::take(&mut self.waiting).into_values()
    }

    /// Removes one who no longer waits; `None` if the waiter was removed before.
    pub fn cancel(&mut self, ticket: CommitTicket) -> Option<W> {
        self.waiting.remove(&ticket)
    }

    /// Number of waiters.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if there is no waiter.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
