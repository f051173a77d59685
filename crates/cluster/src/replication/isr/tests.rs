//! Tests of the changes on their way to the controller.

use levada_wire::messages::Uuid;

use super::*;

const NODE: i32 = 1;
const EPOCH: i64 = 40;

fn key(topic: u8, partition: i32) -> ReplicaKey {
    ReplicaKey::new(Uuid::from_bytes([topic; 16]), partition)
}

fn change(number: u64) -> IsrChange {
    IsrChange { number, leader_epoch: 5, partition_epoch: 7, isr: vec![(NODE, -1), (2, 30)] }
}

fn answer(results: &[(u8, i32, i16)]) -> AlterPartitionResponse {
    let mut response = AlterPartitionResponse::default();
    for (topic, index, error_code) in results {
        let mut partition = alter_partition_response::PartitionData::default();
        (partition.partition_index, partition.error_code) = (*index, *error_code);
        (partition.leader_epoch, partition.partition_epoch) = (5, 8);
        partition.isr = vec![NODE, 2];
        let mut data = alter_partition_response::TopicData::default();
        data.topic_id = Uuid::from_bytes([*topic; 16]);
        data.partitions = vec![partition];
        response.topics.push(data);
    }
    response
}

fn failed(error_code: i16) -> AlterPartitionResponse {
    let mut response = AlterPartitionResponse::default();
    response.error_code = error_code;
    response
}

#[test]
fn alter_partition_batches_all_changes_with_broker_epoch() {
    let mut updates = IsrUpdates::new();
    assert_eq!(updates.poll(NODE, EPOCH, 0), None);
    updates.submit(key(2, 0), change(1));
    updates.submit(key(1, 4), change(1));
    updates.submit(key(1, 3), change(1));
    let (_, request) = updates.poll(NODE, EPOCH, 0).expect("changes wait");
    assert_eq!((request.broker_id, request.broker_epoch), (NODE, EPOCH));
    let indexes = |topic: &alter_partition_request::TopicData| {
        topic.partitions.iter().map(|partition| partition.partition_index).collect::<Vec<_>>()
    };
    assert_eq!(request.topics.iter().map(indexes).collect::<Vec<_>>(), [vec![3, 4], vec![0]]);
    let partition = &request.topics[0].partitions[0];
    assert_eq!((partition.leader_epoch, partition.partition_epoch), (5, 7));
    let isr: Vec<_> =
        partition.new_isr_with_epochs.iter().map(|state| (state.broker_id, state.broker_epoch)).collect();
    assert_eq!(isr, [(NODE, EPOCH), (2, 30)]);
}

#[test]
fn isr_updates_have_one_request_in_flight() {
    let mut updates = IsrUpdates::new();
    updates.submit(key(1, 0), change(1));
    let (first, _) = updates.poll(NODE, EPOCH, 0).expect("a change waits");
    updates.submit(key(1, 1), change(1));
    assert_eq!(updates.poll(NODE, EPOCH, 0), None);
    assert_eq!(updates.answered(first, Some(&answer(&[(1, 0, 0)])), 1).len(), 1);
    let (_, second) = updates.poll(NODE, EPOCH, 1).expect("the other change waits");
    assert_eq!(second.topics[0].partitions[0].partition_index, 1);
}

#[test]
fn isr_results_are_split_by_partition() {
    let mut updates = IsrUpdates::new();
    updates.submit(key(1, 0), change(1));
    updates.submit(key(2, 0), change(9));
    let (number, _) = updates.poll(NODE, EPOCH, 0).expect("changes wait");
    let results = updates.answered(number, Some(&answer(&[(1, 0, 0), (2, 0, 107), (3, 0, 0)])), 1);
    let committed = CommittedIsr { leader_epoch: 5, partition_epoch: 8, isr: vec![NODE, 2] };
    assert_eq!(
        results,
        [
            IsrResult { partition: key(1, 0), number: 1, answer: Ok(committed) },
            IsrResult { partition: key(2, 0), number: 9, answer: Err(ErrorCode::IneligibleReplica.code()) },
        ]
    );
    assert_eq!(updates.poll(NODE, EPOCH, 100), None);
}

#[test]
fn failed_alter_partition_request_is_retried_after_pause() {
    for response in [None, Some(failed(ErrorCode::StaleBrokerEpoch.code())), Some(answer(&[]))] {
        let mut updates = IsrUpdates::new();
        updates.submit(key(1, 0), change(1));
        let (number, first) = updates.poll(NODE, EPOCH, 0).expect("a change waits");
        assert_eq!(updates.answered(number, response.as_ref(), 10), []);
        assert_eq!((updates.poll(NODE, EPOCH, 59), updates.deadline()), (None, Some(60)));
        let (again, second) = updates.poll(NODE, EPOCH + 1, 60).expect("the change waits");
        assert_eq!(second.broker_epoch, EPOCH + 1);
        assert_eq!(
            first.topics[0].partitions[0].partition_epoch,
            second.topics[0].partitions[0].partition_epoch
        );
        assert_eq!(updates.answered(number, Some(&answer(&[(1, 0, 0)])), 61), [], "a late answer");
        assert_eq!(updates.answered(again, Some(&answer(&[(1, 0, 0)])), 61).len(), 1);
    }
}

#[test]
fn refused_alter_partition_requests_back_off() {
    let mut updates = IsrUpdates::new();
    let refuse = |updates: &mut IsrUpdates, now_ms| {
        updates.submit(key(1, 0), change(1));
        let (number, _) = updates.poll(NODE, EPOCH, now_ms).expect("a change is due");
        updates.answered(number, Some(&failed(ErrorCode::ClusterAuthorizationFailed.code())), now_ms);
        updates.deadline().expect("the change is repeated") - now_ms
    };
    let (mut now_ms, mut pauses) = (0, Vec::new());
    for _ in 0..7 {
        let pause = refuse(&mut updates, now_ms);
        now_ms += pause;
        pauses.push(pause);
    }
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
    let (number, _) = updates.poll(NODE, EPOCH, now_ms).expect("a change is due");
    assert_eq!(updates.answered(number, Some(&answer(&[(1, 0, 0)])), now_ms).len(), 1);
    assert_eq!(refuse(&mut updates, now_ms), 50, "after an answer the pause is short again");
}

#[test]
fn later_isr_change_replaces_a_retried_one() {
    let mut updates = IsrUpdates::new();
    updates.submit(key(1, 0), change(1));
    let (number, _) = updates.poll(NODE, EPOCH, 0).expect("a change waits");
    updates.submit(key(1, 0), change(2));
    assert_eq!(updates.answered(number, None, 0), []);
    updates.retry(key(1, 0), change(1), 0);
    let (number, _) = updates.poll(NODE, EPOCH, 50).expect("a change waits");
    assert_eq!(updates.answered(number, Some(&answer(&[(1, 0, 0)])), 51)[0].number, 2);
}

#[test]
fn refused_isr_change_is_retried_after_a_pause() {
    let mut updates = IsrUpdates::new();
    updates.retry(key(1, 0), change(1), 100);
    assert_eq!(updates.poll(NODE, EPOCH, 149), None);
    assert!(updates.poll(NODE, EPOCH, 150).is_some());
}

#[test]
fn a_request_has_a_bounded_number_of_changes() {
    let mut updates = IsrUpdates::new();
    for partition in 0..i32::try_from(MAX_CHANGES + 1).expect("a small number") {
        updates.submit(key(1, partition), change(1));
    }
    let (number, request) = updates.poll(NODE, EPOCH, 0).expect("changes wait");
    assert_eq!(request.topics[0].partitions.len(), MAX_CHANGES);
    let _ = updates.answered(number, Some(&failed(ErrorCode::StaleBrokerEpoch.code())), 0);
    assert!(updates.poll(NODE, EPOCH, 50).is_some());
}
