//! Checks of heartbeats.

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::StreamsGroupHeartbeatRequest;
use levada_wire::messages::streams_group_heartbeat_request::{
    Subtopology, TaskIds, TaskOffset, TopicInfo, Topology,
};

use super::checks::{Invalid, check, check_names, check_size, topics};

fn part(id: &str) -> Subtopology {
    message!(Subtopology { subtopology_id: id.into(), source_topics: vec!["t".into()] })
}

fn topology(parts: Vec<Subtopology>) -> Topology {
    message!(Topology { subtopologies: parts })
}

fn join() -> StreamsGroupHeartbeatRequest {
    message!(StreamsGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 1_000,
        topology: Some(topology(vec![part("0")])),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
    })
}

fn refusal(checked: Result<(), Invalid>) -> (ErrorCode, String) {
    let Invalid(error, message) = checked.unwrap_err();
    (error, message.unwrap())
}

#[test]
fn heartbeats_are_checked_in_kafkas_order() {
    assert_eq!(check(&join(), 0), Ok(()));
    let owned = || Some(vec![TaskIds::default()]);
    type Change = fn(&mut StreamsGroupHeartbeatRequest);
    let changes: [(Change, &str); 13] = [
        (|one| one.instance_id = Some("i".into()), "Static membership is not yet supported."),
        (|one| one.task_offsets = Some(Vec::new()), "TaskOffsets are not supported yet."),
        (|one| one.task_end_offsets = Some(Vec::new()), "TaskEndOffsets are not supported yet."),
        (|one| one.member_id = " ".into(), "MemberId can't be empty."),
        (|one| one.group_id = "".into(), "GroupId can't be empty."),
        (|one| one.rack_id = Some("".into()), "RackId can't be empty."),
        (|one| one.rebalance_timeout_ms = -1, "RebalanceTimeoutMs must be provided in first request."),
        (|one| one.topology = None, "Topology must be non-null when (re-)joining."),
        (|one| one.member_epoch = -2, "InstanceId can't be null."),
        (|one| one.member_epoch = -3, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (|one| one.active_tasks = None, "ActiveTasks must be empty when (re-)joining."),
        (|one| one.warmup_tasks = None, "WarmupTasks must be empty when (re-)joining."),
        (|one| one.member_epoch = 1, "Topology can only be provided when (re-)joining."),
    ];
    for (change, message) in changes {
        let mut request = join();
        change(&mut request);
        assert_eq!(refusal(check(&request, 0)), (ErrorCode::InvalidRequest, message.to_owned()));
    }
    let mut later = join();
    (later.member_epoch, later.topology, later.standby_tasks) = (1, None, None);
    assert_eq!(refusal(check(&later, 0)).1, "If one task-type is non-null, all must be non-null.");
    let warmup = message!(StreamsGroupHeartbeatRequest { warmup_tasks: owned() });
    assert_eq!(refusal(check(&warmup, 0)).1, "WarmupTasks are not supported yet.");
    for (active, standby, message) in [
        (owned(), Some(Vec::new()), "ActiveTasks must be empty when (re-)joining."),
        (Some(Vec::new()), owned(), "StandbyTasks must be empty when (re-)joining."),
    ] {
        let mut request = join();
        (request.active_tasks, request.standby_tasks) = (active, standby);
        assert_eq!(refusal(check(&request, 0)).1, message);
    }
}

#[test]
fn streams_members_may_be_static_since_4_4() {
    let mut request = join();
    request.instance_id = Some("i".into());
    let offset = |partition| message!(TaskOffset { subtopology_id: "0".into(), partition: partition });
    request.task_offsets = Some(vec![offset(0), offset(1)]);
    assert_eq!(check(&request, 1), Ok(()));
    request.task_end_offsets = Some(vec![offset(1), offset(1)]);
    let expected = "Task offsets contain a duplicate entry for subtopology 0 and partition 1.";
    assert_eq!(refusal(check(&request, 1)).1, expected);
    request.task_end_offsets = Some((0..=16_384).map(offset).collect());
    assert!(refusal(check(&request, 1)).1.contains("16385 tasks"));
    request.instance_id = Some(" ".into());
    assert_eq!(refusal(check(&request, 1)).1, "InstanceId can't be empty.");
    let mut away = message!(StreamsGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: "m".into(),
        member_epoch: -2,
    });
    assert_eq!(refusal(check(&away, 1)).1, "InstanceId can't be null.");
    away.instance_id = Some("i".into());
    assert_eq!(check(&away, 1), Ok(()));
}

#[test]
fn invalid_streams_topologies_are_refused() {
    let mut changelog = part("0");
    changelog.state_changelog_topics = vec![message!(TopicInfo { name: "c".into(), partitions: 3 })];
    let mut request = join();
    request.topology = Some(topology(vec![changelog]));
    let expected = "Changelog topic c must have an undefined partition count, but it is set to 3.";
    assert_eq!(refusal(check(&request, 0)), (ErrorCode::StreamsInvalidTopology, expected.to_owned()));
    let mut negative = join();
    negative.topology.as_mut().expect("a topology").epoch = -1;
    assert_eq!(refusal(check(&negative, 0)).0, ErrorCode::StreamsInvalidTopology);
    let twice = topology(vec![part("0"), part("0")]);
    assert_eq!(refusal(check_size(&twice)).0, ErrorCode::StreamsInvalidTopology);
    let many = |count: usize| message!(Subtopology { source_topics: vec!["t".into(); count] });
    assert_eq!(check_size(&topology(vec![many(16_383)])), Ok(()));
    assert!(refusal(check_size(&topology(vec![many(16_384)]))).1.contains("16385 entries"));
    let parts = (0..1_025).map(|number| part(&number.to_string())).collect();
    assert!(refusal(check_size(&topology(parts))).1.contains("1025 subtopologies"));
}

#[test]
fn streams_topologies_may_not_use_internal_topics() {
    let of = |names: &[&str]| {
        let sources = names.iter().map(|&name| name.into()).collect();
        topology(vec![message!(Subtopology { source_topics: sources })])
    };
    assert_eq!(check_names(&topics(&of(&["t", "__other"]))), Ok(()));
    let internal = refusal(check_names(&topics(&of(&["__consumer_offsets", "t"])))).1;
    let expected =
        "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.";
    assert_eq!(internal, expected);
    let invalid = refusal(check_names(&topics(&of(&["a b", "t", ""])))).1;
    assert_eq!(invalid, "Topic names ,a b are not valid topic names.");
}
