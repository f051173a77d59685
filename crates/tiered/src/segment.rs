//! A remote segment: its identity, the facts that the metadata topic has about it, and its states.

use std::fmt;

use levada_base::id_text;
use levada_wire::Uuid;
use levada_wire::primitives::Bytes;

/// A leader epoch and the offset of its first record.
pub type EpochStart = (i32, i64);

/// Partition of a topic, with the id that distinguishes it from a former topic of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicIdPartition {
    /// Id of the topic.
    pub topic_id: Uuid,
    /// Name of the topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
}

impl fmt::Display for TopicIdPartition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{} ({})", self.topic, self.partition, id_text(self.topic_id.to_bytes()))
    }
}

/// Identity of a remote segment. Each attempt to copy a segment has a separate id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteSegmentId {
    /// Partition whose records the segment has.
    pub partition: TopicIdPartition,
    /// Id of this copy.
    pub id: Uuid,
}

impl fmt::Display for RemoteSegmentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", id_text(self.id.to_bytes()), self.partition)
    }
}

/// Facts of the metadata topic about a remote segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSegment {
    /// Identity of the segment.
    pub id: RemoteSegmentId,
    /// Offset of the first record.
    pub start_offset: i64,
    /// Offset of the last record, inclusive; never below `start_offset`.
    pub end_offset: i64,
    /// Highest timestamp of a record, in milliseconds since 1970; -1 without timestamps.
    pub max_timestamp_ms: i64,
    /// Broker that wrote the latest event about the segment.
    pub broker_id: i32,
    /// Time of that event, in milliseconds since 1970.
    pub event_timestamp_ms: i64,
    /// Length of the segment's `.log` file in bytes; never negative.
    pub size: i32,
    /// Leader epochs of the records and the offset of the first record of each in this segment, in
    /// ascending order; never empty.
    pub epochs: Vec<EpochStart>,
    /// Value that the remote store returned after the copy. Only the store interprets it.
    pub custom_metadata: Option<Bytes>,
    /// State of the segment.
    pub state: SegmentState,
    /// True if the segment has no transaction index.
    pub txn_index_empty: bool,
}

impl RemoteSegment {
    /// Returns the segment after an update. The update replaces the custom metadata too.
    pub fn updated(&self, update: &SegmentUpdate) -> Self {
        Self {
            broker_id: update.broker_id,
            event_timestamp_ms: update.event_timestamp_ms,
            custom_metadata: update.custom_metadata.clone(),
            state: update.state,
            ..self.clone()
        }
    }

    /// Last offset of the records of `epoch` in this segment, if no later epoch begins in it: the
    /// end of the segment.
    pub fn end_of_epoch(&self, epoch: i32) -> i64 {
        let next = self.epochs.iter().find(|(other, _)| *other > epoch);
        next.map_or(self.end_offset, |(_, start)| start.saturating_sub(1))
    }
}

/// State of a remote segment. The discriminants are Kafka's ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentState {
    /// A broker copies the segment; objects may be missing.
    CopyStarted = 0,
    /// The store has all objects of the segment: consumers may read it.
    CopyFinished = 1,
    /// A broker deletes the segment; objects may be missing.
    DeleteStarted = 2,
    /// The store has no object of the segment.
    DeleteFinished = 3,
}

impl SegmentState {
    /// The state with Kafka's id.
    pub fn from_id(id: i8) -> Option<Self> {
        Some(match id {
            0 => Self::CopyStarted,
            1 => Self::CopyFinished,
            2 => Self::DeleteStarted,
            3 => Self::DeleteFinished,
            _ => return None,
        })
    }

    /// Kafka's id of the state.
    pub fn id(self) -> i8 {
        self as i8
    }

    /// True if a segment may enter this state from `former` (none: an unknown segment). A repeated
    /// state is valid, because a broker repeats its events after a failure.
    pub fn may_follow(self, former: Option<Self>) -> bool {
        match (former, self) {
            (None, to) => to == Self::CopyStarted,
            (Some(from), to) if from == to => true,
            (Some(Self::CopyStarted), to) => matches!(to, Self::CopyFinished | Self::DeleteStarted),
            (Some(Self::CopyFinished), to) => to == Self::DeleteStarted,
            (Some(Self::DeleteStarted), to) => to == Self::DeleteFinished,
            (Some(Self::DeleteFinished), _) => false,
        }
    }
}

/// Event that changes the state of a remote segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentUpdate {
    /// Identity of the segment.
    pub id: RemoteSegmentId,
    /// Broker that wrote the event.
    pub broker_id: i32,
    /// Time of the event, in milliseconds since 1970.
    pub event_timestamp_ms: i64,
    /// Value that replaces the segment's custom metadata.
    pub custom_metadata: Option<Bytes>,
    /// State that the segment enters.
    pub state: SegmentState,
}

/// Event in the deletion of all remote segments of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDelete {
    /// The deleted partition.
    pub partition: TopicIdPartition,
    /// Broker that wrote the event.
    pub broker_id: i32,
    /// Time of the event, in milliseconds since 1970.
    pub event_timestamp_ms: i64,
    /// State that the deletion enters.
    pub state: PartitionDeleteState,
}

/// State of the deletion of a partition. The discriminants are Kafka's ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionDeleteState {
    /// The topic is deleted: the segments may be deleted.
    Marked = 0,
    /// A broker deletes the segments.
    Started = 1,
    /// All segments of the partition are deleted.
    Finished = 2,
}

impl PartitionDeleteState {
    /// The state with Kafka's id.
    pub fn from_id(id: i8) -> Option<Self> {
        Some(match id {
            0 => Self::Marked,
            1 => Self::Started,
            2 => Self::Finished,
            _ => return None,
        })
    }

    /// Kafka's id of the state.
    pub fn id(self) -> i8 {
        self as i8
    }

    /// True if a deletion may enter this state from `former` (none: no deletion). A repeated state
    /// is valid.
    pub fn may_follow(self, former: Option<Self>) -> bool {
        match (former, self) {
            (None, to) => to == Self::Marked,
            (Some(from), to) if from == to => true,
            (Some(Self::Marked), to) => to == Self::Started,
            (Some(Self::Started), to) => to == Self::Finished,
            (Some(Self::Finished), _) => false,
        }
    }
}

#[cfg(test)]
mod tests;
