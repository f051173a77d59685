//! Counts of the events in histories.

/// Number of events of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) copies: usize,
    pub(super) deletions: usize,
    pub(super) crashes: usize,
    pub(super) elections: usize,
    pub(super) late: usize,
    pub(super) lost: usize,
    pub(super) refused: usize,
    pub(super) trimmed: usize,
    pub(super) raised: usize,
    pub(super) removals: usize,
    pub(super) cuts: usize,
}

impl Figures {
    pub(super) fn add(&mut self, other: Self) {
        let pairs = [
            (&mut self.copies, other.copies),
            (&mut self.deletions, other.deletions),
            (&mut self.crashes, other.crashes),
            (&mut self.elections, other.elections),
            (&mut self.late, other.late),
            (&mut self.lost, other.lost),
            (&mut self.refused, other.refused),
            (&mut self.trimmed, other.trimmed),
            (&mut self.raised, other.raised),
            (&mut self.removals, other.removals),
            (&mut self.cuts, other.cuts),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
    }

    pub(super) fn all(&self) -> [usize; 11] {
        let own = *self;
        let counts = [own.copies, own.deletions, own.crashes, own.elections, own.late];
        let more = [own.lost, own.refused, own.trimmed, own.raised, own.removals, own.cuts];
        std::array::from_fn(|at| if at < 5 { counts[at] } else { more[at - 5] })
    }
}
