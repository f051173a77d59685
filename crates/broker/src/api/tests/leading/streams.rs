//! Members of streams groups: requests with any numbers in them.
//!
//! Soak: seed random, repeated

use levada_metadata::features::STREAMS_VERSION;
use levada_metadata::records::FeatureLevelRecord;
use levada_testing::{scaled, seeds};
use levada_wire::Uuid;
use levada_wire::messages::streams_group_heartbeat_request::{
    CopartitionGroup, Endpoint, Subtopology, TaskIds, TopicInfo, Topology,
};
use levada_wire::messages::{
    StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::OK;
use super::rig::Rig;
use crate::replica::OFFSETS_TOPIC;

const OFFSETS: Uuid = Uuid::from_bytes([21; 16]);
const SOURCE: Uuid = Uuid::from_bytes([22; 16]);

/// A broker that coordinates streams groups and has the topic `source`.
fn start() -> Rig {
    let mut rig = Rig::start_with(&["group.streams.initial.rebalance.delay.ms=0"]);
    rig.create_alone(SOURCE, "source");
    rig.create_alone(OFFSETS, OFFSETS_TOPIC);
    let level = FeatureLevelRecord { name: STREAMS_VERSION.to_owned(), feature_level: 1 };
    rig.publish(&[level.into()]);
    rig
}

fn number(random: &mut StdRng) -> i32 {
    match random.random_range(0..8) {
        0 => i32::MIN,
        1 => i32::MAX,
        2 => -1,
        _ => random.random_range(0..4),
    }
}

fn some<T>(random: &mut StdRng, make: impl Fn(&mut StdRng) -> T) -> Vec<T> {
    (0..random.random_range(0..3)).map(|_| make(random)).collect()
}

fn perhaps<T>(random: &mut StdRng, make: impl FnOnce(&mut StdRng) -> T) -> Option<T> {
    (random.random_range(0..2) == 0).then(|| make(random))
}

fn topic(random: &mut StdRng) -> TopicInfo {
    let name = ["between", "store", "source"][random.random_range(0..3)];
    let partitions = if random.random_range(0..2) == 0 { 0 } else { number(random) };
    message!(TopicInfo {
        name: name.into(),
        partitions: partitions,
        replication_factor: number(random) as i16
    })
}

fn part(random: &mut StdRng) -> Subtopology {
    let places = |random: &mut StdRng| some(random, |random| number(random) as i16);
    let group = |random: &mut StdRng| {
        message!(CopartitionGroup {
            source_topics: places(random),
            repartition_source_topics: places(random),
        })
    };
    message!(Subtopology {
        subtopology_id: random.random_range(0..3_u8).to_string().into(),
        source_topics: some(random, |random| ["source", "missing"][random.random_range(0..2)].into()),
        repartition_sink_topics: some(random, |_| "between".into()),
        repartition_source_topics: some(random, topic),
        state_changelog_topics: some(random, topic),
        copartition_groups: some(random, group),
    })
}

fn tasks(random: &mut StdRng) -> Vec<TaskIds> {
    some(random, |random| {
        let id = random.random_range(0..3_u8).to_string();
        message!(TaskIds { subtopology_id: id.into(), partitions: some(random, number) })
    })
}

fn heartbeat(random: &mut StdRng, (group, member, epoch): (&str, &str, i32)) -> StreamsGroupHeartbeatRequest {
    let epoch = if random.random_range(0..4) == 0 { number(random) } else { epoch };
    let topology =
        |random: &mut StdRng| message!(Topology { epoch: number(random), subtopologies: some(random, part) });
    let mut request = message!(StreamsGroupHeartbeatRequest {
        group_id: group.into(),
        member_id: member.into(),
        member_epoch: epoch,
        endpoint_information_epoch: number(random),
        rebalance_timeout_ms: number(random),
        process_id: perhaps(random, |_| "process".into()),
        user_endpoint: perhaps(random, |random| {
            message!(Endpoint { host: "host".into(), port: number(random) as u16 })
        }),
        shutdown_application: random.random_range(0..8) == 0,
    });
    if epoch == 0 {
        request.topology = perhaps(random, topology).or_else(|| Some(topology(random)));
        // Most of them are valid.
        for tasks in [&mut request.active_tasks, &mut request.standby_tasks, &mut request.warmup_tasks] {
            *tasks = (random.random_range(0..16) != 0).then(Vec::new);
        }
    } else if random.random_range(0..2) == 0 {
        let mut all = || Some(tasks(random));
        (request.active_tasks, request.standby_tasks, request.warmup_tasks) =
            (all(), all(), Some(Vec::new()));
    }
    request
}

#[test]
fn streams_groups_survive_random_requests() {
    let rig = start();
    let mut random = StdRng::seed_from_u64(seeds(1).start);
    rig.run(async {
        let connection = rig.connection();
        let (mut epochs, mut joined) = ([[0; 2]; 3], 0);
        for _ in 0..scaled(400_u32) {
            let (group, member) = (random.random_range(0..3), random.random_range(0..2));
            let (group_id, member_id) = (["a", "b", "c"][group], ["m", "n"][member]);
            let request = heartbeat(&mut random, (group_id, member_id, epochs[group][member]));
            let response: StreamsGroupHeartbeatResponse = rig.exchange(&connection, 0, &request).await;
            epochs[group][member] = response.member_epoch.max(0);
            joined += usize::from(response.error_code == OK);
            let describe =
                message!(StreamsGroupDescribeRequest { group_ids: vec![group_id.into(), "none".into()] });
            let described: StreamsGroupDescribeResponse = rig.exchange(&connection, 0, &describe).await;
            assert_eq!(described.groups.len(), 2);
        }
        assert!(joined > 0, "no request was accepted");
        let source =
            message!(Subtopology { subtopology_id: "0".into(), source_topics: vec!["source".into()] });
        let request = message!(StreamsGroupHeartbeatRequest {
            group_id: "last".into(),
            member_id: "m".into(),
            rebalance_timeout_ms: 1_000,
            process_id: Some("process".into()),
            topology: Some(message!(Topology { subtopologies: vec![source] })),
            active_tasks: Some(Vec::new()),
            standby_tasks: Some(Vec::new()),
            warmup_tasks: Some(Vec::new()),
        });
        let response: StreamsGroupHeartbeatResponse = rig.exchange(&connection, 0, &request).await;
        assert_eq!((response.error_code, response.status), (OK, Some(Vec::new())));
        assert_eq!(response.active_tasks.unwrap()[0].partitions, [0]);
    });
}
