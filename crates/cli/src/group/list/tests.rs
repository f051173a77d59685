//! Tests of the list with members and lag.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use clap::Parser;
use levada_client::fake_broker::{Asked, DEAD, FakeBroker};
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::consumer_group_describe_response::{self, Member};
use levada_wire::messages::list_groups_response::ListedGroup as Listed;
use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use levada_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use levada_wire::messages::{
    ConsumerGroupDescribeResponse, ListGroupsResponse, ListOffsetsResponse, OffsetFetchResponse,
};
use serde_json::{Value, json};

use super::*;
use crate::cluster::BrokerArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    list: List,
}

const GROUPS: [&str; 3] = ["idle", "late", "refused"];

fn list(asked: &Asked) -> Option<Bytes> {
    let mut response = ListGroupsResponse::default();
    response.groups = GROUPS
        .iter()
        .map(|id| {
            let mut group = Listed::default();
            (group.group_id, group.group_type) = (StrBytes::from(*id), StrBytes::from("consumer"));
            group
        })
        .collect();
    asked.answer(&response)
}

/// The group `late` has two members and has read 3 of the 10 records of a partition.
fn describe(asked: &Asked) -> Option<Bytes> {
    let mut response = ConsumerGroupDescribeResponse::default();
    response.groups = GROUPS
        .iter()
        .map(|id| {
            let mut group = consumer_group_describe_response::DescribedGroup::default();
            group.group_id = StrBytes::from(*id);
            match *id {
                "late" => group.members = vec![Member::default(); 2],
                "refused" => group.error_code = ErrorCode::GroupAuthorizationFailed.code(),
                _ => {}
            }
            group
        })
        .collect();
    asked.answer(&response)
}

fn committed(asked: &Asked) -> Option<Bytes> {
    let mut response = OffsetFetchResponse::default();
    response.groups = GROUPS
        .iter()
        .map(|id| {
            let mut group = OffsetFetchResponseGroup::default();
            group.group_id = StrBytes::from(*id);
            match *id {
                "late" => {
                    let partition = |index| {
                        let mut partition = OffsetFetchResponsePartitions::default();
                        (partition.partition_index, partition.committed_offset) = (index, 3);
                        partition
                    };
                    let mut topic = OffsetFetchResponseTopics::default();
                    (topic.name, topic.partitions) = (StrBytes::from("t"), vec![partition(0), partition(1)]);
                    group.topics = vec![topic];
                }
                "refused" => group.error_code = ErrorCode::GroupAuthorizationFailed.code(),
                _ => {}
            }
            group
        })
        .collect();
    asked.answer(&response)
}

fn ends(asked: &Asked) -> Option<Bytes> {
    let mut partition = ListOffsetsPartitionResponse::default();
    partition.offset = 10;
    let mut topic = ListOffsetsTopicResponse::default();
    (topic.name, topic.partitions) = (StrBytes::from("t"), vec![partition]);
    let mut response = ListOffsetsResponse::default();
    response.topics = vec![topic];
    asked.answer(&response)
}

fn listed(broker: &FakeBroker, option: &[&str]) -> Value {
    let words = ["list", "--output", "json", "-b", broker.address()];
    let line = Line::try_parse_from(words.iter().chain(option)).unwrap();
    let mut out = Vec::new();
    line.list.run(&mut line.brokers.connect().unwrap(), &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn lag_and_members_need_few_requests() {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[("t", 1, &[1])]),
        ApiKey::ListGroups => list(asked),
        api => {
            REQUESTS.fetch_add(1, Ordering::Relaxed);
            match api {
                ApiKey::ConsumerGroupDescribe => describe(asked),
                ApiKey::OffsetFetch => committed(asked),
                ApiKey::ListOffsets => ends(asked),
                _ => None,
            }
        }
    });
    let rows = listed(&broker, &["--lag"]);
    let shown = |row: &Value| [row["group"].clone(), row["members"].clone(), row["lag"].clone()];
    let shown: Vec<_> = rows.as_array().unwrap().iter().map(shown).collect();
    let expected = [
        [json!("late"), json!(2), json!(7)],
        [json!("idle"), json!(0), Value::Null],
        [json!("refused"), Value::Null, Value::Null],
    ];
    assert_eq!(shown, expected, "the largest lag first");
    assert_eq!(REQUESTS.load(Ordering::Relaxed), 3, "one of each kind for three groups");
    let rows = listed(&broker, &[]);
    assert_eq!(rows[0].get("lag"), None, "{rows}");
    assert_eq!(REQUESTS.load(Ordering::Relaxed), 3, "only --lag asks");
}

#[test]
fn dead_broker_hides_no_other_group() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[("t", 1, &[1, DEAD])]),
        ApiKey::ListGroups => list(asked),
        ApiKey::ConsumerGroupDescribe => describe(asked),
        ApiKey::OffsetFetch => committed(asked),
        ApiKey::ListOffsets => ends(asked),
        _ => None,
    });
    let rows = listed(&broker, &["--lag"]);
    let names: Vec<&str> = rows.as_array().unwrap().iter().filter_map(|row| row["group"].as_str()).collect();
    assert_eq!(names, ["late", "idle", "refused"]);
    assert_eq!(rows[0]["lag"], 7, "the end of t/1 is not known: {rows}");
}
