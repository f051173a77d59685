//! Encoded topics in responses of every version.

use super::*;
use crate::messages::StrBytes;
use crate::messages::metadata_response::{MetadataResponseBroker, MetadataResponsePartition};
use crate::{Uuid, encode_response};

fn topic(version: i16, number: u8, partitions: i32) -> MetadataResponseTopic {
    let mut topic = MetadataResponseTopic::default();
    topic.name = Some(StrBytes::from(format!("topic-{number}")));
    topic.topic_id = if version >= 10 { Uuid::from_bytes([number; 16]) } else { Uuid::ZERO };
    topic.is_internal = version >= 1 && number == 2;
    let partition = |index| {
        let mut partition = MetadataResponsePartition::default();
        (partition.partition_index, partition.leader_id) = (index, 7);
        (partition.replica_nodes, partition.isr_nodes) = (vec![7, 8], vec![7]);
        partition.leader_epoch = if version >= 7 { 4 } else { -1 };
        partition
    };
    topic.partitions = (0..partitions).map(partition).collect();
    topic
}

#[test]
fn encoded_metadata_topics_match_the_codec() {
    for version in 0..=13 {
        // More topics than one byte counts.
        for count in [0, 1, 3, 200] {
            let mut response = MetadataResponse::default();
            let mut broker = MetadataResponseBroker::default();
            broker.host = StrBytes::from("somewhere");
            response.brokers = vec![broker];
            let topics = (0..count).map(|number| topic(version, number, i32::from(number % 5)));
            let encoded = topics.clone().map(|topic| EncodedTopic::new(topic, version).unwrap().unwrap());
            let answer = MetadataAnswer { response: response.clone(), encoded: encoded.collect() };
            response.topics = topics.collect();
            let expected = encode_response(3, version, &response).unwrap();
            assert_eq!(encode_response(3, version, &answer).unwrap(), expected, "{version}, {count} topics");
            let plain = MetadataAnswer::from(response);
            assert_eq!(encode_response(3, version, &plain).unwrap(), expected, "{version}, {count} topics");
        }
    }
}

#[test]
fn topics_with_failed_partitions_stay_plain() {
    let mut failed = topic(13, 1, 2);
    failed.partitions[1].error_code = 5;
    assert_eq!(EncodedTopic::new(failed, 13).unwrap(), None);
    let mut unknown = topic(13, 1, 0);
    unknown.error_code = 3;
    let encoded = EncodedTopic::new(unknown, 13).unwrap().unwrap();
    assert_eq!((encoded.error_code(), encoded.partitions()), (3, 0));
}
