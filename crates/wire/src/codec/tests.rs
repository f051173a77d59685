//! Tests of `codec`.

use super::*;
use crate::RequestHeader;
use crate::messages::*;

mod cross_check;
mod golden;
mod hostile;

#[test]
fn response_header_follows_the_version() {
    #[track_caller]
    fn check<R: KafkaResponse + Default>(version: i16, expected: &[u8]) {
        assert_eq!(encode_response(7, version, &R::default()).unwrap(), expected);
    }
    // Heartbeat 3 is not flexible, 4 is: one byte of no tagged fields before the body and one after
    // it.
    check::<HeartbeatResponse>(3, b"\0\0\0\x0a\0\0\0\x07\0\0\0\0\0\0");
    check::<HeartbeatResponse>(4, b"\0\0\0\x0c\0\0\0\x07\0\0\0\0\0\0\0\0");
    // ApiVersions keeps the plain header although its body is flexible.
    check::<ApiVersionsResponse>(3, b"\0\0\0\x0c\0\0\0\x07\0\0\x01\0\0\0\0\0");
}

#[test]
fn ignorable_fields_unknown_to_version_are_dropped() {
    let mut response = HeartbeatResponse::default();
    response.throttle_time_ms = 5;
    assert!(encode_response(7, 0, &response).is_ok());
    let mut response = JoinGroupResponse::default();
    response.skip_assignment = true;
    assert!(encode_response(7, 9, &response).is_ok());
    assert!(matches!(encode_response(7, 8, &response), Err(EncodeError::Body(_))));
}

#[test]
fn topic_name_is_decoded_alone() {
    let body = Bytes::from_static(b"\x08a group\xff\xff");
    assert_eq!(decode_name(body.clone()).unwrap().as_str(), "a group");
    for end in 0..8 {
        assert!(decode_name(body.slice(..end)).is_err(), "{end} bytes");
    }
    assert!(decode_name(Bytes::from_static(b"\0")).is_err(), "null");
}

/// Versions in which an untouched response cannot be encoded.
#[track_caller]
fn check_default<R: KafkaResponse + Default>(expected: &[i16]) {
    let versions = R::SUPPORTED_VERSIONS;
    let refused: Vec<i16> = (versions.min().value()..=versions.max().value())
        .filter(|version| encode_response(7, *version, &R::default()).is_err())
        .collect();
    assert_eq!(refused, expected, "{}", R::NAME);
}

#[test]
fn untouched_responses_encode_in_every_version() {
    check_default::<ApiVersionsResponse>(&[]);
    check_default::<CreatePartitionsResponse>(&[]);
    check_default::<CreateTopicsResponse>(&[]);
    check_default::<DeleteGroupsResponse>(&[]);
    check_default::<DeleteTopicsResponse>(&[]);
    check_default::<DescribeClusterResponse>(&[]);
    check_default::<DescribeConfigsResponse>(&[]);
    check_default::<DescribeGroupsResponse>(&[]);
    check_default::<FindCoordinatorResponse>(&[]);
    check_default::<HeartbeatResponse>(&[]);
    check_default::<InitProducerIdResponse>(&[]);
    check_default::<JoinGroupResponse>(&[]);
    check_default::<LeaveGroupResponse>(&[]);
    check_default::<ListGroupsResponse>(&[]);
    check_default::<ListOffsetsResponse>(&[]);
    check_default::<MetadataResponse>(&[]);
    check_default::<OffsetCommitResponse>(&[]);
    check_default::<OffsetFetchResponse>(&[]);
    check_default::<OffsetForLeaderEpochResponse>(&[]);
    check_default::<SyncGroupResponse>(&[]);
}
