//! Gaps of a loaded share state: offsets that were acquired under the previous leader and never
//! acknowledged. They are fetched before new records.

use super::SharePartition;

/// Range of offsets that may have gaps: offsets without a tracked batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct GapWindow {
    /// Earlier gaps have been fetched, or have no records.
    pub(super) start: i64,
    /// First offset past the loaded state.
    pub(super) end: i64,
}

impl SharePartition {
    /// First offset of the window that no batch has; none if all gaps have been fetched.
    pub(super) fn first_gap(&mut self) -> Option<i64> {
        let mut offset = self.gap?.start;
        if let Some((_, last)) = self.ledger.floor_batch(offset).filter(|(_, last)| *last >= offset) {
            offset = last.saturating_add(1);
        }
        while let Some((_, last)) = self.ledger.next_batch(offset, offset) {
            offset = last.saturating_add(1);
        }
        self.raise_gap(offset);
        self.gap.map(|gap| gap.start)
    }

    /// Notes that gaps below an offset have been fetched, or have no records.
    pub(super) fn raise_gap(&mut self, offset: i64) {
        let raised = self.gap.map(|gap| GapWindow { start: gap.start.max(offset), ..gap });
        self.gap = raised.filter(|gap| gap.start < gap.end);
    }
}
