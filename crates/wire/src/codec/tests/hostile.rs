//! Hostile bodies: refused immediately, and what is decoded stays within a small multiple of what
//! was sent.

use std::time::{Duration, Instant};

use super::*;
use crate::samples::{Random, samples};

/// A claim that nothing stands behind.
#[track_caller]
fn check<R: KafkaMessage + std::fmt::Debug>(version: i16, body: &[u8]) {
    let refused_in = || {
        let start = Instant::now();
        let found = decode::<R>(Bytes::copy_from_slice(body), version);
        assert!(matches!(found, Err(DecodeError::Malformed(_))), "{found:?}");
        start.elapsed()
    };
    // Reserving for 2^31 elements, or looping over them, would take far longer, if it ended at all.
    // A busy machine holds up one attempt, not each of them.
    assert!((0..5).any(|_| refused_in() < Duration::from_secs(1)));
}

#[test]
fn unbacked_counts_are_refused() {
    let many = &[0x7f, 0xff, 0xff, 0xff];
    let many_compact = &[0xff, 0xff, 0xff, 0xff, 0x0f];
    check::<MetadataRequest>(0, many);
    check::<MetadataRequest>(9, many_compact);
    check::<MetadataRequest>(4, &[many, &[0u8; 4][..]].concat());
    check::<ListGroupsRequest>(4, many_compact);
    check::<DescribeGroupsRequest>(0, many);
    // Nested: one topic, then a lie inside it.
    check::<ListOffsetsRequest>(1, &[&[0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b'a'][..], many].concat());
    check::<OffsetCommitRequest>(2, &[&[0; 18][..], many].concat());
    check::<CreateTopicsRequest>(5, &[&[2, 2, b'a', 0, 0, 0, 1, 0, 1][..], many_compact].concat());
    check::<DescribeConfigsRequest>(1, &[&[0, 0, 0, 1, 2, 0, 0][..], many].concat());
    // Strings, bytes and tagged fields.
    check::<HeartbeatRequest>(0, &[0x7f, 0xff, b'a']);
    check::<HeartbeatRequest>(4, many_compact);
    check::<SaslAuthenticateRequest>(0, many);
    check::<ListGroupsRequest>(3, many_compact);
    check::<ListGroupsRequest>(3, &[1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]);
}

/// A compact length and as many bytes.
fn compact(length: usize) -> Vec<u8> {
    let length_plus_one = length + 1;
    let prefix = [
        0x80 | (length_plus_one & 0x7f) as u8,
        0x80 | (length_plus_one >> 7 & 0x7f) as u8,
        (length_plus_one >> 14) as u8,
    ];
    [&prefix[..], &vec![b'a'; length]].concat()
}

#[test]
fn strings_are_no_longer_than_in_kafka() {
    #[track_caller]
    fn refused(what: &str, result: Result<(), DecodeError>) {
        let expected = "exceeds";
        let error = result.expect_err(what).to_string();
        assert!(error.contains("string") && error.contains(expected), "{what}: {error}");
    }
    fn heartbeat(length: usize) -> Result<(), DecodeError> {
        let body = [&compact(length)[..], &[0, 0, 0, 7, 2, b'm', 0, 0]].concat();
        decode::<HeartbeatRequest>(Bytes::from(body), 4).map(|_| ())
    }
    fn nullable(length: usize) -> Result<(), DecodeError> {
        // The group's instance id.
        let body = [&[2, b'g', 0, 0, 0, 7, 2, b'm'][..], &compact(length), &[0]].concat();
        decode::<HeartbeatRequest>(Bytes::from(body), 4).map(|_| ())
    }
    fn fetch(length: usize) -> Result<(), DecodeError> {
        let body = [&[0; 17 + 8][..], &[2], &compact(length), &[1, 0, 1, 1, 0]].concat();
        crate::fetch::FetchRequest::decode(Bytes::from(body), 12).map(|_| ())
    }
    fn cluster_id(length: usize) -> Result<(), DecodeError> {
        let string = compact(length);
        let size = [
            0x80 | (string.len() & 0x7f) as u8,
            0x80 | (string.len() >> 7 & 0x7f) as u8,
            (string.len() >> 14) as u8,
        ];
        let body = [&[0; 17 + 8][..], &[1, 1, 1, 1, 0], &size, &string].concat();
        crate::fetch::FetchRequest::decode(Bytes::from(body), 12).map(|_| ())
    }
    fn produce(length: usize) -> Result<(), DecodeError> {
        let body = [&compact(length)[..], &[0, 1, 0, 0, 0, 0, 1, 0]].concat();
        crate::produce::ProduceRequest::decode(bytes::BytesMut::from(&body[..]), 9).map(|_| ())
    }
    type Decode = fn(usize) -> Result<(), DecodeError>;
    let decoders: [(&str, Decode); 5] = [
        ("a string", heartbeat),
        ("a nullable one", nullable),
        ("Fetch", fetch),
        ("a tag of Fetch", cluster_id),
        ("Produce", produce),
    ];
    for (what, decode) in decoders {
        assert_eq!(decode(32_767), Ok(()), "{what}");
        refused(what, decode(32_768));
    }
    let bytes = [&compact(1 << 20)[..], &[0]].concat();
    assert_eq!(decode::<SaslAuthenticateRequest>(Bytes::from(bytes), 2).unwrap().auth_bytes.len(), 1 << 20);
}

#[test]
fn trailing_request_bytes_are_ignored() {
    let found = decode::<HeartbeatRequest>(Bytes::from_static(b"\0\x01g\0\0\0\x07\0\x01mmore"), 0).unwrap();
    assert_eq!((found.generation_id, found.member_id), (7, StrBytes::from("m")));
}

/// Maximum memory in bytes that one byte of the densest valid array costs.
const AMPLIFICATION: usize = 40;

#[track_caller]
fn check_dense<R: KafkaMessage>(version: i16, body: Vec<u8>) {
    let sent = body.len();
    let message = decode::<R>(Bytes::from(body), version).unwrap();
    let held = message.retained_size().heap_bytes();
    assert!(held < AMPLIFICATION * sent, "{held} bytes held for {sent} sent");
    assert!(held > sent, "the measure counts nothing");
}

#[test]
fn dense_arrays_cost_a_bounded_multiple() {
    let count = MAX_REQUEST_ELEMENTS - 1;
    let compact =
        [0x80 | (count + 1) as u8 & 0x7f, 0x80 | ((count + 1) >> 7) as u8, ((count + 1) >> 14) as u8];
    let plain = (count as u32).to_be_bytes();
    check_dense::<ListGroupsRequest>(4, [&compact[..], &vec![1; count], &[0]].concat());
    check_dense::<MetadataRequest>(9, [&compact[..], &[1, 0].repeat(count), &[0; 4]].concat());
    check_dense::<MetadataRequest>(0, [&plain[..], &vec![0; 2 * count]].concat());
    check_dense::<DescribeConfigsRequest>(4, [&compact[..], &[2, 1, 1, 0].repeat(count), &[0; 3]].concat());
    let too_many = (MAX_REQUEST_ELEMENTS as u32 + 1).to_be_bytes();
    let body = [&too_many[..], &vec![0; 2 * MAX_REQUEST_ELEMENTS + 2]].concat();
    assert!(decode::<MetadataRequest>(Bytes::from(body), 0).is_err());
}

/// An array and a flag mean the same however they are decoded, cut short and damaged as well.
fn check_each<R: KafkaMessage + std::fmt::Debug, E: KafkaDecode + PartialEq>(
    whole: impl Fn(R) -> (Vec<E>, bool),
) {
    let mut random = Random::new(2);
    for version in R::SUPPORTED_VERSIONS.min().value()..=R::SUPPORTED_VERSIONS.max().value() {
        for (_, bytes) in samples::<R>(version, 20) {
            let mut bodies = vec![bytes.clone(), bytes.slice(..random.below(bytes.len()))];
            for _ in 0..60 {
                let mut changed = bytes.to_vec();
                changed[random.below(bytes.len())] = random.next() as u8;
                bodies.push(Bytes::from(changed));
            }
            for body in bodies {
                let expected = decode::<R>(body.clone(), version).map(&whole);
                let found = decode_each::<R, E, E>(body, version, |element| element);
                assert!(found == expected, "version {version} of {}", R::NAME);
            }
        }
    }
}

#[test]
fn element_wise_decoding_equals_whole_decoding() {
    check_each(|request: AlterConfigsRequest| (request.resources, request.validate_only));
    check_each(|request: IncrementalAlterConfigsRequest| (request.resources, request.validate_only));
    check_each(|request: AlterClientQuotasRequest| (request.entries, request.validate_only));
}

/// Valid messages cut short are refused; with any byte changed they are refused or decoded, without
/// a panic.
fn check_damage<R: KafkaMessage>() {
    let mut random = Random::new(1);
    let versions = R::SUPPORTED_VERSIONS;
    for version in versions.min().value()..=versions.max().value() {
        for (_, bytes) in samples::<R>(version, 4) {
            assert!(decode::<R>(bytes.slice(..random.below(bytes.len())), version).is_err());
            for _ in 0..60 {
                let mut changed = bytes.to_vec();
                changed[random.below(bytes.len())] = random.next() as u8;
                if let Ok(message) = decode::<R>(Bytes::from(changed), version) {
                    assert!(message.encoded_len(ApiVersion::new(version)).is_ok());
                }
            }
        }
    }
}

#[test]
fn damaged_requests_never_panic() {
    check_damage::<MetadataRequest>();
    check_damage::<JoinGroupRequest>();
    check_damage::<OffsetCommitRequest>();
    check_damage::<CreateTopicsRequest>();
    check_damage::<OffsetFetchRequest>();
    check_damage::<DescribeConfigsRequest>();
}
