//! Tests of the state of a quorum.

use super::*;

fn replica(id: i32, end: i64) -> ReplicaState {
    let mut replica = ReplicaState::default();
    (replica.replica_id, replica.log_end_offset) = (id, end);
    (replica.last_fetch_timestamp, replica.last_caught_up_timestamp) = (-1, 1000);
    replica
}

#[test]
fn nodes_have_roles_and_a_lag() {
    let mut log = describe_quorum_response::PartitionData::default();
    (log.leader_id, log.leader_epoch, log.high_watermark) = (2, 7, 90);
    log.current_voters = vec![replica(1, 95), replica(2, 100)];
    log.observers = vec![replica(3, -1), replica(4, 40)];
    let mut topic = describe_quorum_response::TopicData::default();
    topic.partitions = vec![log];
    let mut response = DescribeQuorumResponse::default();
    response.topics = vec![topic];
    let state = State::of(&response).unwrap();
    let nodes: Vec<_> = state.nodes.iter().map(|one| (one.id, one.role, one.lag)).collect();
    let expected = [
        (2, Role::Leader, Some(0)),
        (1, Role::Voter, Some(5)),
        (3, Role::Observer, None),
        (4, Role::Observer, Some(60)),
    ];
    assert_eq!((nodes.as_slice(), state.leader), (expected.as_slice(), Some(2)));
    assert_eq!((state.nodes[0].last_fetch_ms, state.nodes[0].last_caught_up_ms), (None, Some(1000)));
    assert!(State::of(&DescribeQuorumResponse::default()).is_err());
}

#[test]
fn addresses_of_controllers_are_read() {
    assert_eq!(address("c4:9093"), Ok(("c4".to_owned(), 9093)));
    assert_eq!(address("[::1]:9093"), Ok(("::1".to_owned(), 9093)));
    for text in ["c4", ":9093", "c4:", "c4:0", "c4:70000"] {
        assert!(address(text).is_err(), "{text}");
    }
}
