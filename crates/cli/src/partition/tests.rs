//! Tests of plans from the command line.

use std::collections::BTreeMap;

use clap::Parser;
use levada_client::fake_broker::FakeBroker;
use levada_terminal::failure::Failure;
use levada_wire::ApiKey;
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::{DescribeClusterResponse, DescribeLogDirsResponse};

use super::balance::Balance;
use super::relocate::Relocate;
use crate::cluster::BrokerArgs;
use crate::layout::{Layout, Member, Placed};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    relocate: Relocate,
}

fn parsed(line: &str) -> Result<Line, clap::Error> {
    Line::try_parse_from(std::iter::once("move").chain(line.split(' ')))
}

/// The new replicas of partitions of clicks, each of which is on broker 1.
fn planned(line: &str) -> Result<BTreeMap<i32, Vec<i32>>, Failure> {
    let placed = Placed { leader: Some(1), replicas: vec![1], in_sync: vec![1], ..Placed::default() };
    let partitions = (0..3).map(|index| (("clicks".to_owned(), index), placed.clone())).collect();
    let brokers = (1..=3).map(|id| (id, Member::default())).collect();
    let moves = parsed(line).unwrap().relocate.planned(&Layout { brokers, partitions })?;
    Ok(moves.into_iter().map(|one| (one.partition, one.to)).collect())
}

#[test]
fn the_order_of_brokers_rotates_over_a_topic() {
    let rotated = planned("clicks --to 1,2,3").unwrap();
    assert_eq!(rotated, BTreeMap::from([(0, vec![1, 2, 3]), (1, vec![2, 3, 1]), (2, vec![3, 1, 2])]));
    assert_eq!(planned("clicks:1,2 --to 3,2").unwrap(), BTreeMap::from([(1, vec![3, 2]), (2, vec![3, 2])]));
    assert_eq!(planned("clicks --to 1").unwrap(), BTreeMap::new(), "all are there");
    assert!(planned("views --to 1").is_err());
}

#[test]
fn wrong_command_lines_of_moves_are_refused() {
    for line in [
        "--to 1",
        "clicks --plan p.json",
        "clicks --to 1 --cancel",
        "--all",
        "clicks --cancel --all",
        "--follow --execute",
        "clicks --to 1 --throttle fast",
        "clicks --to one",
    ] {
        assert!(parsed(line).is_err(), "{line}");
    }
    for line in ["--follow", "--cancel --all", "clicks:0 --cancel", "--plan - --execute --throttle 50MiB"] {
        assert!(parsed(line).is_ok(), "{line}: {:?}", parsed(line));
    }
}

#[derive(Debug, Parser)]
struct BalanceLine {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    balance: Balance,
}

#[test]
fn refused_balance_names_the_missing_right() {
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
    let line = BalanceLine::try_parse_from(["balance", "-b", broker.address()]).unwrap();
    let refused = line.balance.run(&mut line.brokers.connect().unwrap(), &mut Vec::new());
    let Err(Failure::Failed { what, next: Some(next), .. }) = refused else { panic!("{refused:?}") };
    assert!(what.starts_with("the sizes on broker 1 are not known: describe directories: "), "{what}");
    assert!(next.starts_with("levada acl add 'ANONYMOUS' --allow describe --cluster"), "{next}");
}
