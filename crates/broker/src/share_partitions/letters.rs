//! Dead letters of one entry that wait for the task that writes them.

use std::collections::VecDeque;
use std::sync::Arc;

use levada_coordination::share_partition::DeadLetter;

use super::counts::LetterCounts;
use super::entry::{Follow, ShareEntry};

/// Most dead letters of one round. Those of a round are abandoned together.
const ROUND_MAX: usize = 5_000;

/// Number of waiting dead letters above which dead letters of deleted records are no longer
/// written. No more records than this are in flight.
const WAITING_MAX: usize = 1 << 16;

/// Dead letters that wait.
#[derive(Default)]
pub(super) struct LetterQueue {
    waiting: VecDeque<DeadLetter>,
    /// True while a task writes.
    is_written: bool,
}

impl LetterQueue {
    /// Adds dead letters. The records below `start` are not in flight. Returns true if the caller
    /// must start a task that writes, and the number of records whose dead letters are abandoned
    /// for lack of memory.
    pub(super) fn push(&mut self, letters: Vec<DeadLetter>, start: i64) -> (bool, u64) {
        self.waiting.extend(letters);
        let mut lost = 0;
        if self.waiting.len() > WAITING_MAX {
            self.waiting.retain(|letter| {
                let is_kept = letter.last >= start;
                lost += if is_kept { 0 } else { letter.last.abs_diff(letter.first) + 1 };
                is_kept
            });
        }
        (!self.waiting.is_empty() && !std::mem::replace(&mut self.is_written, true), lost)
    }

    /// The next dead letters in the order of their offsets; none ends the task that writes.
    pub(super) fn next(&mut self) -> Option<Vec<DeadLetter>> {
        let mut round: Vec<_> = self.waiting.drain(..self.waiting.len().min(ROUND_MAX)).collect();
        round.sort_unstable_by_key(|letter| letter.first);
        self.is_written = !round.is_empty();
        self.is_written.then_some(round)
    }

    /// Withdraws all dead letters: the entry has ended.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// True if no dead letter is waiting or being written.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_written
    }

    /// Memory of the dead letters that wait, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.waiting.len() * size_of::<DeadLetter>()
    }
}

impl ShareEntry {
    /// The next dead letters to write.
    ///
    /// # Errors
    /// None waits, or the entry has ended: the task that writes them ends. True if the entry is to
    /// end as well.
    pub(crate) fn next_letters(&self) -> Result<Vec<DeadLetter>, bool> {
        let mut state = self.state.lock();
        if self.has_ended() {
            state.letters.clear();
        }
        state.letters.next().ok_or(state.is_retired)
    }

    /// Archives the records of dead letters that were written or abandoned.
    pub(crate) fn letters_done(self: &Arc<Self>, offsets: &[(i64, i64)]) -> Follow {
        let mut state = self.state.lock();
        let write = state.machine.dead_letters_done(offsets);
        let follow = Self::queue(&mut state, write, None);
        self.settle(&mut state);
        follow
    }

    /// Counts of dead letters of the group.
    pub(crate) fn letter_counts(&self) -> Arc<LetterCounts> {
        self.shared.counts.letters(self.group())
    }
}

#[cfg(test)]
mod tests {
    use levada_coordination::share_partition::DeadLetterReason;

    use super::*;

    fn letter(first: i64, last: i64) -> DeadLetter {
        DeadLetter { first, last, delivery_count: 1, reason: DeadLetterReason::Rejected }
    }

    #[test]
    fn one_task_writes_dead_letters_in_order() {
        let mut queue = LetterQueue::default();
        let starts = |queue: &mut LetterQueue, letters| queue.push(letters, 0).0;
        assert!(!starts(&mut queue, Vec::new()), "no task for nothing");
        assert!(starts(&mut queue, vec![letter(5, 9), letter(0, 0)]), "the first ones start a task");
        assert!(!starts(&mut queue, vec![letter(2, 3)]), "the task is under way");
        assert!(!queue.is_idle());
        assert_eq!(queue.bytes(), 3 * size_of::<DeadLetter>());
        assert_eq!(queue.next(), Some(vec![letter(0, 0), letter(2, 3), letter(5, 9)]));
        assert!(!starts(&mut queue, vec![letter(7, 7)]) && queue.next().is_some());
        assert!(queue.next().is_none() && queue.is_idle());
        assert!(starts(&mut queue, vec![letter(8, 8)]), "another task for later ones");
    }

    #[test]
    fn rounds_and_letters_of_lost_records_are_bounded() {
        let mut queue = LetterQueue::default();
        let many = |from: i64| (from..).take(WAITING_MAX).map(|offset| letter(offset, offset)).collect();
        queue.push(many(0), 100);
        assert_eq!(queue.waiting.len(), WAITING_MAX, "up to the bound, all are written");
        assert_eq!(queue.push(vec![letter(200_000, 200_000)], 60_000), (false, 60_000));
        assert_eq!(queue.waiting.len(), WAITING_MAX - 60_000 + 1);
        let round = queue.next().unwrap();
        assert_eq!((round.len(), round[0].first), (ROUND_MAX, 60_000));
        queue.clear();
        assert!(queue.next().is_none());
    }
}
