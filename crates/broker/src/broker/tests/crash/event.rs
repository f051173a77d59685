//! Events of a life with their frequencies, and the proof that each really happened.

use std::collections::BTreeMap;
use std::path::Path;

use levada_log::crash_disk::Op;
use rand::RngExt;
use rand::rngs::StdRng;

use levada_metadata::store::METADATA_DIR;

/// An event in the history of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// One batch of an idempotent producer.
    Produce,
    /// The last batch of a producer comes once more.
    Retry,
    /// A transaction that ends well, with offsets committed in some of them.
    Commit,
    /// A transaction that is aborted.
    Abort,
    /// One whose end is left to what comes later.
    LeaveOpen,
    /// Committed offsets of a group.
    CommitOffset,
    /// Creation of a topic.
    Create,
    /// Deletion of a topic.
    Delete,
    /// A topic goes, and another one gets its name immediately.
    Recreate,
    /// Creation of one more partition of a topic.
    Grow,
    /// A topic's configuration changes.
    Configure,
    /// A round of housekeeping, that makes something durable.
    KeepHouse,
    /// One log is made durable, as `flush.ms` does it.
    Flush,
    /// Deletion of old segments.
    ExpireByAge,
    /// Segments go because there are too many.
    ExpireBySize,
    /// Deletion of records before an offset.
    DeleteRecords,
    /// Every log that needs it is compacted.
    Compact,
    /// A stop in good order, and a start.
    Restart,
    /// The process dies, the machine continues.
    Die,
}

impl Event {
    /// Every one. What is missing here is never drawn, which the compiler finds.
    pub(super) const ALL: [Self; 19] = [
        Self::Produce,
        Self::Retry,
        Self::Commit,
        Self::Abort,
        Self::LeaveOpen,
        Self::CommitOffset,
        Self::Create,
        Self::Delete,
        Self::Recreate,
        Self::Grow,
        Self::Configure,
        Self::KeepHouse,
        Self::Flush,
        Self::ExpireByAge,
        Self::ExpireBySize,
        Self::DeleteRecords,
        Self::Compact,
        Self::Restart,
        Self::Die,
    ];

    /// Relative frequency of the event: in a usual history, or in one with short segments.
    fn weight(self, is_short: bool) -> u32 {
        let (steady, short) = match self {
            Self::Produce => (45, 36),
            Self::Retry => (0, 3),
            Self::Commit => (6, 7),
            Self::Abort => (4, 5),
            Self::LeaveOpen => (2, 3),
            Self::CommitOffset => (12, 7),
            Self::Create => (3, 4),
            Self::Delete => (2, 2),
            Self::Recreate => (0, 3),
            Self::Grow => (2, 2),
            Self::Configure => (3, 2),
            Self::KeepHouse => (7, 7),
            Self::Flush => (0, 3),
            Self::ExpireByAge => (0, 4),
            Self::ExpireBySize => (0, 4),
            Self::DeleteRecords => (4, 4),
            Self::Compact => (4, 5),
            Self::Restart => (4, 3),
            Self::Die => (2, 3),
        };
        if is_short { short } else { steady }
    }

    /// Draws an event at random.
    pub(super) fn draw(is_short: bool, random: &mut StdRng) -> Self {
        let total = Self::ALL.iter().map(|event| event.weight(is_short)).sum();
        let mut rest = random.random_range(0..total);
        let chosen = Self::ALL.iter().find(|event| {
            let weight = event.weight(is_short);
            let is_it = rest < weight;
            rest = rest.saturating_sub(weight);
            is_it
        });
        *chosen.expect("the weights add up")
    }
}

/// The name of a state that a life should reach, and the test that recognises it by a change to
/// the disk.
type Sight = (&'static str, fn(&Op) -> bool);

/// Further sights among the changes on disk.
static SIGHTS: [Sight; 10] = [
    (
        "a segment was begun",
        |op| matches!(op, Op::Create { path, .. } if ends(path, ".log") && !ends(path, "00000000000000000000.log")),
    ),
    ("a segment was made ahead", |op| matches!(op, Op::Create { path, .. } if ends(path, "next.log.tmp"))),
    (
        "a segment that was made ahead was begun",
        |op| matches!(op, Op::Rename { from, .. } if ends(from, "next.log.tmp")),
    ),
    ("a segment was retired", |op| matches!(op, Op::Rename { to, .. } if ends(to, ".log.deleted"))),
    (
        "a compacted segment was put in place",
        |op| matches!(op, Op::Rename { from, .. } if ends(from, ".log.swap")),
    ),
    ("a transaction was aborted", |op| matches!(op, Op::Create { path, .. } if ends(path, ".txnindex"))),
    (
        "a snapshot of the metadata was put in place",
        |op| matches!(op, Op::Rename { to, .. } if ends(to, ".checkpoint") && is_metadata(to)),
    ),
    (
        "a snapshot of the metadata was removed",
        |op| matches!(op, Op::Remove { path } if ends(path, ".checkpoint") && is_metadata(path)),
    ),
    (
        "the metadata log was shortened",
        |op| matches!(op, Op::Remove { path } if ends(path, ".log") && is_metadata(path)),
    ),
    ("a directory was doomed", |op| matches!(op, Op::Rename { to, .. } if ends(to, "-delete"))),
];

fn is_metadata(path: &Path) -> bool {
    path.parent().is_some_and(|dir| dir.ends_with(METADATA_DIR))
}

fn ends(path: &Path, suffix: &str) -> bool {
    path.to_str().is_some_and(|path| path.ends_with(suffix))
}

/// Counts of events that had an effect, and of sights on disk.
#[derive(Debug, Default)]
pub(super) struct Happened {
    events: BTreeMap<Event, usize>,
    sights: BTreeMap<&'static str, usize>,
}

impl Happened {
    /// Notes that an event had an effect.
    pub(super) fn note(&mut self, event: Event) {
        *self.events.entry(event).or_default() += 1;
    }

    /// Looks at what a life did to its disk.
    pub(super) fn see(&mut self, ops: &[Op]) {
        for (name, is_it) in SIGHTS {
            *self.sights.entry(name).or_default() += ops.iter().filter(|op| is_it(op)).count();
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        other.events.iter().for_each(|(event, count)| *self.events.entry(*event).or_default() += count);
        other.sights.iter().for_each(|(sight, count)| *self.sights.entry(*sight).or_default() += count);
    }

    /// Events that should have happened in lives with short segments, and did not.
    pub(super) fn missing(&self) -> Vec<String> {
        let never = |count: Option<&usize>| count.is_none_or(|count| *count == 0);
        let events = Event::ALL.iter().filter(|event| never(self.events.get(*event)));
        let sights = SIGHTS.iter().filter(|(name, _)| never(self.sights.get(name)));
        events.map(|event| format!("{event:?}")).chain(sights.map(|(name, _)| (*name).to_owned())).collect()
    }
}
