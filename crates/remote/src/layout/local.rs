//! The layout of Kafka's `LocalTieredStorage`: a directory a partition, five or six files a
//! segment.
//!
//! The files are `TOPIC-PARTITION-TOPICID/OFFSET-SEGMENTID.SUFFIX` below `kafka-tiered-storage`,
//! with ids of 22 characters and offsets of 20 digits. Each has the bytes of the broker's own file.
//! Without a transaction index its file is missing. See `docs/format/tiered-objects.md`.

use levada_base::id_text;
use levada_tiered::RemoteSegment;

use crate::layout::IndexKind;

/// Directory of the objects in the directory that `dir` of Kafka's configuration names.
pub(crate) const SUBDIRECTORY: &str = "kafka-tiered-storage";

/// Suffix of the object with the records, which is written last.
pub(crate) const LOG: &str = "log";

/// Key of the segment's records.
pub(crate) fn log_key(segment: &RemoteSegment) -> String {
    key(segment, LOG)
}

/// Key of an index of the segment.
pub(crate) fn index_key(segment: &RemoteSegment, kind: IndexKind) -> String {
    key(segment, suffix(kind))
}

/// Keys of all objects that the segment may have, the records first: a reader that finds the other
/// files finds them too.
pub(crate) fn all_keys(segment: &RemoteSegment) -> Vec<String> {
    let indexes = IndexKind::ALL.iter().map(|kind| index_key(segment, *kind));
    [log_key(segment)].into_iter().chain(indexes).collect()
}

fn suffix(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Offset => "index",
        IndexKind::Time => "timeindex",
        IndexKind::Transaction => "txnindex",
        IndexKind::ProducerSnapshot => "snapshot",
        IndexKind::LeaderEpochs => "leader_epoch_checkpoint",
    }
}

fn key(segment: &RemoteSegment, suffix: &str) -> String {
    let partition = &segment.id.partition;
    format!(
        "{}-{}-{}/{:020}-{}.{suffix}",
        partition.topic,
        partition.partition,
        id_text(partition.topic_id.to_bytes()),
        segment.start_offset,
        id_text(segment.id.id.to_bytes()),
    )
}
