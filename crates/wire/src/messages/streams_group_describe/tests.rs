//! Bytes of both messages, as the classes of Kafka 4.4.0 write them.

use bytes::Bytes;
use kafka_wire_core::KafkaEncode;

use super::*;
use crate::samples::samples;

#[test]
fn a_group_of_version_one_has_its_assignor() {
    let mut response = StreamsGroupDescribeResponse::default();
    let mut group = DescribedGroup { group_id: "g".into(), ..Default::default() };
    group.group_state = "Empty".into();
    (group.group_epoch, group.assignment_epoch) = (3, 2);
    (group.topology_description_status, group.assignor_name) = (1, Some("sticky".into()));
    response.groups.push(group);
    let encoded =
        |response: &StreamsGroupDescribeResponse, version| response.encode_to_bytes(ApiVersion::new(version));
    let body = encoded(&response, 1).unwrap();
    let mut expected = b"\0\0\0\0\x02\0\0\0\x02g\x06Empty\0\0\0\x03\0\0\0\x02\xff\x01\x80\0\0\0".to_vec();
    // No description, its status, the assignor, and the ends of the group and of the message.
    expected.extend(b"\xff\x01\x07sticky\0\0");
    assert_eq!(body[..], expected);
    let decoded = crate::decode::<StreamsGroupDescribeResponse>(Bytes::from(expected), 1).unwrap();
    assert_eq!(decoded, response);
    // The assignor is left out of version 0; a description cannot be.
    assert!(encoded(&response, 0).is_err());
    response.groups[0].topology_description_status = 0;
    assert_eq!(encoded(&response, 0).unwrap().len(), body.len() - 9);
    assert!(encoded(&response, 2).is_err());
}

#[test]
fn streams_describe_version_zero_matches_the_codec() {
    for (message, bytes) in samples::<CodecResponse>(0, 8) {
        let decoded = crate::decode::<StreamsGroupDescribeResponse>(bytes.clone(), 0).unwrap();
        let version = ApiVersion::new(0);
        let again = decoded.encode_to_bytes(version).unwrap();
        assert_eq!(again, message.encode_to_bytes(version).unwrap());
    }
}

#[test]
fn streams_describe_responses_round_trip() {
    for version in [0, 1] {
        let found = samples::<StreamsGroupDescribeResponse>(version, 8);
        assert!(!found.is_empty());
        for (message, _) in found {
            let bytes = message.encode_to_bytes(ApiVersion::new(version)).unwrap();
            assert_eq!(crate::decode::<StreamsGroupDescribeResponse>(bytes, version).unwrap(), message);
        }
    }
}

#[test]
fn requests_are_those_of_the_codec() {
    for version in [0, 1] {
        for (message, _) in samples::<CodecRequest>(version, 8) {
            let bytes = message.encode_to_bytes(ApiVersion::new(version)).unwrap();
            let decoded = crate::decode::<StreamsGroupDescribeRequest>(bytes.clone(), version).unwrap();
            assert_eq!(decoded.encode_to_bytes(ApiVersion::new(version)).unwrap(), bytes);
        }
    }
}
