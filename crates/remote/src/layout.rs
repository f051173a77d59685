//! Layouts: names and contents of the objects of a segment.

pub(crate) mod aiven;
pub(crate) mod local;

use levada_base::{IdBytes, parse_id};
use levada_tiered::StoreLayout;
use levada_wire::Uuid;

/// An index of a remote segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Offsets and positions.
    Offset,
    /// Timestamps and offsets.
    Time,
    /// State of the producers at the end of the segment.
    ProducerSnapshot,
    /// Aborted transactions. The segment may have none.
    Transaction,
    /// Leader epochs up to the end of the segment.
    LeaderEpochs,
}

impl IndexKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Offset, Self::Time, Self::ProducerSnapshot, Self::Transaction, Self::LeaderEpochs];
}

/// Topic id and partition in the key of an object, without the store's prefix; none if it is not
/// named as one of a segment.
pub(crate) fn owner(layout: StoreLayout, key: &str) -> Option<(Uuid, i32)> {
    let id = |text: &str| parse_id(text).map(|id: IdBytes| Uuid::from_bytes(id));
    let (folder, file) = key.rsplit_once('/')?;
    let (stem, suffix) = file.rsplit_once('.')?;
    let (offset, segment) = stem.split_at_checked(20)?;
    let is_segment = offset.bytes().all(|byte| byte.is_ascii_digit())
        && segment.strip_prefix('-').and_then(parse_id).is_some()
        && !suffix.is_empty();
    if !is_segment {
        return None;
    }
    let (topic, partition) = match layout {
        StoreLayout::Aiven => folder.rsplit_once('/')?,
        StoreLayout::Local => {
            let at = folder.len().checked_sub(23)?;
            let (name, topic_id) = folder.split_at_checked(at)?;
            let partition = name.rsplit_once('-')?.1;
            return Some((id(topic_id.strip_prefix('-')?)?, partition.parse().ok()?));
        }
    };
    let at = topic.len().checked_sub(22)?;
    let (_, topic_id) = topic.split_at_checked(at)?;
    Some((id(topic_id)?, partition.parse().ok()?))
}
