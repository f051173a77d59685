//! Tests of `produce`.

use kafka_wire::{produce_request, produce_response};
use proptest::prelude::*;

use super::*;
use crate::golden;
use crate::samples::samples;

const VERSIONS: std::ops::RangeInclusive<i16> = 3..=13;

/// The result of our decoder that the codec crate's message should lead to.
fn request(message: produce_request::ProduceRequest) -> ProduceRequest {
    let partition = |partition: produce_request::PartitionProduceData| ProducePartition {
        index: partition.index,
        records: partition.records.map(BytesMut::from),
    };
    let topic = |topic: produce_request::TopicProduceData| ProduceTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: topic.partition_data.into_iter().map(partition).collect(),
    };
    ProduceRequest {
        transactional_id: message.transactional_id,
        acks: message.acks,
        timeout_ms: message.timeout_ms,
        topics: message.topic_data.into_iter().map(topic).collect(),
    }
}

fn response(message: produce_response::ProduceResponse) -> ProduceResponse {
    let topic = |topic: produce_response::TopicProduceResponse| ProducedTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: topic.partition_responses.into_iter().map(produced).collect(),
    };
    let node = |node: produce_response::NodeEndpoint| NodeEndpoint {
        node_id: node.node_id,
        host: node.host,
        port: node.port,
        rack: node.rack,
    };
    ProduceResponse {
        topics: message.responses.into_iter().map(topic).collect(),
        throttle_time_ms: message.throttle_time_ms,
        node_endpoints: message.node_endpoints.into_iter().map(node).collect(),
    }
}

fn produced(partition: produce_response::PartitionProduceResponse) -> ProducedPartition {
    let error = |error: produce_response::BatchIndexAndErrorMessage| RecordError {
        batch_index: error.batch_index,
        message: error.batch_index_error_message,
    };
    let leader = partition.current_leader;
    ProducedPartition {
        index: partition.index,
        error_code: partition.error_code,
        base_offset: partition.base_offset,
        log_append_time_ms: partition.log_append_time_ms,
        log_start_offset: partition.log_start_offset,
        record_errors: partition.record_errors.into_iter().map(error).collect(),
        error_message: partition.error_message,
        current_leader: (leader != Default::default())
            .then_some(LeaderEpoch { leader_id: leader.leader_id, leader_epoch: leader.leader_epoch }),
    }
}

#[test]
fn requests_agree_with_the_codec() {
    for version in VERSIONS {
        for (message, bytes) in samples::<produce_request::ProduceRequest>(version, 40) {
            let found = ProduceRequest::decode(BytesMut::from(&bytes[..]), version).unwrap();
            assert_eq!(found, request(message), "version {version}: {bytes:02x?}");
        }
    }
}

#[test]
fn responses_agree_with_the_codec() {
    for version in VERSIONS {
        for (message, _) in samples::<produce_response::ProduceResponse>(version, 40) {
            let ours = response(message);
            let frame = ours.encode(7, version).unwrap();
            assert_eq!(frame[..4], (frame.len() as u32 - 4).to_be_bytes());
            let (correlation_id, theirs) = codec::decode_response(frame.slice(4..), version).unwrap();
            assert_eq!((correlation_id, response(theirs)), (7, ours), "version {version}");
        }
    }
}

#[test]
fn recorded_frames_round_trip() {
    let mut versions = std::collections::BTreeSet::new();
    for (header, mut sent, answer) in golden::exchanges() {
        if header.api != ApiKey::Produce {
            continue;
        }
        let version = header.version;
        versions.insert(version);
        let mut frame = BytesMut::from(&sent.split_to(sent.len())[..]);
        crate::RequestHeader::decode(&mut frame).unwrap();
        let theirs = codec::decode(frame.clone().freeze(), version).unwrap();
        assert_eq!(ProduceRequest::decode(frame, version).unwrap(), request(theirs));
        let (correlation_id, theirs) = codec::decode_response(answer.clone(), version).unwrap();
        assert_eq!(response(theirs).encode(correlation_id, version).unwrap()[4..], answer);
    }
    assert!(VERSIONS.eq(versions));
}

/// Version 9: transactional id, two topics, three ranges of records.
const TWO_TOPICS: &[u8] = b"\x03tx\xff\xff\0\0\0\x05\x03\
    \x02a\x03\0\0\0\x00\x05AAAA\0\0\0\0\x01\x04BBB\0\0\
    \x02b\x02\0\0\0\x07\x06CCCCC\0\0\0";

#[test]
fn records_stay_where_they_were_received() {
    let frame = BytesMut::from(TWO_TOPICS);
    let start = frame.as_ptr().addr();
    let mut request = ProduceRequest::decode(frame, 9).unwrap();
    assert_eq!(request.transactional_id.as_deref(), Some("tx"));
    assert_eq!((request.acks, request.timeout_ms), (-1, 5));
    let mut ranges = Vec::new();
    for topic in &mut request.topics {
        for partition in &mut topic.partitions {
            ranges.push((topic.name.to_string(), partition.index, partition.records.take().unwrap()));
        }
    }
    for (_, _, records) in &ranges {
        let at = TWO_TOPICS.windows(records.len()).position(|window| window == records).unwrap();
        assert_eq!(records.as_ptr().addr() - start, at);
    }
    // Each range may be written without touching its neighbours.
    for (_, _, records) in &mut ranges {
        records.fill(b'z');
    }
    let shown: Vec<_> =
        ranges.iter().map(|(name, index, records)| (&name[..], *index, &records[..])).collect();
    assert_eq!(shown, [("a", 0, &b"zzzz"[..]), ("a", 1, b"zzz"), ("b", 7, b"zzzzz")]);
    assert_eq!(request.topics[1].name, StrBytes::from("b"));
}

#[test]
fn versions_never_served_are_refused() {
    for version in [-1, 0, 2, 14] {
        let expected = DecodeError::UnsupportedVersion { api: ApiKey::Produce, version };
        assert_eq!(ProduceRequest::decode(BytesMut::from(TWO_TOPICS), version).unwrap_err(), expected);
    }
}

#[test]
fn hostile_claims_are_refused() {
    #[track_caller]
    fn check(version: i16, body: &[&[u8]]) {
        let found = ProduceRequest::decode(BytesMut::from(&body.concat()[..]), version);
        assert!(matches!(found, Err(DecodeError::Malformed(_))), "{found:?}");
    }
    let many = &[0x7f, 0xff, 0xff, 0xff];
    let many_compact = &[0xff, 0xff, 0xff, 0xff, 0x0f];
    check(3, &[b"\xff\xff\0\x01\0\0\0\x05", many]);
    check(3, &[b"\xff\xff\0\x01\0\0\0\x05\0\0\0\x01\0\x01a", many]);
    check(3, &[b"\xff\xff\0\x01\0\0\0\x05\0\0\0\x01\0\x01a\0\0\0\x01\0\0\0\0", many, b"abc"]);
    check(3, &[b"\xff\xff\0\x01\0\0\0\x05\0\0\0\x01\0\x01a\0\0\0\x01\0\0\0\0\xff\xff\xff\xfe"]);
    check(9, &[b"\0\0\x01\0\0\0\x05", many_compact]);
    check(9, &[b"\0\0\x01\0\0\0\x05\x02\x02a", many_compact]);
    check(9, &[b"\0\0\x01\0\0\0\x05\x02\x02a\x02\0\0\0\0", many_compact, b"abc"]);
    check(9, &[b"\0\0\x01\0\0\0\x05\x01", many_compact]);
    // Null where a name or an array must be.
    check(9, &[b"\0\0\x01\0\0\0\x05\x02\0"]);
    check(9, &[b"\0\0\x01\0\0\0\x05\0\0"]);
    check(9, &[b""]);
}

#[test]
fn produce_request_partition_count_is_limited() {
    #[track_caller]
    fn check(topics: i32, partitions: i32, expected: bool) {
        let mut body = BytesMut::from(&b"\xff\xff\0\x01\0\0\0\x05"[..]);
        body.extend_from_slice(&topics.to_be_bytes());
        for _ in 0..topics {
            body.extend_from_slice(b"\0\x01a");
            body.extend_from_slice(&partitions.to_be_bytes());
            // Eight bytes each; in memory it is five times that.
            body.extend_from_slice(&b"\0\0\0\0\xff\xff\xff\xff".repeat(partitions as usize));
        }
        assert_eq!(ProduceRequest::decode(body, 3).is_ok(), expected, "{topics} times {partitions}");
    }
    check(1, 262_143, true);
    check(1, 262_144, false);
    check(8, 30_000, true);
    check(8, 33_000, false);
}

#[test]
fn trailing_request_bytes_are_ignored() {
    let longer = [TWO_TOPICS, b"more"].concat();
    let plain = ProduceRequest::decode(BytesMut::from(TWO_TOPICS), 9).unwrap();
    let found = ProduceRequest::decode(BytesMut::from(&longer[..]), 9).unwrap();
    assert_eq!(found, plain);
}

proptest! {
    #[test]
    fn damaged_produce_requests_never_panic(cut in 0..TWO_TOPICS.len(), at in 0..TWO_TOPICS.len(), byte: u8, version in 3i16..=13) {
        prop_assert!(ProduceRequest::decode(BytesMut::from(&TWO_TOPICS[..cut]), 9).is_err());
        let mut changed = BytesMut::from(TWO_TOPICS);
        changed[at] = byte;
        let expected = codec::decode(changed.clone().freeze(), version);
        match ProduceRequest::decode(changed, version) {
            Ok(found) => prop_assert_eq!(found, request(expected.unwrap())),
            Err(_) => prop_assert!(expected.is_err()),
        }
    }
}
