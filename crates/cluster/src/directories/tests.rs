//! Tests of `directories`.

use levada_wire::messages::assign_replicas_to_dirs_response;
use proptest::prelude::*;

use super::*;

fn id(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

/// The controller's answer, in which `refused` partitions have an error.
fn answer(
    request: &AssignReplicasToDirsRequest,
    refused: impl Fn(i32) -> bool,
) -> AssignReplicasToDirsResponse {
    let mut response = AssignReplicasToDirsResponse::default();
    for asked in &request.directories {
        let mut directory = assign_replicas_to_dirs_response::DirectoryData::default();
        directory.id = asked.id;
        for asked in &asked.topics {
            let mut topic = assign_replicas_to_dirs_response::TopicData::default();
            topic.topic_id = asked.topic_id;
            for asked in &asked.partitions {
                let mut partition = assign_replicas_to_dirs_response::PartitionData::default();
                partition.partition_index = asked.partition_index;
                partition.error_code = if refused(asked.partition_index) { -1 } else { 0 };
                topic.partitions.push(partition);
            }
            directory.topics.push(topic);
        }
        response.directories.push(directory);
    }
    response
}

fn assignments(request: &AssignReplicasToDirsRequest) -> BTreeMap<ReplicaKey, [u8; 16]> {
    let mut found = BTreeMap::new();
    for directory in &request.directories {
        for topic in &directory.topics {
            for partition in &topic.partitions {
                let key = ReplicaKey::new(topic.topic_id, partition.partition_index);
                assert!(found.insert(key, directory.id.to_bytes()).is_none(), "{key:?} twice");
            }
        }
    }
    found
}

#[test]
fn directory_requests_hold_at_most_2250_replicas() {
    let mut directories = Directories::new();
    assert!(directories.is_settled() && directories.poll(77, 33, 0).is_none());
    for partition in 0..5000 {
        directories.assign(ReplicaKey::new(id(1), partition), id(partition as u8 % 2 + 9));
    }
    let mut sizes = Vec::new();
    while let Some((number, request)) = directories.poll(77, 33, 0) {
        assert_eq!((request.broker_id, request.broker_epoch, request.directories.len()), (77, 33, 2));
        assert!(directories.poll(77, 33, 0).is_none(), "one request in flight");
        sizes.push(assignments(&request).len());
        directories.answered(number, Some(&answer(&request, |_| false)), 0);
    }
    assert_eq!(sizes, [2250, 2250, 500]);
    assert!(directories.is_settled());
}

#[test]
fn replica_unknown_to_controller_is_reported_once() {
    for code in [
        ErrorCode::UnknownTopicId.code(),
        ErrorCode::UnknownTopicOrPartition.code(),
        ErrorCode::NotLeaderOrFollower.code(),
    ] {
        let mut directories = Directories::new();
        directories.assign(ReplicaKey::new(id(1), 0), id(9));
        let (number, request) = directories.poll(77, 33, 0).unwrap();
        let mut response = answer(&request, |_| true);
        response.directories[0].topics[0].partitions[0].error_code = code;
        directories.answered(number, Some(&response), 0);
        assert!(directories.is_settled(), "{code}");
    }
}

#[test]
fn a_failed_report_is_repeated_with_growing_pauses() {
    let mut directories = Directories::new();
    directories.assign(ReplicaKey::new(id(1), 0), id(9));
    let (mut pauses, mut now_ms) = (Vec::new(), 0);
    for round in 0..9 {
        let (number, request) = directories.poll(77, 33, now_ms).unwrap();
        let mut response = answer(&request, |_| true);
        response.error_code = if round % 2 == 0 { ErrorCode::StaleBrokerEpoch.code() } else { 0 };
        directories.answered(number, (round != 3).then_some(&response), now_ms);
        let deadline = directories.deadline().unwrap();
        pauses.push(deadline - now_ms);
        assert!(directories.poll(77, 33, deadline - 1).is_none());
        now_ms = deadline;
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
}

#[test]
fn late_response_does_not_complete_next_request() {
    let mut directories = Directories::new();
    directories.assign(ReplicaKey::new(id(1), 0), id(9));
    let (first, request) = directories.poll(77, 33, 0).unwrap();
    directories.answered(first, None, 0);
    let (second, again) = directories.poll(77, 33, 100).unwrap();
    directories.answered(first, Some(&answer(&request, |_| false)), 100);
    assert!(!directories.is_settled());
    directories.answered(second, Some(&answer(&again, |_| false)), 100);
    assert!(directories.is_settled());
}

#[test]
fn moved_replica_is_reported_with_latest_directory() {
    let replica = ReplicaKey::new(id(1), 0);
    let mut directories = Directories::new();
    directories.assign(replica, id(9));
    let (number, _) = directories.poll(77, 33, 0).unwrap();
    directories.assign(replica, id(8));
    directories.answered(number, None, 0);
    let (number, request) = directories.poll(77, 33, 100).unwrap();
    assert_eq!(assignments(&request)[&replica], id(8).to_bytes());
    directories.forget(replica);
    directories.answered(number, None, 100);
    assert!(directories.is_settled());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn controller_ends_up_with_latest_replica_directories(
        operations in prop::collection::vec((0..6u8, 0..8i32, 1..4u8), 0..200),
    ) {
        let (mut directories, mut wanted) = (Directories::new(), BTreeMap::new());
        let (mut known, mut sent, mut now_ms) = (BTreeMap::new(), None, 0);
        for (operation, partition, directory) in operations {
            match operation {
                0..3 => {
                    let replica = ReplicaKey::new(id(1), partition);
                    directories.assign(replica, id(directory));
                    wanted.insert(replica, id(directory).to_bytes());
                }
                3 => sent = directories.poll(1, 1, now_ms).or(sent),
                4 => if let Some((number, request)) = sent.take() {
                    let refused = |index: i32| index % 3 == partition % 3;
                    let accepted = assignments(&request).into_iter().filter(|(key, _)| !refused(key.partition));
                    known.extend(accepted);
                    // The controller has decided, whether the response arrives or not.
                    let response = answer(&request, refused);
                    directories.answered(number, (directory > 1).then_some(&response), now_ms);
                },
                _ => now_ms += 1000,
            }
        }
        if let Some((number, _)) = sent {
            directories.answered(number, None, now_ms);
        }
        for _ in 0..3 {
            now_ms += 20_000;
            let Some((number, request)) = directories.poll(1, 1, now_ms) else { break };
            known.extend(assignments(&request));
            directories.answered(number, Some(&answer(&request, |_| false)), now_ms);
        }
        prop_assert!(directories.is_settled());
        prop_assert_eq!(known, wanted);
    }
}
