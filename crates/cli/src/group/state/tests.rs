//! Tests of descriptions by brokers that do not serve every API of groups.

use clap::Parser;
use levada_client::fake_broker::FakeBroker;
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_groups_response::DescribedGroup as DescribedClassicGroup;
use levada_wire::messages::{ConsumerGroupDescribeResponse, DescribeGroupsResponse};

use super::*;
use crate::cluster::BrokerArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    brokers: BrokerArgs,
}

#[test]
fn classic_group_is_described_without_consumer_group_api() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[]),
        ApiKey::FindCoordinator => asked.coordinator(),
        ApiKey::ConsumerGroupDescribe => {
            let mut group = DescribedGroup::default();
            group.error_code = ErrorCode::UnsupportedVersion.code();
            let mut response = ConsumerGroupDescribeResponse::default();
            response.groups = vec![group];
            asked.answer(&response)
        }
        _ => {
            let mut group = DescribedClassicGroup::default();
            (group.group_state, group.protocol_type) = (StrBytes::from(EMPTY), StrBytes::from(CONSUMER));
            let mut response = DescribeGroupsResponse::default();
            response.groups = vec![group];
            asked.answer(&response)
        }
    });
    let line = Line::try_parse_from(["group", "-b", broker.address()]).unwrap();
    let found = describe(&mut line.brokers.connect().unwrap(), "g");
    let group = found.unwrap().unwrap();
    assert_eq!((group.kind, group.is_idle()), (CLASSIC, true));
}
