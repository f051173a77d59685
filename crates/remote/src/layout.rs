//! Layouts: names and contents of the objects of a segment.

pub(crate) mod aiven;
pub(crate) mod local;

use levada_base::{IdBytes, parse_id};
use levada_tiered::{RemoteSegmentId, StoreLayout, TopicIdPartition};
use levada_wire::Uuid;

/// An index of a remote segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Index from offsets to positions.
    Offset,
    /// Index from timestamps to offsets.
    Time,
    /// State of the producers at the end of the segment.
    ProducerSnapshot,
    /// Aborted transactions. The segment may have none.
    Transaction,
    /// Leader epochs up to the end of the segment.
    LeaderEpochs,
}

impl IndexKind {
    /// All kinds of indexes.
    pub const ALL: [Self; 5] =
        [Self::Offset, Self::Time, Self::ProducerSnapshot, Self::Transaction, Self::LeaderEpochs];
}

/// Parts of the key of a segment's object, without the store's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectName {
    /// Segment of the object.
    pub(crate) id: RemoteSegmentId,
    /// Offset of its first record.
    pub(crate) start_offset: i64,
    /// Text after the last dot.
    pub(crate) suffix: String,
}

/// Reads the key of an object, without the store's prefix; none if it is not named as one of a
/// segment.
pub(crate) fn object_name(layout: StoreLayout, key: &str) -> Option<ObjectName> {
    let id = |text: &str| parse_id(text).map(|id: IdBytes| Uuid::from_bytes(id));
    let (folder, file) = key.rsplit_once('/')?;
    let (stem, suffix) = file.rsplit_once('.')?;
    let (offset, segment) = stem.split_at_checked(20)?;
    if !offset.bytes().all(|byte| byte.is_ascii_digit()) || suffix.is_empty() {
        return None;
    }
    let segment = id(segment.strip_prefix('-')?)?;
    let (topic, topic_id, partition) = match layout {
        StoreLayout::Aiven => {
            let (topic, partition) = folder.rsplit_once('/')?;
            let (name, topic_id) = topic.split_at_checked(topic.len().checked_sub(23)?)?;
            (name, topic_id, partition)
        }
        StoreLayout::Local => {
            let (name, topic_id) = folder.split_at_checked(folder.len().checked_sub(23)?)?;
            let (name, partition) = name.rsplit_once('-')?;
            (name, topic_id, partition)
        }
    };
    let partition = TopicIdPartition {
        topic_id: id(topic_id.strip_prefix('-')?)?,
        topic: topic.to_owned(),
        partition: partition.parse().ok()?,
    };
    Some(ObjectName {
        id: RemoteSegmentId { partition, id: segment },
        start_offset: offset.parse().ok()?,
        suffix: suffix.to_owned(),
    })
}

#[cfg(test)]
mod tests;
