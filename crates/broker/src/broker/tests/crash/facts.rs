//! The events of a life with their times: enough to say what must be there, what may be, and what
//! must not, whenever it ends.

use levada_wire::Uuid;

use super::event::Happened;

/// The changes between which something happened: none of it before the first, all of it before the
/// second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) began: usize,
    pub(super) acknowledged: usize,
}

impl Span {
    /// True if it can be there at `moment`.
    pub(super) fn may_be(&self, moment: usize) -> bool {
        self.began <= moment
    }

    /// True if its existence was acknowledged by `moment`.
    pub(super) fn must_be(&self, moment: usize) -> bool {
        self.acknowledged <= moment
    }
}

/// Everything that the history has done, to be compared with a recovered broker.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) topics: Vec<TopicFact>,
    /// Group, partition of the first topic, offset.
    pub(super) commits: Vec<(String, i32, i64, Span)>,
    /// Offsets that transactions proposed for partition 0, committed or not: group, offset, and the
    /// time from which the log may contain the commit.
    pub(super) proposed: Vec<(String, i64, usize)>,
    /// Requests for a transactional id, in order; a decision says which.
    pub(super) transactions: Vec<(String, Option<bool>, Span)>,
    /// The end of each transaction, by its number; `None` if no client ended it: then the
    /// coordinator aborts it at some time.
    pub(super) ends: Vec<Option<(bool, Span)>>,
    pub(super) happened: Happened,
}

impl Facts {
    /// True if what a batch says counts at `moment`: not if its transaction was not to be committed
    /// by then.
    pub(super) fn may_count(&self, batch: &BatchFact, moment: usize) -> bool {
        self.counts(batch, |span| span.may_be(moment))
    }

    /// True if the batch and the commit of its transaction were acknowledged by `moment`.
    pub(super) fn must_count(&self, batch: &BatchFact, moment: usize) -> bool {
        self.counts(batch, |span| span.must_be(moment))
    }

    fn counts(&self, batch: &BatchFact, is_so: impl Fn(&Span) -> bool) -> bool {
        let ended = |number: usize| matches!(&self.ends[number], Some((true, span)) if is_so(span));
        is_so(&batch.span) && batch.transaction.is_none_or(ended)
    }
}

/// A topic's `cleanup.policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Delete,
    Compact,
    Both,
}

impl Policy {
    pub(super) fn deletes(self) -> bool {
        self != Self::Compact
    }

    pub(super) fn compacts(self) -> bool {
        self != Self::Delete
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Compact => "compact",
            Self::Both => "compact,delete",
        }
    }
}

pub(super) struct TopicFact {
    pub(super) name: String,
    pub(super) id: Uuid,
    pub(super) policy: Policy,
    pub(super) created: Span,
    pub(super) deleted: Option<Span>,
    /// Growth of the topic: number of partitions, and the time of the change.
    pub(super) grown: Vec<(i32, Span)>,
    /// Values that keys were set to.
    pub(super) configured: Vec<(&'static str, String, Span)>,
    pub(super) batches: Vec<BatchFact>,
    /// Moved log starts: partition, first offset, and the time of the change.
    pub(super) starts: Vec<(i32, i64, Span)>,
    /// Partition, first offset, and from when on a checkpoint has it.
    pub(super) kept_starts: Vec<(i32, i64, usize)>,
    /// Partition, offset, and from when on all before it is on the device.
    pub(super) flushed: Vec<(i32, i64, usize)>,
}

impl TopicFact {
    /// The offset before which everything in a partition was on the device at `moment`.
    pub(super) fn flushed_to(&self, partition: i32, moment: usize) -> i64 {
        highest(&self.flushed, partition, moment)
    }

    /// Start of a partition by the last checkpoint.
    pub(super) fn kept_start(&self, partition: i32, moment: usize) -> i64 {
        highest(&self.kept_starts, partition, moment)
    }
}

fn highest(marks: &[(i32, i64, usize)], partition: i32, moment: usize) -> i64 {
    let here = marks.iter().filter(|(index, _, since)| *index == partition && *since <= moment);
    here.map(|(_, offset, _)| *offset).max().unwrap_or(0)
}

/// One batch; its records have one key, and values that no other batch has, or none.
pub(super) struct BatchFact {
    pub(super) partition: i32,
    pub(super) base: i64,
    pub(super) last: i64,
    pub(super) key: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
    /// Producer id and epoch.
    pub(super) producer: (i64, i16),
    /// The sequence number of its last record.
    pub(super) last_sequence: i32,
    /// The number of its transaction.
    pub(super) transaction: Option<usize>,
    pub(super) span: Span,
}
