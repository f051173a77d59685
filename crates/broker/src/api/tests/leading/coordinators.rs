//! Coordinators whose partitions have two replicas.

use std::time::Duration;

use bytes::Bytes;
use levada_coordination::group::request::{
    CommitPartition, CommitRequest, CommitTopic, FetchRequest, JoinOutcome, JoinRequest, Protocol,
};
use levada_coordination::group::{GoneTopic, GroupError, Visible};
use levada_metadata::records::PartitionChangeRecord;
use levada_wire::Uuid;

use super::rig::{Rig, TOPIC, change};
use super::{OK, begun};
use crate::coordinator::Load;
use crate::replica::OFFSETS_TOPIC;

const OFFSETS: Uuid = Uuid::from_bytes([8; 16]);

fn start() -> Rig {
    let mut rig = Rig::start();
    rig.create(OFFSETS, OFFSETS_TOPIC);
    rig
}

async fn commit(rig: &Rig, offset: i64) -> Result<(), GroupError> {
    let partitions = vec![CommitPartition { index: 0, offset, leader_epoch: -1, metadata: None }];
    let request = CommitRequest {
        api_version: 8,
        group_id: "group".to_owned(),
        member_id: String::new(),
        group_instance_id: None,
        generation: -1,
        retention_ms: None,
        topics: vec![CommitTopic { name: "t".to_owned(), topic_id: Uuid::ZERO, partitions }],
    };
    let committed = rig.broker.coordinators().groups().ask(request).await?;
    committed[0].partitions[0].1.map_or(Ok(()), Err)
}

async fn committed(rig: &Rig) -> Result<i64, GroupError> {
    fetched(rig, "group", false).await
}

async fn fetched(rig: &Rig, group_id: &str, require_stable: bool) -> Result<i64, GroupError> {
    let request = FetchRequest {
        group_id: group_id.to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable,
    };
    let fetched = rig.broker.coordinators().groups().ask(request).await?;
    // A group that no client has used has no topics.
    Ok(fetched.first().map_or(-1, |topic| topic.partitions[0].offset))
}

/// Asks until the coordinator answers otherwise than with one of these errors.
async fn committed_after(rig: &Rig, passing: &[GroupError]) -> Result<i64, GroupError> {
    loop {
        match committed(rig).await {
            Err(error) if passing.contains(&error) => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
}

/// Waits until the coordinator serves.
pub(super) async fn served(rig: &Rig) {
    let passing = [GroupError::NotCoordinator, GroupError::CoordinatorLoadInProgress];
    while rig.broker.coordinators().groups().view("group", |_| ()).is_none()
        || committed(rig).await.is_err_and(|error| passing.contains(&error))
    {
        tokio::task::yield_now().await;
    }
}

#[test]
fn offset_commit_completes_after_replication() {
    let rig = start();
    rig.run(async {
        served(&rig).await;
        let mut commit = Box::pin(commit(&rig, 3));
        assert_eq!(begun(&mut commit).await, None);
        assert_eq!(rig.follow_in(OFFSETS, 0).await.error_code, OK);
        assert_eq!(begun(&mut commit).await, None);
        assert_eq!(rig.follow_in(OFFSETS, 1).await.error_code, OK);
        assert_eq!(commit.await, Ok(()));
        assert_eq!(committed(&rig).await, Ok(3));
    });
}

#[test]
fn commit_replicated_after_its_refusal_takes_effect() {
    let rig = start();
    rig.run(async {
        served(&rig).await;
        assert_eq!(commit(&rig, 3).await, Err(GroupError::NotCoordinator));
        assert_eq!(committed(&rig).await, Ok(-1));
        assert_eq!(rig.follow_in(OFFSETS, 1).await.error_code, OK);
        while committed(&rig).await == Ok(-1) {
            tokio::task::yield_now().await;
        }
        assert_eq!(committed(&rig).await, Ok(3));
    });
}

/// Begins a commit, and the next term of the coordinator before the commit is replicated.
fn restarted_before_replication(rig: &mut Rig) {
    rig.run(async {
        served(rig).await;
        let mut commit = Box::pin(commit(rig, 3));
        assert_eq!(begun(&mut commit).await, None);
    });
    let node = rig.node;
    rig.publish(&[PartitionChangeRecord { leader: node, ..change(OFFSETS) }.into()]);
}

#[test]
fn coordinator_serves_after_loaded_records_are_replicated() {
    let mut rig = start();
    restarted_before_replication(&mut rig);
    rig.run(async {
        let loading = committed_after(&rig, &[GroupError::NotCoordinator]).await;
        assert_eq!(loading, Err(GroupError::CoordinatorLoadInProgress));
        for _ in 0..100 {
            tokio::task::yield_now().await;
            assert_eq!(committed(&rig).await, Err(GroupError::CoordinatorLoadInProgress));
        }
        assert_eq!(rig.follow_in(OFFSETS, 1).await.error_code, OK);
        let after = committed_after(&rig, &[GroupError::CoordinatorLoadInProgress]).await;
        assert_eq!(after, Ok(3));
    });
}

#[test]
fn pending_coordinator_load_holds_few_topic_announcements() {
    let mut rig = start();
    restarted_before_replication(&mut rig);
    for id in 100..110 {
        rig.create_alone(Uuid::from_bytes([id; 16]), &format!("topic-{id}"));
    }
    let held = rig.broker.coordinators().groups().held_at(0);
    assert!((1..=2).contains(&held), "{held} announcements wait for the load");
    rig.run(async {
        assert_eq!(rig.follow_in(OFFSETS, 1).await.error_code, OK);
        let passing = [GroupError::NotCoordinator, GroupError::CoordinatorLoadInProgress];
        assert_eq!(committed_after(&rig, &passing).await, Ok(3));
    });
    assert_eq!(rig.broker.coordinators().groups().held_at(0), 0);
}

async fn join(rig: &Rig, group_id: &str) -> JoinOutcome {
    let request = JoinRequest {
        api_version: 3,
        group_id: group_id.to_owned(),
        member_id: String::new(),
        group_instance_id: None,
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![Protocol { name: "range".to_owned(), metadata: Bytes::new() }],
        nonce: 1,
        record_bytes_max: 1 << 20,
        visible: Visible::default(),
    };
    rig.broker.coordinators().groups().ask(request).await
}

#[test]
fn slow_group_write_fails_only_own_request() {
    let mut rig = Rig::start_with(&["group.initial.rebalance.delay.ms=60000"]);
    rig.create(OFFSETS, OFFSETS_TOPIC);
    rig.run(async {
        served(&rig).await;
        let mut join = Box::pin(join(&rig, "other"));
        assert!(begun(&mut join).await.is_none());
        assert_eq!(commit(&rig, 3).await, Err(GroupError::NotCoordinator));
        assert!(begun(&mut join).await.is_none(), "the member waits for others, and for no write");
        assert_eq!(fetched(&rig, "other", true).await, Ok(-1), "another group's commit is not waited for");
        // The commit is still under way, and no write of a later request begins.
        let stable = tokio::time::timeout(Duration::from_secs(30), fetched(&rig, "group", true)).await;
        assert_eq!(stable, Ok(Err(GroupError::NotCoordinator)));
        assert_eq!(rig.follow_in(OFFSETS, 2).await.error_code, OK);
        while committed(&rig).await == Ok(-1) {
            tokio::task::yield_now().await;
        }
        assert_eq!(fetched(&rig, "group", true).await, Ok(3));
    });
}

/// Topic `t`, when it is deleted.
fn gone() -> GoneTopic {
    GoneTopic { name: "t".to_owned(), topic_id: TOPIC, partitions: [0].into() }
}

/// Deletes topic `t` while the coordinator of its offsets is not loaded yet.
fn delete_before_the_load(make: impl FnOnce(&Rig) -> Load) {
    let mut rig = Rig::start();
    rig.create_alone(OFFSETS, OFFSETS_TOPIC);
    rig.run(async {
        served(&rig).await;
        assert_eq!(commit(&rig, 3).await, Ok(()));
        let load = make(&rig);
        load();
        served(&rig).await;
        assert_eq!(committed(&rig).await, Ok(-1));
    });
}

#[test]
fn topic_deleted_during_coordinator_load_loses_offsets() {
    delete_before_the_load(|rig| {
        let coordinators = rig.broker.coordinators();
        let partition = rig.broker.replicas().partition(OFFSETS_TOPIC, 0).unwrap();
        coordinators.resign_at(OFFSETS_TOPIC, 0);
        let load = coordinators.begin(&partition).unwrap();
        coordinators.topics_deleted(&[gone()]);
        load
    });
}

#[test]
fn topic_deleted_during_log_check_loses_offsets() {
    delete_before_the_load(|rig| {
        let coordinators = rig.broker.coordinators();
        let partition = rig.broker.replicas().partition(OFFSETS_TOPIC, 0).unwrap();
        coordinators.resign_at(OFFSETS_TOPIC, 0);
        coordinators.expect(&(OFFSETS_TOPIC.to_owned(), 0));
        coordinators.topics_deleted(&[gone()]);
        coordinators.begin(&partition).unwrap()
    });
}
