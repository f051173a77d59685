//! What a life did, and when: enough to say what must be there, what may be, and what must not, whenever it ends.

use levada_wire::Uuid;

/// The changes between which something happened: none of it before the first, all of it before the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) began: usize,
    pub(super) acknowledged: usize,
}

impl Span {
    /// Whether it can be there at `moment`.
    pub(super) fn may_be(&self, moment: usize) -> bool {
        self.began <= moment
    }

    /// Whether somebody has been told before `moment` that it is there.
    pub(super) fn must_be(&self, moment: usize) -> bool {
        self.acknowledged <= moment
    }
}

/// Everything.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) topics: Vec<TopicFact>,
    /// Group, partition of the first topic, offset.
    pub(super) commits: Vec<(String, i32, i64, Span)>,
    /// What was asked for a transactional id, in order; a decision says which.
    pub(super) transactions: Vec<(String, Option<bool>, Span)>,
}

pub(super) struct TopicFact {
    pub(super) name: String,
    pub(super) id: Uuid,
    pub(super) compacted: bool,
    pub(super) created: Span,
    pub(super) deleted: Option<Span>,
    /// By partition count.
    pub(super) grown: Vec<(i32, Span)>,
    /// What `retention.ms` was set to.
    pub(super) configured: Vec<(String, Span)>,
    pub(super) batches: Vec<BatchFact>,
    /// Partition and first offset.
    pub(super) starts: Vec<(i32, i64, Span)>,
}

/// One batch; its records have one key, and values that no other batch has.
pub(super) struct BatchFact {
    pub(super) partition: i32,
    pub(super) base: i64,
    pub(super) last: i64,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) is_transactional: bool,
    pub(super) span: Span,
}
