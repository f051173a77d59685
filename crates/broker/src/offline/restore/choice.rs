//! The segments of a store that form one log: one history of leader epochs, without gaps.

use std::collections::BTreeMap;

use levada_log::TieredState;
use levada_metadata::controller::{check_topic_name, is_internal};
use levada_remote::{IndexKind, RemoteError, Store};
use levada_tiered::lineage::{within_lineage, without_empty_epochs};
use levada_tiered::record::METADATA_TOPIC;
use levada_tiered::{RemoteSegment, TopicIdPartition};
use levada_wire::Uuid;

use super::describe::Described;
use super::{LeftOut, RestoredPartition, RestoredTopic};

/// The segments of one log.
struct Chosen {
    segments: Vec<RemoteSegment>,
    lineage: Vec<(i32, i64)>,
}

/// The topics of described segments. Reads the producers at the end of each partition.
pub(super) fn topics(
    store: &Store,
    described: Vec<Described>,
    left_out: &mut Vec<LeftOut>,
) -> Result<Vec<RestoredTopic>, RemoteError> {
    let mut partitions: BTreeMap<TopicIdPartition, Vec<Described>> = BTreeMap::new();
    for one in described {
        partitions.entry(one.segment.id.partition.clone()).or_default().push(one);
    }
    let newest = newest_ids(&partitions);
    let mut topics: BTreeMap<String, RestoredTopic> = BTreeMap::new();
    for (name, segments) in partitions {
        if let Some(reason) = unfit(&name, &newest) {
            left_out.push(LeftOut::new(format!("partition {name}"), reason));
            continue;
        }
        let chosen = choose(segments, left_out);
        let Some(last) = chosen.segments.last() else { continue };
        let producers = store.fetch_index(last, IndexKind::ProducerSnapshot)?.unwrap_or_default();
        let (log_start, local_start) = (chosen.segments[0].start_offset, last.end_offset + 1);
        let epochs = within(&chosen.lineage, log_start);
        let state = TieredState { log_start, local_start, epochs, producers };
        let fresh = || RestoredTopic { name: name.topic.clone(), id: name.topic_id, partitions: Vec::new() };
        let topic = topics.entry(name.topic.clone()).or_insert_with(fresh);
        topic.partitions.push(RestoredPartition { index: name.partition, segments: chosen.segments, state });
    }
    Ok(topics.into_values().collect())
}

/// For each name of a topic, the id of the topic with the newest records.
fn newest_ids(partitions: &BTreeMap<TopicIdPartition, Vec<Described>>) -> BTreeMap<String, (i64, Uuid)> {
    let mut newest: BTreeMap<String, (i64, Uuid)> = BTreeMap::new();
    for (name, segments) in partitions {
        let newest_ms = segments.iter().map(|one| one.segment.max_timestamp_ms).max().unwrap_or(-1);
        let entry = newest.entry(name.topic.clone()).or_insert((newest_ms, name.topic_id));
        *entry = (*entry).max((newest_ms, name.topic_id));
    }
    newest
}

/// The reason why a partition cannot be restored.
fn unfit(name: &TopicIdPartition, newest: &BTreeMap<String, (i64, Uuid)>) -> Option<String> {
    let topic = &name.topic;
    if let Err(refusal) = check_topic_name(topic) {
        return Some(refusal.message.unwrap_or_default().into_owned());
    }
    if is_internal(topic) || topic == METADATA_TOPIC {
        return Some("the topic belongs to the brokers, which do not copy it".to_owned());
    }
    if name.partition < 0 || name.partition >= PARTITIONS_MAX {
        return Some(format!("the number of the partition is not between 0 and {}", PARTITIONS_MAX - 1));
    }
    let is_newest = newest.get(topic).is_some_and(|(_, id)| *id == name.topic_id);
    (!is_newest).then(|| "a topic of the same name with another id has newer records".to_owned())
}

/// Bound of the partitions of a restored topic: a name in the store must not make the broker create
/// billions.
const PARTITIONS_MAX: i32 = 10_000;

/// The history up to the end of the newest segment, and the segments of it after its last gap.
fn choose(described: Vec<Described>, left_out: &mut Vec<LeftOut>) -> Chosen {
    let rank =
        |one: &Described| (one.segment.epochs.last().map_or(-1, |(epoch, _)| *epoch), one.segment.end_offset);
    let Some(newest) = described.iter().max_by_key(|one| rank(one)) else {
        return Chosen { segments: Vec::new(), lineage: Vec::new() };
    };
    let log_end = newest.segment.end_offset + 1;
    let begun = newest.lineage.iter().filter(|(_, start)| *start < log_end);
    let lineage = without_empty_epochs(&begun.copied().collect::<Vec<_>>());
    let mut segments: Vec<RemoteSegment> = described.into_iter().map(|one| one.segment).collect();
    let out = |segment: &RemoteSegment, reason: &str| LeftOut::at(&segment.id, segment.start_offset, reason);
    segments.retain(|segment| {
        let is_within = within_lineage(segment, log_end, &lineage);
        if !is_within {
            left_out.push(out(segment, "a later leader has discarded its records"));
        }
        is_within
    });
    // Of copies with the same beginning, the longest comes first.
    segments.sort_by_key(|segment| (segment.start_offset, -segment.end_offset));
    let mut chain: Vec<RemoteSegment> = Vec::new();
    for segment in segments {
        match chain.last().map(|last| last.end_offset) {
            Some(end) if segment.end_offset <= end => {
                left_out.push(out(&segment, "another segment has the same records"));
            }
            Some(end) if segment.start_offset > end + 1 => {
                let gap = format!("offsets {} to {} after it are missing", end + 1, segment.start_offset - 1);
                left_out.extend(chain.drain(..).map(|before| out(&before, &gap)));
                chain.push(segment);
            }
            _ => chain.push(segment),
        }
    }
    Chosen { segments: chain, lineage }
}

/// The epochs of the records from `log_start` on.
fn within(lineage: &[(i32, i64)], log_start: i64) -> Vec<(i32, i64)> {
    let first = lineage.partition_point(|(_, start)| *start <= log_start).saturating_sub(1);
    lineage[first..].iter().map(|(epoch, start)| (*epoch, (*start).max(log_start))).collect()
}

#[cfg(test)]
mod tests {
    //! Choices among segments.

    use levada_tiered::{RemoteSegmentId, SegmentState};

    use super::*;

    fn segment(offsets: (i64, i64), lineage: &[(i32, i64)]) -> Described {
        let partition = TopicIdPartition { topic: "t".to_owned(), ..TopicIdPartition::default() };
        let (start_offset, end_offset) = offsets;
        let lineage: Vec<(i32, i64)> =
            lineage.iter().filter(|(_, start)| *start <= end_offset).copied().collect();
        let segment = RemoteSegment {
            id: RemoteSegmentId { partition, id: Uuid::from_bytes([start_offset as u8; 16]) },
            start_offset,
            end_offset,
            max_timestamp_ms: 0,
            broker_id: 1,
            event_timestamp_ms: 0,
            size: 7,
            epochs: within(&lineage, start_offset),
            custom_metadata: None,
            state: SegmentState::CopyStarted,
            txn_index_empty: true,
        };
        Described { segment, lineage }
    }

    fn chosen(described: Vec<Described>) -> (Vec<(i64, i64)>, Vec<String>) {
        let mut left_out = Vec::new();
        let chosen = choose(described, &mut left_out);
        let offsets = chosen.segments.iter().map(|segment| (segment.start_offset, segment.end_offset));
        (offsets.collect(), left_out.into_iter().map(|left| left.reason).collect())
    }

    #[test]
    fn overlapping_segments_form_one_log() {
        let epochs = [(0, 0), (2, 15)];
        let all = [(20, 29), (0, 9), (5, 19), (20, 25)].map(|offsets| segment(offsets, &epochs));
        let (offsets, reasons) = chosen(all.into());
        assert_eq!(offsets, [(0, 9), (5, 19), (20, 29)]);
        assert_eq!(reasons, ["another segment has the same records"]);
    }

    #[test]
    fn restored_log_begins_after_the_last_gap() {
        let all = [(0, 9), (12, 19), (20, 29)].map(|offsets| segment(offsets, &[(0, 0)]));
        let (offsets, reasons) = chosen(all.into());
        assert_eq!(offsets, [(12, 19), (20, 29)]);
        assert_eq!(reasons, ["offsets 10 to 11 after it are missing"]);
    }

    #[test]
    fn restore_omits_segments_of_discarded_histories() {
        let old = [(0, 0), (1, 10)];
        let new = [(0, 0), (2, 10)];
        let all = vec![segment((0, 9), &old), segment((10, 40), &old), segment((10, 19), &new)];
        let (offsets, reasons) = chosen(all);
        assert_eq!(offsets, [(0, 9), (10, 19)]);
        assert_eq!(reasons, ["a later leader has discarded its records"]);
    }

    #[test]
    fn no_segments_restore_no_partition() {
        assert_eq!(chosen(Vec::new()), (Vec::new(), Vec::new()));
    }
}
