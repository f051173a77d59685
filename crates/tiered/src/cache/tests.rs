//! Tests of the cache. The suite `remote_metadata` compares with Kafka's class.

use levada_wire::Uuid;
use levada_wire::primitives::Bytes;

use super::{CacheError, SegmentCache};
use crate::record::RemoteRecord;
use crate::segment::{
    EpochStart, PartitionDelete, PartitionDeleteState, RemoteSegment, RemoteSegmentId, SegmentState,
    SegmentUpdate, TopicIdPartition,
};

fn id(number: u8) -> RemoteSegmentId {
    RemoteSegmentId { partition: TopicIdPartition::default(), id: Uuid::from_bytes([number; 16]) }
}

fn segment(number: u8, end_offset: i64, epochs: &[EpochStart]) -> RemoteSegment {
    RemoteSegment {
        id: id(number),
        start_offset: epochs[0].1,
        end_offset,
        max_timestamp_ms: 0,
        broker_id: 1,
        event_timestamp_ms: 0,
        size: 10,
        epochs: epochs.to_vec(),
        custom_metadata: None,
        state: SegmentState::CopyStarted,
        txn_index_empty: number != 3,
    }
}

fn update(number: u8, state: SegmentState) -> SegmentUpdate {
    let custom_metadata = Some(Bytes::from_static(b"place"));
    SegmentUpdate { id: id(number), broker_id: 2, event_timestamp_ms: 9, custom_metadata, state }
}

fn copied(cache: &mut SegmentCache, segment: &RemoteSegment) {
    cache.add(segment).unwrap();
    cache.update(&update(segment.id.id.to_bytes()[0], SegmentState::CopyFinished)).unwrap();
}

fn found(cache: &SegmentCache, epoch: i32, offset: i64) -> Option<u8> {
    cache.segment_for(epoch, offset).map(|segment| segment.id.id.to_bytes()[0])
}

fn listed(cache: &SegmentCache, epoch: i32) -> Vec<u8> {
    cache.list_epoch(epoch).iter().map(|segment| segment.id.id.to_bytes()[0]).collect()
}

#[test]
fn a_segment_is_read_between_copy_and_deletion() {
    let mut cache = SegmentCache::default();
    cache.add(&segment(1, 99, &[(0, 0)])).unwrap();
    assert_eq!((found(&cache, 0, 50), cache.highest_offset(0), listed(&cache, 0)), (None, None, vec![1]));
    cache.update(&update(1, SegmentState::CopyFinished)).unwrap();
    assert_eq!((found(&cache, 0, 50), cache.highest_offset(0)), (Some(1), Some(99)));
    let known = cache.segment(id(1).id).unwrap();
    assert_eq!((known.broker_id, known.event_timestamp_ms), (2, 9));
    assert_eq!(known.custom_metadata.as_deref(), Some(&b"place"[..]));
    assert_eq!(cache.copied_bytes(), 10);
    cache.update(&update(1, SegmentState::DeleteStarted)).unwrap();
    assert_eq!((found(&cache, 0, 50), listed(&cache, 0), cache.copied_bytes()), (None, vec![1], 0));
    cache.update(&update(1, SegmentState::DeleteFinished)).unwrap();
    assert!(cache.is_empty() && listed(&cache, 0).is_empty());
    assert_eq!(cache.highest_offset(0), Some(99), "deleted records are not copied again");
}

#[test]
fn offsets_belong_to_their_epoch() {
    let mut cache = SegmentCache::default();
    copied(&mut cache, &segment(1, 99, &[(0, 0), (2, 40)]));
    assert_eq!(
        [(0, 39), (0, 40), (2, 39), (2, 40), (2, 99), (2, 100), (1, 40)].map(|(e, o)| found(&cache, e, o)),
        [Some(1), None, None, Some(1), Some(1), None, None]
    );
    assert_eq!((cache.highest_offset(0), cache.highest_offset(2)), (Some(39), Some(99)));
    assert_eq!(cache.epochs().collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn superset_segment_replaces_that_of_another_leader() {
    let mut cache = SegmentCache::default();
    copied(&mut cache, &segment(1, 90, &[(0, 10)]));
    copied(&mut cache, &segment(2, 100, &[(0, 5)]));
    assert_eq!((found(&cache, 0, 50), found(&cache, 0, 95)), (Some(2), Some(2)));
    assert_eq!(listed(&cache, 0), [2, 1], "the replaced segment can be deleted");
    // The new segment does not reach as far: both stay readable.
    copied(&mut cache, &segment(4, 60, &[(0, 20)]));
    assert_eq!((found(&cache, 0, 10), found(&cache, 0, 30), found(&cache, 0, 70)), (Some(2), Some(4), None));
}

#[test]
fn the_next_transaction_index_is_found() {
    let mut cache = SegmentCache::default();
    for (number, start) in [(1, 0), (2, 100), (3, 200)] {
        copied(&mut cache, &segment(number, start + 99, &[(0, start)]));
    }
    let next = |offset| cache.next_segment_with_txn_index(0, offset).map(|segment| segment.start_offset);
    assert_eq!((next(0), next(250), next(300)), (Some(200), Some(200), None));
}

#[test]
fn invalid_events_change_nothing() {
    let mut cache = SegmentCache::default();
    let unknown = cache.update(&update(1, SegmentState::CopyFinished));
    assert_eq!(unknown, Err(CacheError::UnknownSegment(id(1))));
    copied(&mut cache, &segment(1, 99, &[(0, 0)]));
    let from = Some(SegmentState::CopyFinished);
    for to in [SegmentState::CopyStarted, SegmentState::DeleteFinished] {
        let refused = cache.update(&update(1, to));
        assert_eq!(refused, Err(CacheError::InvalidTransition { id: id(1), from, to }));
    }
    assert!(cache.add(&segment(1, 99, &[(0, 0)])).is_err(), "a copied segment is not copied again");
    let finished = RemoteSegment { state: SegmentState::CopyFinished, ..segment(2, 99, &[(0, 0)]) };
    assert!(cache.apply(&RemoteRecord::Segment(finished)).is_err());
    let delete = PartitionDelete {
        partition: TopicIdPartition::default(),
        broker_id: 1,
        event_timestamp_ms: 0,
        state: PartitionDeleteState::Marked,
    };
    let other = CacheError::OtherRecord { record: "the deletion", partition: TopicIdPartition::default() };
    assert_eq!(cache.apply(&RemoteRecord::PartitionDelete(delete)), Err(other));
    assert_eq!((found(&cache, 0, 50), cache.len()), (Some(1), 1));
}

#[test]
fn repeated_segment_events_are_accepted() {
    let mut cache = SegmentCache::default();
    let records = [
        RemoteRecord::Segment(segment(1, 99, &[(0, 0)])),
        RemoteRecord::Update(update(1, SegmentState::CopyFinished)),
        RemoteRecord::Update(update(1, SegmentState::DeleteStarted)),
    ];
    for record in records {
        cache.apply(&record).unwrap();
        let once = format!("{cache:?}");
        cache.apply(&record).unwrap();
        assert_eq!(format!("{cache:?}"), once);
    }
}
