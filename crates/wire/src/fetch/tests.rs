//! Tests of `fetch`.

use kafka_wire::{fetch_request, fetch_response};

use super::*;
use crate::codec;
use crate::gather::Piece;
use crate::golden;
use crate::samples::{Random, samples};

const VERSIONS: std::ops::RangeInclusive<i16> = 4..=18;

/// The result of our decoder that the codec crate's message should lead to.
fn request(message: fetch_request::FetchRequest, version: i16) -> FetchRequest {
    let tagged = message.replica_state;
    FetchRequest {
        cluster_id: message.cluster_id,
        replica_id: if version < 15 { message.replica_id } else { tagged.replica_id },
        replica_epoch: tagged.replica_epoch,
        max_wait_ms: message.max_wait_ms,
        min_bytes: message.min_bytes,
        max_bytes: message.max_bytes,
        isolation_level: message.isolation_level,
        session_id: message.session_id,
        session_epoch: message.session_epoch,
        topics: message.topics.into_iter().map(fetch_topic).collect(),
        forgotten: message.forgotten_topics_data.into_iter().map(forgotten).collect(),
        rack_id: message.rack_id,
    }
}

fn fetch_topic(topic: fetch_request::FetchTopic) -> FetchTopic {
    let partition = |partition: fetch_request::FetchPartition| FetchPartition {
        index: partition.partition,
        current_leader_epoch: partition.current_leader_epoch,
        fetch_offset: partition.fetch_offset,
        last_fetched_epoch: partition.last_fetched_epoch,
        log_start_offset: partition.log_start_offset,
        max_bytes: partition.partition_max_bytes,
        replica_directory_id: partition.replica_directory_id,
        high_watermark: partition.high_watermark,
    };
    let partitions = topic.partitions.into_iter().map(partition).collect();
    FetchTopic { name: topic.topic, topic_id: topic.topic_id, partitions }
}

fn forgotten(topic: fetch_request::ForgottenTopic) -> ForgottenTopic {
    ForgottenTopic { name: topic.topic, topic_id: topic.topic_id, partitions: topic.partitions }
}

fn response(message: fetch_response::FetchResponse) -> FetchResponse<Bytes> {
    let topic = |topic: fetch_response::FetchableTopicResponse| FetchedTopic {
        name: topic.topic,
        topic_id: topic.topic_id,
        partitions: topic.partitions.into_iter().map(fetched).collect(),
    };
    let node = |node: fetch_response::NodeEndpoint| NodeEndpoint {
        node_id: node.node_id,
        host: node.host,
        port: node.port,
        rack: node.rack,
    };
    FetchResponse {
        throttle_time_ms: message.throttle_time_ms,
        error_code: message.error_code,
        session_id: message.session_id,
        topics: message.responses.into_iter().map(topic).collect(),
        node_endpoints: message.node_endpoints.into_iter().map(node).collect(),
    }
}

fn fetched(partition: fetch_response::PartitionData) -> FetchedPartition<Bytes> {
    let transaction = |transaction: fetch_response::AbortedTransaction| AbortedTransaction {
        producer_id: transaction.producer_id,
        first_offset: transaction.first_offset,
    };
    let (diverging, leader) = (partition.diverging_epoch, partition.current_leader);
    FetchedPartition {
        index: partition.partition_index,
        error_code: partition.error_code,
        high_watermark: partition.high_watermark,
        last_stable_offset: partition.last_stable_offset,
        log_start_offset: partition.log_start_offset,
        aborted: partition.aborted_transactions.map(|all| all.into_iter().map(transaction).collect()),
        preferred_read_replica: partition.preferred_read_replica,
        diverging_epoch: (diverging != Default::default())
            .then_some(EpochEnd { epoch: diverging.epoch, end_offset: diverging.end_offset }),
        current_leader: (leader != Default::default())
            .then_some(LeaderEpoch { leader_id: leader.leader_id, leader_epoch: leader.leader_epoch }),
        snapshot_id: (partition.snapshot_id != Default::default()).then_some(SnapshotId {
            end_offset: partition.snapshot_id.end_offset,
            epoch: partition.snapshot_id.epoch,
        }),
        // Null and empty mean the same.
        records: partition.records.filter(|records| !records.is_empty()),
    }
}

fn flatten(gather: Gather<Bytes>) -> Bytes {
    let len = gather.len();
    let bytes: Vec<u8> = gather
        .into_pieces()
        .into_iter()
        .flat_map(|piece| match piece {
            Piece::Bytes(bytes) | Piece::Hole(bytes) => bytes,
        })
        .collect();
    assert_eq!(bytes.len() as u64, len);
    assert_eq!(bytes[..4], (bytes.len() as u32 - 4).to_be_bytes());
    bytes.into()
}

#[test]
fn requests_agree_with_the_codec() {
    for version in VERSIONS {
        for (message, bytes) in samples::<fetch_request::FetchRequest>(version, 40) {
            let found = FetchRequest::decode(bytes.clone(), version).unwrap();
            assert_eq!(found, request(message, version), "version {version}: {bytes:02x?}");
            let longer = Bytes::from([&bytes, &b"more"[..]].concat());
            assert_eq!(FetchRequest::decode(longer, version).unwrap(), found, "bytes after the end");
        }
    }
}

#[test]
fn responses_agree_with_the_codec() {
    for version in VERSIONS {
        for (message, _) in samples::<fetch_response::FetchResponse>(version, 40) {
            let ours = response(message);
            let frame = flatten(ours.clone().encode(7, version).unwrap());
            let (correlation_id, theirs) = codec::decode_response(frame.slice(4..), version).unwrap();
            assert_eq!((correlation_id, response(theirs)), (7, ours), "version {version}");
        }
    }
}

#[test]
fn responses_decode_as_the_codec_does() {
    for version in VERSIONS {
        for (message, bytes) in samples::<fetch_response::FetchResponse>(version, 40) {
            let header: &[u8] = if version < 12 { &[0, 0, 0, 7] } else { &[0, 0, 0, 7, 0] };
            let frame = Bytes::from([header, &bytes].concat());
            let expected = response(message);
            let (correlation_id, found) = FetchResponse::decode(frame.clone(), version).unwrap();
            assert_eq!((correlation_id, found), (7, expected.clone()), "version {version}: {bytes:02x?}");
            let again = flatten(expected.clone().encode(7, version).unwrap());
            assert_eq!(FetchResponse::decode(again.slice(4..), version).unwrap(), (7, expected));
            for end in 0..frame.len() {
                assert!(FetchResponse::decode(frame.slice(..end), version).is_err(), "cut at {end}");
            }
        }
    }
}

#[test]
fn damaged_fetch_response_is_decoded_like_the_codec() {
    let mut random = Random::new(2);
    for version in VERSIONS {
        for (_, bytes) in samples::<fetch_response::FetchResponse>(version, 4) {
            let header: &[u8] = if version < 12 { &[0, 0, 0, 7] } else { &[0, 0, 0, 7, 0] };
            for _ in 0..60 {
                let mut changed = [header, &bytes].concat();
                let at = header.len() + random.below(bytes.len());
                changed[at] = random.next() as u8;
                let changed = Bytes::from(changed);
                let expected = codec::decode_response(changed.clone(), version);
                match FetchResponse::decode(changed, version) {
                    Ok((_, found)) => assert_eq!(found, response(expected.unwrap().1)),
                    Err(_) => assert!(expected.is_err()),
                }
            }
        }
    }
}

#[test]
fn replica_fetch_requests_round_trip() {
    for version in LOWEST_ENCODED..=18 {
        for (message, _) in samples::<fetch_request::FetchRequest>(version, 40) {
            let ours = request(message, version);
            let frame = ours.encode(9, "levada", version).unwrap();
            assert_eq!(frame[..4], (frame.len() as u32 - 4).to_be_bytes());
            let mut body = BytesMut::from(&frame[4..]);
            let header = crate::RequestHeader::decode(&mut body).unwrap();
            assert_eq!((header.correlation_id, header.client_id.as_deref()), (9, Some("levada")));
            assert_eq!((header.api, header.version), (ApiKey::Fetch, version));
            assert_eq!(FetchRequest::decode(body.freeze(), version).unwrap(), ours, "version {version}");
        }
        assert!(matches!(
            request(Default::default(), version).encode(1, "", LOWEST_ENCODED - 1),
            Err(EncodeError::Version { .. })
        ));
    }
}

#[test]
fn a_replica_omits_fields_of_later_versions() {
    let frame = |version: i16, change: &dyn Fn(&mut FetchRequest)| {
        let mut message = fetch_request::FetchRequest::default();
        let mut topic = fetch_request::FetchTopic::default();
        topic.partitions = vec![fetch_request::FetchPartition::default()];
        message.topics = vec![topic];
        let mut request = request(message, version);
        change(&mut request);
        request.encode(1, "", version).unwrap()
    };
    let plain = |version| frame(version, &|_| ());
    let has_epoch = |version| frame(version, &|request| request.replica_epoch = 5) != plain(version);
    let has_directory = |version| {
        let directory = Uuid::from_bytes([7; 16]);
        let change = |request: &mut FetchRequest| {
            request.topics[0].partitions[0].replica_directory_id = directory;
        };
        frame(version, &change) != plain(version)
    };
    let with_high_watermark = |version| {
        frame(version, &|request: &mut FetchRequest| request.topics[0].partitions[0].high_watermark = 5)
    };
    assert_eq!([14, 15].map(has_epoch), [false, true]);
    assert_eq!([16, 17].map(has_directory), [false, true]);
    assert_eq!(with_high_watermark(17), plain(17));
    assert_eq!(with_high_watermark(18).len(), plain(18).len() + 10, "a tag, its length and the value");
}

#[test]
fn recorded_frames_round_trip() {
    let mut versions = std::collections::BTreeSet::new();
    for (header, sent, answer) in golden::exchanges() {
        if header.api != ApiKey::Fetch {
            continue;
        }
        let version = header.version;
        versions.insert(version);
        let mut body = BytesMut::from(&sent[..]);
        crate::RequestHeader::decode(&mut body).unwrap();
        let body = body.freeze();
        let theirs = codec::decode(body.clone(), version).unwrap();
        assert_eq!(FetchRequest::decode(body, version).unwrap(), request(theirs, version));
        let (correlation_id, theirs) = codec::decode_response(answer.clone(), version).unwrap();
        assert_eq!(
            FetchResponse::decode(answer.clone(), version).unwrap(),
            (correlation_id, response(theirs))
        );
        let (_, theirs) = codec::decode_response(answer.clone(), version).unwrap();
        let again = flatten(response(theirs).encode(correlation_id, version).unwrap());
        assert_eq!(again[4..], answer, "version {version}");
    }
    assert!(VERSIONS.eq(versions));
}

#[test]
fn fetch_frames_alternate_bytes_and_records() {
    let partition = |index, records| FetchedPartition {
        records: Some(Bytes::from_static(records)),
        ..FetchedPartition::new(index)
    };
    let response = FetchResponse {
        throttle_time_ms: 0,
        error_code: 0,
        session_id: 0,
        topics: vec![FetchedTopic {
            name: StrBytes::from("t"),
            topic_id: Uuid::ZERO,
            partitions: vec![partition(0, b"first"), partition(1, b""), partition(2, b"second")],
        }],
        node_endpoints: Vec::new(),
    };
    for version in VERSIONS {
        let pieces = response.clone().encode(7, version).unwrap().into_pieces();
        let holes: Vec<_> = pieces.iter().map(|piece| matches!(piece, Piece::Hole(_))).collect();
        // Up to version 11 nothing follows the last partition's records; from 12 on tagged fields
        // do.
        let expected: &[bool] =
            if version < 12 { &[false, true, false, true] } else { &[false, true, false, true, false] };
        assert_eq!(holes, expected, "version {version}");
    }
}

/// A hole of any length that holds nothing.
#[derive(Debug)]
struct Claim(u64);

impl HoleLen for Claim {
    fn len(&self) -> u64 {
        self.0
    }
}

#[test]
fn frames_above_two_gigabytes_are_refused() {
    let encode = |lengths: &[u64]| {
        let partition =
            |len: &u64| FetchedPartition { records: Some(Claim(*len)), ..FetchedPartition::new(0) };
        let partitions = lengths.iter().map(partition).collect();
        let topic = FetchedTopic { name: StrBytes::from("t"), topic_id: Uuid::ZERO, partitions };
        let response = FetchResponse {
            throttle_time_ms: 0,
            error_code: 0,
            session_id: 0,
            topics: vec![topic],
            node_endpoints: Vec::new(),
        };
        response.encode(7, 12).map(|gather| gather.len())
    };
    assert!(encode(&[1 << 30]).unwrap() > 1 << 30);
    assert!(matches!(encode(&[1 << 30, 1 << 30]), Err(EncodeError::TooLarge { .. })));
    assert!(matches!(encode(&[1 << 31]), Err(EncodeError::TooLarge { .. })));
}

#[test]
fn hostile_claims_are_refused() {
    #[track_caller]
    fn check(version: i16, body: &[&[u8]]) {
        let found = FetchRequest::decode(Bytes::from(body.concat()), version);
        assert!(matches!(found, Err(DecodeError::Malformed(_))), "{found:?}");
    }
    let many = &[0x7f, 0xff, 0xff, 0xff];
    let many_compact = &[0xff, 0xff, 0xff, 0xff, 0x0f];
    check(4, &[&[0; 17], many]);
    check(4, &[&[0; 17], b"\0\0\0\x01\0\x01a", many]);
    check(7, &[&[0; 25], &[0; 4], many]);
    check(11, &[&[0; 25], &[0; 8], b"\x7f\xff"]);
    check(12, &[&[0; 25], many_compact]);
    check(12, &[&[0; 25], b"\x01", many_compact]);
    check(12, &[&[0; 25], b"\x01\x01\x01", many_compact]);
    // The replica state's tag claims more, and less, than it holds.
    check(15, &[&[0; 21], b"\x01\x01\x01\x01\x01\x0e", &[0; 14]]);
    check(15, &[&[0; 21], b"\x01\x01\x01\x01\x01\x0c", &[0; 12]]);
    check(4, &[b""]);
}

#[test]
fn damaged_fetch_request_is_decoded_like_the_codec() {
    let mut random = Random::new(1);
    for version in VERSIONS {
        for (_, bytes) in samples::<fetch_request::FetchRequest>(version, 4) {
            assert!(FetchRequest::decode(bytes.slice(..random.below(bytes.len())), version).is_err());
            for _ in 0..60 {
                let mut changed = bytes.to_vec();
                changed[random.below(bytes.len())] = random.next() as u8;
                let changed = Bytes::from(changed);
                let expected = codec::decode(changed.clone(), version);
                match FetchRequest::decode(changed, version) {
                    Ok(found) => assert_eq!(found, request(expected.unwrap(), version)),
                    Err(_) => assert!(expected.is_err()),
                }
            }
        }
    }
}
