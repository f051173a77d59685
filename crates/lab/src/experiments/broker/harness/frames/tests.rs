//! Frames and the positions of their fields, compared with the codec.

use levada_base::batch::{check, check_stored};
use levada_wire::fetch::{FetchResponse, FetchedPartition, FetchedTopic};
use levada_wire::gather::{HoleLen, Piece};
use levada_wire::produce::{ProduceResponse, ProducedPartition, ProducedTopic};

use super::*;

fn place() -> TopicPartition {
    TopicPartition { topic: "some-topic".to_owned(), partition: 3 }
}

#[test]
fn generated_batches_are_valid_and_near_wanted_size() {
    for (len, record_len) in [
        (1 << 10, 1 << 10),
        (4 << 10, 1 << 10),
        (16 << 10, 1 << 10),
        (1 << 20, 1 << 10),
        (190, 100),
        (1114, 1024),
    ] {
        let (bytes, count) = batch(len, record_len, 7).unwrap();
        let view = check(&bytes).unwrap();
        assert_eq!(view.record_count() as usize, count);
        assert!(bytes.len() <= len && bytes.len() + 64 >= len, "{} of {len}", bytes.len());
    }
}

#[test]
fn offset_is_found_in_a_produce_response() {
    let partition = |error_code| ProducedPartition {
        index: 3,
        error_code,
        base_offset: 77,
        ..ProducedPartition::default()
    };
    let response = |error_code| {
        let topic = ProducedTopic {
            name: "some-topic".into(),
            partitions: vec![partition(error_code)],
            ..ProducedTopic::default()
        };
        let response = ProduceResponse { topics: vec![topic], ..ProduceResponse::default() };
        response.encode(1, PRODUCE_VERSION).unwrap().slice(4..)
    };
    assert_eq!(produced(&response(0), &place()).unwrap(), 77);
    assert!(produced(&response(6), &place()).unwrap_err().to_string().contains("code 6"));
    assert!(produced(&[0; 20], &place()).is_err());
}

struct Hole(Bytes);

impl HoleLen for Hole {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

#[test]
fn records_are_found_in_a_fetch_response() {
    let records = batch(500, 100, 1).unwrap().0.freeze();
    let response = |error_code| {
        let partition =
            FetchedPartition { error_code, records: Some(Hole(records.clone())), ..FetchedPartition::new(3) };
        let topic = FetchedTopic {
            name: "some-topic".into(),
            topic_id: levada_wire::Uuid::ZERO,
            partitions: vec![partition],
        };
        let response = FetchResponse {
            throttle_time_ms: 0,
            error_code: 0,
            session_id: 0,
            topics: vec![topic],
            node_endpoints: vec![],
        };
        let pieces = response.encode(1, FETCH_VERSION).unwrap().into_pieces().into_iter();
        pieces
            .flat_map(|piece| match piece {
                Piece::Bytes(bytes) | Piece::Hole(Hole(bytes)) => bytes,
            })
            .collect::<Vec<u8>>()
    };
    let whole = response(0);
    assert_eq!(whole.len(), fetched_overhead(&place()) + records.len());
    let (len, found) = fetched(&whole[4..], &place()).unwrap();
    assert_eq!((len, found), (records.len(), &records[..]));
    check_stored(found).unwrap();
    assert!(fetched(&response(1)[4..], &place()).is_err());
    assert!(fetched(&whole[4..40], &place()).is_err());
}

#[test]
fn fetch_offset_is_at_its_expected_position() {
    let wanted = Wanted { offset: 0x0123_4567_89ab, max_bytes: 1 << 20, max_wait_ms: 5 };
    let frame = fetch(&place(), wanted).unwrap();
    assert_eq!(i64_at(&frame, frame.len() - FETCH_OFFSET_FROM_END), Some(wanted.offset));
}
