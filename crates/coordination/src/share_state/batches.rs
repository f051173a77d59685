//! Delivery states of ranges of offsets, and the combination of two lists of them.

use std::collections::BinaryHeap;

use serde::Serialize;

/// Start offset of a partition whose start is not known yet, and of a write that does not change
/// the start.
pub const NO_START_OFFSET: i64 = -1;
/// Delivery states of records that are not delivered again.
const COMPLETE: [i8; 2] = [2, 4];

/// A range of offsets with one delivery state and one delivery count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StateBatch {
    /// Offset of the first record.
    pub first_offset: i64,
    /// Offset of the last record.
    pub last_offset: i64,
    /// 0 available, 2 acknowledged, 4 archived. The coordinator stores any number.
    pub delivery_state: i8,
    /// Number of deliveries.
    pub delivery_count: i16,
}

impl StateBatch {
    /// True if the range has offsets, and only offsets that a log can have.
    pub(super) fn is_range(&self) -> bool {
        (0..=self.last_offset).contains(&self.first_offset) && self.last_offset < i64::MAX
    }

    /// The part from an offset on; none if that is empty. Offset `i64::MAX` is in no range, so that
    /// each range has an end.
    fn since(self, start_offset: i64) -> Option<Self> {
        let first_offset = match start_offset {
            NO_START_OFFSET => self.first_offset,
            start_offset => self.first_offset.max(start_offset),
        };
        let last_offset = self.last_offset.min(i64::MAX - 1);
        (first_offset <= last_offset).then_some(Self { first_offset, last_offset, ..self })
    }

    /// True if the two have the same state and count.
    fn is_alike(&self, other: &Self) -> bool {
        (self.delivery_state, self.delivery_count) == (other.delivery_state, other.delivery_count)
    }
}

/// A sorted list of disjoint ranges, in which adjacent ranges differ in state or count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateBatches(Vec<StateBatch>);

impl StateBatches {
    /// The list that these ranges add up to, from `start_offset` on.
    pub fn of(added: &[StateBatch], start_offset: i64) -> Self {
        let mut batches = Self::default();
        batches.merge(added, start_offset);
        batches
    }

    /// The ranges.
    pub fn as_slice(&self) -> &[StateBatch] {
        &self.0
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Number of offsets that are acknowledged or archived.
    pub(super) fn complete(&self) -> i64 {
        let complete = self.0.iter().filter(|batch| COMPLETE.contains(&batch.delivery_state));
        complete.map(|batch| batch.last_offset - batch.first_offset + 1).sum()
    }

    /// True if there is no range.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops the offsets before `start_offset`, unless that is [`NO_START_OFFSET`], and adds
    /// ranges. An offset that is in several ranges gets the highest count, and of the states with
    /// that count the highest.
    pub fn merge(&mut self, added: &[StateBatch], start_offset: i64) {
        if start_offset != NO_START_OFFSET {
            self.prune(start_offset);
        }
        let mut parts: Vec<StateBatch> = Vec::with_capacity(added.len());
        parts.extend(added.iter().filter_map(|batch| batch.since(start_offset)));
        let Some(first_offset) = parts.iter().map(|batch| batch.first_offset).min() else { return };
        let last_offset = parts.iter().map(|batch| batch.last_offset).max().unwrap_or(first_offset);
        // The neighbours are in it: they may have the same state.
        let (before, after) = (first_offset.saturating_sub(1), last_offset.saturating_add(1));
        let from = self.0.partition_point(|batch| batch.last_offset < before);
        let to = self.0.partition_point(|batch| batch.first_offset <= after);
        parts.extend_from_slice(&self.0[from..to]);
        self.0.splice(from..to, flatten(parts));
    }

    fn prune(&mut self, start_offset: i64) {
        let gone = self.0.partition_point(|batch| batch.last_offset < start_offset);
        self.0.drain(..gone);
        if let Some(first) = self.0.first_mut() {
            first.first_offset = first.first_offset.max(start_offset);
        }
    }
}

/// The list that ranges add up to. None of them is empty or ends at `i64::MAX`.
fn flatten(mut parts: Vec<StateBatch>) -> Vec<StateBatch> {
    parts.sort_unstable_by_key(|batch| batch.first_offset);
    let mut flat = Vec::with_capacity(parts.len());
    let mut rest = parts.into_iter().peekable();
    // Ranges that begin at or before the offset: the one that decides comes first.
    let mut open: BinaryHeap<(i16, i8, i64)> = BinaryHeap::new();
    let mut offset = i64::MIN;
    loop {
        while open.peek().is_some_and(|(_, _, last_offset)| *last_offset < offset) {
            open.pop();
        }
        if open.is_empty()
            && let Some(next) = rest.peek()
        {
            offset = next.first_offset;
        }
        while let Some(next) = rest.next_if(|next| next.first_offset <= offset) {
            open.push((next.delivery_count, next.delivery_state, next.last_offset));
        }
        let Some(&(delivery_count, delivery_state, last_offset)) = open.peek() else { return flat };
        let last_offset = rest.peek().map_or(last_offset, |next| last_offset.min(next.first_offset - 1));
        append(&mut flat, StateBatch { first_offset: offset, last_offset, delivery_state, delivery_count });
        offset = last_offset + 1;
    }
}

/// Adds a range at the end.
fn append(flat: &mut Vec<StateBatch>, batch: StateBatch) {
    match flat.last_mut() {
        Some(last) if last.is_alike(&batch) && last.last_offset + 1 == batch.first_offset => {
            last.last_offset = batch.last_offset;
        }
        _ => flat.push(batch),
    }
}

#[cfg(test)]
pub(in crate::share_state) mod tests;
