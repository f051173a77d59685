//! Tests of the problems of a cluster.

use clap::Parser;
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::describe_log_dirs_response::DescribeLogDirsResult;
use levada_wire::messages::{
    DescribeClusterResponse, DescribeLogDirsResponse, DescribeQuorumResponse, describe_quorum_response,
};
use levada_wire::{ApiKey, StrBytes};
use serde_json::Value;

use super::*;
use crate::cluster::BrokerArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    health: Health,
}

fn partition(leader: i32, replicas: &[i32], in_sync: &[i32]) -> MetadataResponsePartition {
    let mut partition = MetadataResponsePartition::default();
    partition.leader_id = leader;
    partition.replica_nodes = replicas.to_vec();
    partition.isr_nodes = in_sync.to_vec();
    partition
}

#[test]
fn partitions_without_leader_or_replicas_are_problems() {
    let problem = |partition: &_| partition_problem(partition, None, 1);
    assert_eq!(problem(&partition(1, &[1], &[1])), None);
    assert_eq!(problem(&partition(-1, &[1], &[1])), Some("no leader".to_owned()));
    let lagging = problem(&partition(1, &[1, 2], &[1]));
    assert_eq!(lagging, Some("1 of 2 replicas are in sync".to_owned()));
    let mut down = partition(1, &[1, 4, 3], &[1]);
    down.offline_replicas = vec![4, 3];
    assert_eq!(problem(&down), Some("replicas are offline: [3, 4]".to_owned()), "one order for all");
}

#[test]
fn health_tells_that_writes_are_refused() {
    let problem = |in_sync: &[i32], least| partition_problem(&partition(1, &[1, 2, 3], in_sync), None, least);
    let refused = "1 of 3 replicas are in sync; acks=all is refused: min.insync.replicas=2";
    assert_eq!(problem(&[1], 2).as_deref(), Some(refused));
    assert_eq!(problem(&[1, 2], 2).as_deref(), Some("2 of 3 replicas are in sync"));
    assert_eq!(partition_problem(&partition(1, &[1], &[1]), None, 2), None, "all replicas suffice");
}

#[test]
fn copying_replica_of_move_is_no_problem() {
    let moving = Ongoing { replicas: vec![4, 3, 2], adding: vec![4], removing: vec![2] };
    let problem = |in_sync: &[i32]| partition_problem(&partition(3, &[4, 3, 2], in_sync), Some(&moving), 1);
    assert_eq!(problem(&[3, 2]), None);
    assert_eq!(problem(&[3]).as_deref(), Some("1 of 2 replicas are in sync"));
    assert_eq!(problem(&[4, 3]).as_deref(), Some("1 of 2 replicas are in sync"), "broker 2 lags");
}

/// The description of a cluster with this broker alone.
fn described(asked: &Asked) -> DescribeClusterResponse {
    described_as(asked, &[1])
}

/// The description of a cluster with these brokers, all of which are this one.
fn described_as(asked: &Asked, ids: &[i32]) -> DescribeClusterResponse {
    let broker = |id: &i32| {
        let mut broker = DescribeClusterBroker::default();
        (broker.broker_id, broker.port) = (*id, i32::from(asked.port()));
        broker.host = StrBytes::from("127.0.0.1");
        broker
    };
    let mut response = DescribeClusterResponse::default();
    response.brokers = ids.iter().map(broker).collect();
    response
}

/// The exit of the command, and its output in JSON.
fn checked(broker: &FakeBroker) -> (Result<(), Failure>, Value) {
    let words = ["health", "--output", "json", "--brokers", broker.address()];
    let line = Line::try_parse_from(words).unwrap();
    let mut out = Vec::new();
    let ended = line.health.run(&line.brokers, &mut line.brokers.connect().unwrap(), &mut out);
    (ended, serde_json::from_slice(&out).unwrap())
}

#[test]
fn health_fails_without_active_controller() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[]),
        ApiKey::DescribeCluster => asked.answer(&described(asked)),
        ApiKey::DescribeQuorum => {
            let mut log = describe_quorum_response::PartitionData::default();
            log.leader_id = -1;
            let mut topic = describe_quorum_response::TopicData::default();
            topic.partitions = vec![log];
            let mut response = DescribeQuorumResponse::default();
            response.topics = vec![topic];
            asked.answer(&response)
        }
        _ => asked.answer(&DescribeLogDirsResponse::default()),
    });
    let (ended, verdict) = checked(&broker);
    assert!(matches!(ended, Err(Failure::Told)), "exit code 1: {ended:?}");
    let what = verdict["problems"][0]["what"].as_str().unwrap();
    assert!(what.contains("no controller is active"), "{verdict}");
}

#[test]
fn silent_controllers_are_a_problem() {
    // The broker closes the connection in place of the response of the controllers.
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[]),
        ApiKey::DescribeCluster => asked.answer(&described(asked)),
        ApiKey::DescribeQuorum => None,
        _ => asked.answer(&DescribeLogDirsResponse::default()),
    });
    let (ended, verdict) = checked(&broker);
    assert!(matches!(ended, Err(Failure::Told)), "exit code 1: {ended:?}");
    let what = verdict["problems"][0]["what"].as_str().unwrap();
    assert!(what.contains("the controllers did not respond"), "{verdict}");
}

#[test]
fn health_fails_without_permission_to_describe_cluster() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[("t", 1, &[1, 2])]),
        ApiKey::DescribeCluster => asked.answer(&described_as(asked, &[1, 2])),
        ApiKey::DescribeQuorum => {
            let mut response = DescribeQuorumResponse::default();
            response.error_code = ErrorCode::ClusterAuthorizationFailed.code();
            asked.answer(&response)
        }
        _ => {
            let mut response = DescribeLogDirsResponse::default();
            response.error_code = ErrorCode::ClusterAuthorizationFailed.code();
            asked.answer(&response)
        }
    });
    let (ended, verdict) = checked(&broker);
    assert!(matches!(ended, Err(Failure::Told)), "exit code 1: {ended:?}");
    let what = verdict["problems"][0]["what"].as_str().unwrap();
    assert!(what.contains("may not describe the cluster"), "{verdict}");
    assert_eq!(verdict["problems"].as_array().map(Vec::len), Some(1), "once for all brokers: {verdict}");
}

#[test]
fn partitions_with_the_same_problem_are_one_row() {
    let problem = |topic: Option<&str>, partition: Option<i32>, what: &str| Problem {
        broker: partition.is_none().then_some(4),
        topic: topic.map(str::to_owned),
        partition,
        what: what.to_owned(),
    };
    let lagging = "2 of 3 replicas are in sync";
    let mut problems = vec![problem(None, None, "fenced")];
    problems.extend((0..50).map(|index| problem(Some(["a", "b"][index as usize % 2]), Some(index), lagging)));
    problems.push(problem(Some("solo"), Some(0), NO_LEADER));
    problems.push(problem(Some("solo"), Some(3), NO_LEADER));
    let verdict = Verdict { healthy: false, problems };
    let rows = verdict.grouped();
    let expected = [
        ["4", "-", "-", "fenced"],
        ["-", "solo", "0,3", "no leader"],
        ["-", "2 topics", "50 partitions", lagging],
    ];
    assert_eq!(rows, expected);
}

#[test]
fn failed_directory_is_a_problem() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[]),
        _ => {
            let directory = |path: &'static str, code: i16| {
                let mut directory = DescribeLogDirsResult::default();
                (directory.log_dir, directory.error_code) = (StrBytes::from(path), code);
                directory
            };
            let mut response = DescribeLogDirsResponse::default();
            response.results =
                vec![directory("/d1", 0), directory("/d2", ErrorCode::KafkaStorageError.code())];
            asked.answer(&response)
        }
    });
    let line = Line::try_parse_from(["health", "-b", broker.address()]).unwrap();
    let problems = broker_problems(&mut line.brokers.connect().unwrap(), 1).unwrap();
    let cells: Vec<_> = problems.iter().map(Problem::cells).collect();
    assert_eq!(cells, [["1", "-", "-", "/d2: KAFKA_STORAGE_ERROR"]]);
}
