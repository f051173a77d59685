//! Tests of brokers without directories in the list.

use clap::Parser;
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_wire::ApiKey;
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::{DescribeClusterResponse, DescribeLogDirsResponse};

use super::*;
use crate::layout::Member;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    logdirs: Args,
}

/// The description of a cluster with brokers 1 and 2.
fn described(asked: &Asked) -> DescribeClusterResponse {
    let broker = |id: i32| {
        let mut broker = DescribeClusterBroker::default();
        (broker.broker_id, broker.port) = (id, i32::from(asked.port()));
        broker.host = StrBytes::from("127.0.0.1");
        broker
    };
    let mut response = DescribeClusterResponse::default();
    response.brokers = vec![broker(1), broker(2)];
    response
}

#[test]
fn refusal_of_all_brokers_is_one_failure() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[("t", 1, &[1, 2])]),
        ApiKey::DescribeCluster => asked.answer(&described(asked)),
        _ => {
            let mut response = DescribeLogDirsResponse::default();
            response.error_code = ErrorCode::ClusterAuthorizationFailed.code();
            asked.answer(&response)
        }
    });
    let line = Line::try_parse_from(["logdirs", "-b", broker.address()]).unwrap();
    let mut cluster = line.logdirs.contact.connect().unwrap();
    let mut directories = Directories::ask(&mut cluster, [1, 2], None);
    let failures = directories.failures();
    let [Failure::Failed { next: Some(next), .. }] = failures.as_slice() else { panic!("{failures:?}") };
    assert!(next.contains("levada acl add 'ANONYMOUS' --allow describe --cluster"), "{next}");
    let mut out = Vec::new();
    assert!(matches!(line.logdirs.show(&mut cluster, &mut out), Err(Failure::Told)));
    assert_eq!(String::from_utf8_lossy(&out), "", "no header without rows");
}

#[test]
fn list_names_brokers_that_are_fenced() {
    let layout = |fenced: &[i32]| Layout {
        brokers: (1..=3)
            .map(|id| (id, Member { fenced: Some(fenced.contains(&id)), ..Member::default() }))
            .collect(),
        ..Layout::default()
    };
    assert_eq!(fenced(&layout(&[])), None);
    let said = fenced(&layout(&[2])).unwrap();
    assert!(said.starts_with("broker 2 is fenced"), "{said}");
    let said = fenced(&layout(&[2, 3])).unwrap();
    assert!(said.starts_with("brokers 2,3 are fenced"), "{said}");
}
