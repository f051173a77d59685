//! A heap that takes items of equal order out as Java's `PriorityQueue` does.

use std::cmp::Ordering;

/// A binary heap, the least item first.
#[derive(Clone, Debug)]
pub(super) struct JavaQueue<T> {
    items: Vec<T>,
}

impl<T> Default for JavaQueue<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<T> JavaQueue<T> {
    /// Adds an item, as `PriorityQueue.add` of Java does.
    pub(super) fn push(&mut self, item: T, compare: impl Fn(&T, &T) -> Ordering) {
        self.items.push(item);
        let mut at = self.items.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if compare(&self.items[at], &self.items[parent]).is_ge() {
                break;
            }
            self.items.swap(at, parent);
            at = parent;
        }
    }

    /// Removes and returns the least item (`poll`).
    pub(super) fn pop(&mut self, compare: impl Fn(&T, &T) -> Ordering) -> Option<T> {
        let last = self.items.pop()?;
        let Some(first) = self.items.first_mut() else { return Some(last) };
        let least = std::mem::replace(first, last);
        let mut at = 0;
        while 2 * at + 1 < self.items.len() {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let is_right = right < self.items.len() && compare(&self.items[left], &self.items[right]).is_gt();
            let child = if is_right { right } else { left };
            if compare(&self.items[at], &self.items[child]).is_le() {
                break;
            }
            self.items.swap(at, child);
            at = child;
        }
        Some(least)
    }
}
