//! Tests of the deletion of a group that does not exist.

use clap::Parser;
use levada_client::fake_broker::FakeBroker;
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::consumer_group_describe_response::DescribedGroup;
use levada_wire::messages::describe_groups_response::DescribedGroup as DescribedClassicGroup;
use levada_wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use levada_wire::messages::{
    ConsumerGroupDescribeResponse, DescribeGroupsResponse, ListGroupsResponse, OffsetFetchResponse,
};

use super::*;
use crate::cluster::BrokerArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    delete: Delete,
}

#[test]
fn delete_offsets_if_exists_accepts_missing_group() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[]),
        ApiKey::FindCoordinator => asked.coordinator(),
        ApiKey::OffsetFetch => {
            let mut response = OffsetFetchResponse::default();
            response.groups = vec![OffsetFetchResponseGroup::default()];
            asked.answer(&response)
        }
        ApiKey::ConsumerGroupDescribe => {
            let mut group = DescribedGroup::default();
            group.error_code = ErrorCode::GroupIdNotFound.code();
            let mut response = ConsumerGroupDescribeResponse::default();
            response.groups = vec![group];
            asked.answer(&response)
        }
        ApiKey::DescribeGroups => {
            let mut group = DescribedClassicGroup::default();
            group.group_state = StrBytes::from("Dead");
            let mut response = DescribeGroupsResponse::default();
            response.groups = vec![group];
            asked.answer(&response)
        }
        _ => asked.answer(&ListGroupsResponse::default()),
    });
    let delete = |more: &[&str]| {
        let words = ["delete", "g", "--topic", "t", "--yes", "-b", broker.address()];
        let line = Line::try_parse_from(words.iter().chain(more)).unwrap();
        line.delete.run(&mut line.brokers.connect().unwrap(), &mut Vec::new())
    };
    let ended = delete(&["--if-exists"]);
    assert!(ended.is_ok(), "{ended:?}");
    assert!(matches!(delete(&[]), Err(Failure::Told)));
}
