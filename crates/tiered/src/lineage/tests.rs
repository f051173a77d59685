//! Tests of lineage: a table of cases. The suite `remote_metadata` compares with Kafka's class.

use levada_wire::Uuid;

use super::{within_lineage, without_empty_epochs};
use crate::segment::{EpochStart, RemoteSegment, RemoteSegmentId, SegmentState, TopicIdPartition};

fn segment(end_offset: i64, epochs: &[EpochStart]) -> RemoteSegment {
    RemoteSegment {
        id: RemoteSegmentId { partition: TopicIdPartition::default(), id: Uuid::default() },
        start_offset: epochs[0].1,
        end_offset,
        max_timestamp_ms: 0,
        broker_id: 1,
        event_timestamp_ms: 0,
        size: 1,
        epochs: epochs.to_vec(),
        custom_metadata: None,
        state: SegmentState::CopyFinished,
        txn_index_empty: true,
    }
}

#[test]
fn lineage_cases_match_kafka() {
    type Case = (&'static str, i64, &'static [EpochStart], i64, &'static [EpochStart], bool);
    let cases: [Case; 19] = [
        ("one epoch", 99, &[(0, 0)], 100, &[(0, 0)], true),
        ("beyond the end of the log", 100, &[(0, 0)], 100, &[(0, 0)], false),
        ("empty lineage", 99, &[(0, 0)], 100, &[], false),
        (
            "all epochs of the lineage",
            99,
            &[(0, 0), (1, 10), (2, 50)],
            100,
            &[(0, 0), (1, 10), (2, 50)],
            true,
        ),
        ("a part of the lineage", 49, &[(1, 20)], 100, &[(0, 0), (1, 10), (2, 50)], true),
        ("last epoch above the lineage", 99, &[(0, 0), (3, 50)], 200, &[(0, 0), (2, 50)], false),
        ("last epoch below the lineage", 99, &[(0, 0)], 200, &[(1, 50)], false),
        ("an epoch that the lineage lacks", 99, &[(0, 0), (1, 10), (2, 50)], 200, &[(0, 0), (2, 50)], false),
        ("an epoch that the segment lacks", 99, &[(0, 0), (2, 50)], 200, &[(0, 0), (1, 10), (2, 50)], false),
        ("another start of a later epoch", 99, &[(0, 0), (1, 11)], 200, &[(0, 0), (1, 10)], false),
        ("start before its epoch", 99, &[(1, 9)], 200, &[(0, 0), (1, 10)], false),
        ("start before the first epoch of the log", 99, &[(1, 9)], 200, &[(1, 10)], true),
        ("start at its epoch", 99, &[(1, 10)], 200, &[(0, 0), (1, 10)], true),
        ("end at the next epoch", 49, &[(1, 10)], 200, &[(1, 10), (2, 50)], true),
        ("end within the next epoch", 50, &[(1, 10)], 200, &[(1, 10), (2, 50)], false),
        // The log's start moved into epoch 7 after another segment was deleted.
        ("epochs below the log's start", 150, &[(5, 14), (7, 15), (9, 100)], 151, &[(7, 51), (9, 100)], true),
        ("epochs below the log's start differ", 150, &[(6, 14), (7, 15)], 151, &[(7, 51)], true),
        ("an epoch without records", 99, &[(0, 0), (1, 10), (2, 10)], 200, &[(0, 0), (2, 10)], true),
        ("only the last epoch counts", 99, &[(1, 0), (2, 0), (3, 0)], 200, &[(3, 0)], true),
    ];
    for (name, end_offset, epochs, log_end, lineage, expected) in cases {
        assert_eq!(within_lineage(&segment(end_offset, epochs), log_end, lineage), expected, "{name}");
    }
}

#[test]
fn epochs_without_records_are_left_out() {
    assert_eq!(without_empty_epochs(&[]), []);
    assert_eq!(without_empty_epochs(&[(0, 0)]), [(0, 0)]);
    assert_eq!(without_empty_epochs(&[(0, 0), (1, 0), (2, 5), (4, 5), (5, 5)]), [(1, 0), (5, 5)]);
}
