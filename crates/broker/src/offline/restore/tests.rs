//! Tests of the directories of a restored node.

use std::fs;
use std::path::Path;
use std::slice;

use levada_config::Sources;
use levada_log::checkpoint::MetaProperties;
use levada_log::disk::RealDisk;
use levada_metadata::store::inspect;
use levada_tiered::{RemoteSegmentId, SegmentState, TopicIdPartition};
use tempfile::tempdir;

use super::*;
use crate::offline::{info, remote_inventory};

const NOW_MS: i64 = 1_800_000_000_000;

fn config(dir: &Path, more: &[&str]) -> BrokerConfig {
    let flags = [format!("log.dirs={}", dir.display()), "node.id=1".to_owned()];
    let more = more.iter().map(|flag| (*flag).to_owned());
    BrokerConfig::load(&Sources::flags(flags.into_iter().chain(more))).unwrap()
}

/// A plan with one topic, of which partition 2 has a segment.
fn one_topic() -> RestorePlan {
    let id = Uuid::from_bytes([7; 16]);
    let partition = TopicIdPartition { topic_id: id, topic: "clicks".to_owned(), partition: 2 };
    let segment = RemoteSegment {
        id: RemoteSegmentId { partition, id: Uuid::from_bytes([9; 16]) },
        start_offset: 5,
        end_offset: 99,
        max_timestamp_ms: 0,
        broker_id: -1,
        event_timestamp_ms: 0,
        size: 7,
        epochs: vec![(3, 5)],
        custom_metadata: None,
        state: SegmentState::CopyStarted,
        txn_index_empty: true,
    };
    let producers = empty_snapshot();
    let state = TieredState { log_start: 5, local_start: 100, epochs: vec![(3, 5)], producers };
    let partitions = vec![RestoredPartition { index: 2, segments: vec![segment], state }];
    RestorePlan {
        topics: vec![RestoredTopic { name: "clicks".to_owned(), id, partitions }],
        ..RestorePlan::default()
    }
}

/// A snapshot without producers: version 1, checksum, count 0.
fn empty_snapshot() -> Vec<u8> {
    let count = 0_i32.to_be_bytes();
    let checksum = levada_base::batch::crc32c(&count);
    [&1_i16.to_be_bytes()[..], &checksum.to_be_bytes(), &count].concat()
}

fn run(
    config: &BrokerConfig,
    plan: &RestorePlan,
    cluster_id: Option<&str>,
) -> Result<Restored, RestoreError> {
    restore(config, plan, (cluster_id, NOW_MS), &mut |_, _| {})
}

#[test]
fn restored_topics_continue_after_remote_segments() {
    let home = tempdir().unwrap();
    let dir = home.path().join("data");
    let restored = run(&config(&dir, &[]), &one_topic(), Some("former")).unwrap();
    assert_eq!((&*restored.cluster_id, restored.dirs), ("former", vec![dir.clone()]));
    let image = inspect(&RealDisk, &dir).unwrap().image;
    let topic = image.topic("clicks").unwrap();
    assert_eq!(topic.partition_count(), 3, "up to the highest partition with records");
    let epochs = [0, 1, 2].map(|index| topic.partition(index).unwrap().leader_epoch);
    assert_eq!(epochs, [0, 0, 3]);
    let starts = fs::read_to_string(dir.join("log-start-offset-checkpoint")).unwrap();
    assert!(starts.contains("clicks 2 5"), "{starts}");
    assert!(dir.join("clicks-2/00000000000000000100.log").exists());
    let found = remote_inventory(slice::from_ref(&dir), 50).unwrap();
    let segments: Vec<_> = found.inventory.segments().collect();
    assert!(segments.len() == 1 && segments[0].state == SegmentState::CopyFinished, "{segments:?}");
    assert!(info(&dir, slice::from_ref(&dir)).is_ok());
    assert_eq!(MetaProperties::load(&RealDisk, &dir).unwrap().unwrap().node_id, 1);
}

#[test]
fn restore_refuses_used_directories() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("notes"), "of the operator").unwrap();
    let refused = run(&config(dir.path(), &[]), &one_topic(), None).unwrap_err();
    assert!(matches!(refused, RestoreError::NotEmpty { .. }), "{refused}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written");
}

#[test]
fn restore_refuses_other_clusters_and_members() {
    let dir = tempdir().unwrap();
    let plan = RestorePlan { cluster_id: Some("owner".to_owned()), ..one_topic() };
    let refused = run(&config(dir.path(), &[]), &plan, Some("asked")).unwrap_err();
    assert_eq!(refused.to_string(), "the store belongs to cluster owner, not to asked");
    let member = config(
        dir.path(),
        &[
            "process.roles=broker",
            "controller.quorum.bootstrap.servers=c1:9093",
            "controller.listener.names=CONTROLLER",
        ],
    );
    let refused = run(&member, &plan, None).unwrap_err();
    assert!(matches!(refused, RestoreError::Member), "{refused}");
}
