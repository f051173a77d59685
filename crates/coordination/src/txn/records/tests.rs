//! Golden records of a real Kafka, the older version, and hostile bytes.

use bytes::{BufMut, Bytes, BytesMut};
use proptest::prelude::*;

use super::{Record, RecordError, Value};
use crate::txn::transaction::{Transaction, TxnState};

fn unhex(hex: &str) -> Bytes {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Key and value of every golden record, in the order of the logs.
pub(in crate::txn) fn golden() -> Vec<(Bytes, Option<Bytes>)> {
    let text = include_str!("../../../testdata/txn/transaction-state-4.3.1.txt");
    let records = text.lines().filter(|line| !line.starts_with('#'));
    records
        .map(|line| {
            let columns: Vec<&str> = line.split(' ').collect();
            let [_, _, key, value] = columns[..] else { panic!("{line}") };
            (unhex(key), (value != "-").then(|| unhex(value)))
        })
        .collect()
}

/// The golden values of one transactional id.
pub(in crate::txn) fn golden_of(transactional_id: &str) -> Vec<Value> {
    let records = golden().into_iter().map(|(key, value)| Record::decode(key, value).unwrap());
    let values = records.filter_map(|record| match record {
        Record::Transaction(id, value) if id == transactional_id => value,
        _ => None,
    });
    values.collect()
}

#[test]
fn kafka_transaction_records_round_trip_unchanged() {
    let mut states = [0; 7];
    for (key, value) in golden() {
        let record = Record::decode(key.clone(), value.clone()).unwrap();
        let Record::Transaction(_, read) = &record else { panic!("{record:?}") };
        states[read.as_ref().map_or(6, |value| value.state as usize)] += 1;
        let encoded = record.encode().unwrap();
        assert_eq!((encoded.key, encoded.value), (key, value), "{record:?}");
    }
    assert!(states.iter().all(|&count| count > 4), "{states:?}");
    assert_eq!(states.iter().sum::<i32>(), 126);
}

#[test]
fn transaction_state_survives_the_log() {
    for (key, value) in golden() {
        let Record::Transaction(id, Some(value)) = Record::decode(key, value).unwrap() else { continue };
        let known = Transaction::from(value.clone());
        let again = Value::from(&known);
        let sorted = |mut value: Value| {
            value.topics.as_mut().into_iter().for_each(|topics| topics.sort());
            for (_, partitions) in value.topics.iter_mut().flatten() {
                partitions.sort_unstable();
            }
            value
        };
        assert_eq!(sorted(again), sorted(value), "{id}");
    }
}

#[test]
fn golden_offset_commit_includes_consumer_offsets_partition() {
    let values = golden_of("librdkafka-ü");
    let topics = |value: &Value| -> Vec<String> {
        value.topics.iter().flatten().map(|(topic, _)| topic.clone()).collect()
    };
    assert!(values.iter().any(|value| topics(value).contains(&"__consumer_offsets".to_owned())));
    let running_over: Vec<Value> =
        golden_of("y").into_iter().filter(|value| value.next_producer_id >= 0).collect();
    let [prepared] = &running_over[..] else { panic!("{running_over:?}") };
    assert_eq!((prepared.state, prepared.producer_epoch), (TxnState::PrepareCommit, i16::MAX));
}

#[test]
fn older_transaction_value_version_is_read() {
    let mut value = BytesMut::new();
    value.put_i16(0);
    value.put_i64(42);
    value.put_i16(7);
    value.put_i32(60_000);
    value.put_i8(1);
    value.put_i32(1);
    value.put_i16(1);
    value.put_slice(b"t");
    value.put_i32(2);
    value.put_i32(3);
    value.put_i32(1);
    value.put_i64(1_000);
    value.put_i64(900);
    let expected = Value {
        producer_id: 42,
        previous_producer_id: -1,
        next_producer_id: -1,
        producer_epoch: 7,
        timeout_ms: 60_000,
        state: TxnState::Ongoing,
        topics: Some(vec![("t".into(), vec![3, 1])]),
        last_update_ms: 1_000,
        start_ms: 900,
        client_version: 0,
    };
    assert_eq!(Value::decode(value.freeze()).unwrap(), expected);
}

#[test]
fn unknown_transaction_records_are_refused_or_skipped() {
    let key = Record::Transaction("id".into(), None).encode().unwrap().key;
    let decode = |value: &[u8]| Record::decode(key.clone(), Some(Bytes::copy_from_slice(value)));
    assert!(matches!(decode(&[0, 2]), Err(RecordError::UnknownVersion(2))));
    assert!(matches!(decode(&[0xff, 0xff]), Err(RecordError::UnknownVersion(-1))));
    let mut dead = vec![0, 1];
    dead.extend([0; 14]);
    dead.push(6);
    assert!(matches!(decode(&dead), Err(RecordError::UnknownState(6))));
    assert!(matches!(decode(&[]), Err(RecordError::Malformed { part: "transaction log value", .. })));
    // A huge count with nothing after it.
    let mut lying = vec![0, 0];
    lying.extend([0; 14]);
    lying.push(1);
    lying.extend([0x7f, 0xff, 0xff, 0xff]);
    assert!(matches!(decode(&lying), Err(RecordError::Malformed { .. })));
    let other = Record::decode(Bytes::from_static(&[0, 9, 1, 2]), None).unwrap();
    assert_eq!(other, Record::Other(9));
    assert!(Record::decode(Bytes::from_static(&[0]), None).is_err());
    assert!(Record::Transaction("x".repeat(40_000), None).encode().is_err());
}

fn values() -> impl Strategy<Value = Value> {
    let topics = prop::collection::vec(("[a-zü_]{0,12}", prop::collection::vec(any::<i32>(), 0..4)), 0..4);
    let state = prop_oneof![
        Just(TxnState::Empty),
        Just(TxnState::Ongoing),
        Just(TxnState::PrepareCommit),
        Just(TxnState::PrepareAbort),
        Just(TxnState::CompleteCommit),
        Just(TxnState::CompleteAbort),
    ];
    let numbers = (any::<i64>(), -1..5_i64, -1..5_i64, any::<i16>(), any::<i32>());
    let times = (any::<i64>(), any::<i64>(), 0..3_i16);
    (numbers, state, prop::option::of(topics), times).prop_map(|(numbers, state, topics, times)| Value {
        producer_id: numbers.0,
        previous_producer_id: numbers.1,
        next_producer_id: numbers.2,
        producer_epoch: numbers.3,
        timeout_ms: numbers.4,
        state,
        topics,
        last_update_ms: times.0,
        start_ms: times.1,
        client_version: times.2,
    })
}

proptest! {
    #[test]
    fn any_value_survives_a_round_trip(id in "[a-zü]{0,12}", value in prop::option::of(values())) {
        let record = Record::Transaction(id, value);
        let encoded = record.encode().unwrap();
        prop_assert_eq!(Record::decode(encoded.key, encoded.value).unwrap(), record);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        key in prop::collection::vec(any::<u8>(), 0..24),
        mut value in prop::collection::vec(any::<u8>(), 0..96),
        version in 0..2_u8,
    ) {
        if let [high, low, ..] = &mut value[..] {
            (*high, *low) = (0, version);
        }
        let value = Bytes::from(value);
        if let Ok(record) = Record::decode(key.into(), Some(value.clone())) {
            prop_assert!(record.encode().is_ok());
        }
        let key = Record::Transaction("id".into(), None).encode().unwrap().key;
        if let Ok(record) = Record::decode(key, Some(value)) {
            prop_assert!(record.encode().is_ok());
        }
    }
}
