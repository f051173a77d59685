//! Tests of `topic trim` with a leader that refuses.

use clap::Parser;
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use levada_wire::messages::{DeleteRecordsResponse, ListOffsetsRequest, ListOffsetsResponse};
use serde_json::{Value, json};

use super::*;
use crate::cluster::BrokerArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    trim: Trim,
}

/// Every log ends at offset 7.
fn ends(request: &ListOffsetsRequest) -> ListOffsetsResponse {
    let mut topic = ListOffsetsTopicResponse::default();
    topic.name = request.topics[0].name.clone();
    for asked in &request.topics[0].partitions {
        let mut one = ListOffsetsPartitionResponse::default();
        (one.partition_index, one.offset) = (asked.partition_index, 7);
        topic.partitions.push(one);
    }
    let mut response = ListOffsetsResponse::default();
    response.topics = vec![topic];
    response
}

/// The leader of partition 1 refuses.
fn deleted(request: &DeleteRecordsRequest) -> DeleteRecordsResponse {
    let asked = &request.topics[0].partitions[0];
    let mut one = DeleteRecordsPartitionResult::default();
    (one.partition_index, one.low_watermark) = (asked.partition_index, asked.offset);
    one.error_code = if asked.partition_index == 1 { ErrorCode::NotLeaderOrFollower.code() } else { 0 };
    let mut topic = DeleteRecordsTopicResult::default();
    topic.name = request.topics[0].name.clone();
    topic.partitions = vec![one];
    let mut response = DeleteRecordsResponse::default();
    response.topics = vec![topic];
    response
}

#[test]
fn trim_shows_trimmed_partitions_despite_failure() {
    let broker = FakeBroker::start(|asked: &Asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[("t", 1, &[1, 1, 1])]),
        ApiKey::ListOffsets => asked.answer(&ends(&asked.decoded())),
        _ => asked.answer(&deleted(&asked.decoded())),
    });
    let words = ["trim", "t", "--to", "latest", "--yes", "--output", "json", "-b", broker.address()];
    let line = Line::try_parse_from(words).unwrap();
    let mut out = Vec::new();
    let ended = line.trim.run(&mut line.brokers.connect().unwrap(), &mut out);
    assert!(matches!(ended, Err(Failure::Told)), "{ended:?}");
    let row = |partition: i32| json!({ "topic": "t", "partition": partition, "start_offset": 7 });
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), json!([row(0), row(2)]));
}
