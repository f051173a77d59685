//! Tests of the problems of a cluster.

use clap::Parser;
use levada_client::fake_broker::FakeBroker;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::{DescribeClusterResponse, DescribeLogDirsResponse};
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
    assert_eq!(partition_problem(&partition(1, &[1], &[1])), None);
    assert_eq!(partition_problem(&partition(-1, &[1], &[1])), Some("no leader".to_owned()));
    let lagging = partition_problem(&partition(1, &[1, 2], &[1]));
    assert_eq!(lagging, Some("1 of 2 replicas are in sync".to_owned()));
}

#[test]
fn health_fails_without_permission_to_describe_cluster() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[]),
        ApiKey::DescribeCluster => {
            let mut broker = DescribeClusterBroker::default();
            (broker.broker_id, broker.port) = (1, i32::from(asked.port()));
            broker.host = StrBytes::from("127.0.0.1");
            let mut response = DescribeClusterResponse::default();
            response.brokers = vec![broker];
            asked.answer(&response)
        }
        _ => {
            let mut response = DescribeLogDirsResponse::default();
            response.error_code = ErrorCode::ClusterAuthorizationFailed.code();
            asked.answer(&response)
        }
    });
    let words = ["health", "--output", "json", "--brokers", broker.address()];
    let line = Line::try_parse_from(words).unwrap();
    let mut out = Vec::new();
    let ended = line.health.run(&mut line.brokers.connect().unwrap(), &mut out);
    assert!(matches!(ended, Err(Failure::Told)), "exit code 1: {ended:?}");
    let verdict: Value = serde_json::from_slice(&out).unwrap();
    let what = verdict["problems"][0]["what"].as_str().unwrap();
    assert!(what.contains("may not describe the cluster"), "{verdict}");
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
