//! Sequence and epoch checks of producers, table by table; and snapshots against a real Kafka's.

use std::path::Path;

use levada_base::batch::{BatchView, Builder, EndMarker, Marker, assign};

use super::{Producers, SequenceCheck, Source};
use crate::AppendError;

const NOW_MS: i64 = 77;

/// A batch of `count` records at an offset.
fn batch(builder: Builder, offset: i64, count: i32) -> Vec<u8> {
    let mut builder = builder;
    for _ in 0..count {
        builder.push(5, None, None);
    }
    let mut bytes = builder.build().unwrap();
    assign(&mut bytes, offset, 0);
    bytes.to_vec()
}

fn marker(kind: Marker, offset: i64, (epoch, coordinator_epoch): (i16, i32)) -> Vec<u8> {
    let end =
        EndMarker { marker: kind, producer_id: 1, producer_epoch: epoch, coordinator_epoch, timestamp_ms: 5 };
    let mut bytes = end.build().unwrap();
    assign(&mut bytes, offset, 0);
    bytes.to_vec()
}

fn note(producers: &mut Producers, bytes: &[u8]) {
    producers.note(&BatchView::parse(bytes).unwrap(), NOW_MS);
    producers.commit();
}

/// Producer 1 with batches of two records at offsets 10, 12, … from `first_sequence` on.
fn writing(batches: i32, first_sequence: i32) -> Producers {
    let mut producers = Producers::default();
    for at in 0..batches {
        let sequence = first_sequence.wrapping_add(2 * at) & i32::MAX;
        note(&mut producers, &batch(Builder::new().producer(1, 3, sequence), 10 + 2 * i64::from(at), 2));
    }
    producers
}

/// The verdict on a batch, in a few words.
fn judge(producers: &Producers, bytes: &[u8], version: u8) -> String {
    let view = BatchView::parse(bytes).unwrap();
    let source = if view.is_control() { Source::Coordinator } else { Source::Client };
    match producers.check(&view, source, version) {
        Ok(SequenceCheck::New) => "new".to_owned(),
        Ok(SequenceCheck::Duplicate(written)) => format!("duplicate of {}", written.base_offset()),
        Err(AppendError::ProducerEpoch { current, .. }) => format!("epoch is {current}"),
        Err(AppendError::OutOfOrderSequence { expected, .. }) => format!("{expected} was due"),
        Err(AppendError::TransactionState { .. }) => "transaction".to_owned(),
        Err(AppendError::CoordinatorEpoch { current, .. }) => format!("coordinator is {current}"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_window_holds_five_batches_and_sequences_follow() {
    let check = |producers: &Producers, epoch: i16, sequence: i32, count: i32, wanted: &str| {
        let bytes = batch(Builder::new().producer(1, epoch, sequence), 99, count);
        assert_eq!(
            judge(producers, &bytes, 0),
            wanted,
            "epoch {epoch}, sequence {sequence}, {count} records"
        );
    };
    let none = Producers::default();
    check(&none, 0, 0, 1, "new");
    check(&none, 0, 4711, 1, "new");
    // Sequences 0..=13 in seven batches, of which the last five are remembered.
    let seven = writing(7, 0);
    check(&seven, 3, 14, 1, "new");
    check(&seven, 3, 15, 1, "14 was due");
    check(&seven, 3, 0, 2, "14 was due");
    check(&seven, 3, 2, 2, "14 was due");
    check(&seven, 3, 4, 2, "duplicate of 14");
    check(&seven, 3, 12, 2, "duplicate of 22");
    // Both ends have to match.
    check(&seven, 3, 12, 1, "14 was due");
    check(&seven, 3, 12, 3, "14 was due");
    check(&seven, 2, 14, 2, "epoch is 3");
    check(&seven, 2, 12, 2, "epoch is 3");
    check(&seven, 4, 0, 2, "new");
    check(&seven, 4, 14, 2, "0 was due");
    // Numbers wrap from the largest to 0, inside a batch as well.
    let wrapping = writing(2, i32::MAX - 2);
    check(&wrapping, 3, 1, 1, "new");
    check(&wrapping, 3, i32::MAX, 2, "duplicate of 12");
    check(&writing(1, i32::MAX - 1), 3, 0, 1, "new");
}

#[test]
fn producers_open_and_end_transactions() {
    let transactional = |sequence| Builder::new().producer(1, 0, sequence).transactional();
    let mut producers = Producers::default();
    note(&mut producers, &batch(transactional(0), 10, 2));
    note(&mut producers, &batch(transactional(2), 14, 2));
    assert_eq!(producers.first_unstable(), Some(10));
    assert_eq!(judge(&producers, &batch(Builder::new().producer(1, 0, 4), 20, 1), 0), "transaction");
    note(&mut producers, &batch(Builder::new().producer(2, 0, 0).transactional(), 16, 1));
    let completed =
        producers.note(&BatchView::parse(&marker(Marker::Abort, 17, (0, 6))).unwrap(), NOW_MS).unwrap();
    let aborted = completed.aborted(producers.first_unstable()).unwrap();
    assert_eq!((aborted.first_offset, aborted.last_offset, aborted.last_stable), (10, 17, 16));
    producers.roll_back();
    assert_eq!(producers.first_unstable(), Some(10), "the marker was not written");
    note(&mut producers, &marker(Marker::Commit, 17, (0, 6)));
    assert_eq!(producers.first_unstable(), Some(16));
    assert_eq!(judge(&producers, &batch(transactional(4), 20, 1), 0), "new");
    let check = |epochs, version, wanted: &str| {
        assert_eq!(judge(&producers, &marker(Marker::Abort, 20, epochs), version), wanted, "{epochs:?}");
    };
    check((0, 6), 0, "new");
    check((0, 5), 0, "coordinator is 6");
    check((-1, 6), 0, "epoch is 0");
    // Under the second protocol a marker may be repeated, but not end what was begun since.
    check((0, 6), 2, "new");
    check((1, 6), 2, "new");
    note(&mut producers, &batch(transactional(4), 20, 1));
    assert_eq!(judge(&producers, &marker(Marker::Abort, 21, (0, 6)), 2), "epoch is 0");
    assert_eq!(judge(&producers, &marker(Marker::Abort, 21, (0, 6)), 0), "new");
}

#[test]
fn the_second_protocol_begins_transactions_at_sequence_0() {
    let bytes = batch(Builder::new().producer(1, 0, 7).transactional(), 0, 1);
    assert_eq!(judge(&Producers::default(), &bytes, 2), "0 was due");
    assert_eq!(judge(&Producers::default(), &bytes, 0), "new");
    // A marker that raised the epoch leaves no sequence behind.
    let mut producers = writing(1, 0);
    note(&mut producers, &marker(Marker::Commit, 12, (4, 0)));
    assert_eq!(judge(&producers, &batch(Builder::new().producer(1, 4, 0).transactional(), 13, 1), 2), "new");
    assert_eq!(
        judge(&producers, &batch(Builder::new().producer(1, 4, 2).transactional(), 13, 1), 2),
        "0 was due"
    );
}

#[test]
fn silent_producers_expire_unless_transaction_is_open() {
    let mut producers = writing(1, 0);
    note(&mut producers, &batch(Builder::new().producer(2, 0, 0).transactional(), 12, 1));
    producers.expire(NOW_MS + 99, 100);
    assert_eq!(producers.known.len(), 2);
    producers.expire(NOW_MS + 100, 100);
    assert_eq!(producers.known.keys().collect::<Vec<_>>(), [&2]);
}

#[test]
fn producer_snapshot_bytes_match_kafka() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kafka-4.3.1/golden-0");
    for (offset, first_unstable) in [(96, 90), (121, 118)] {
        let bytes = std::fs::read(super::snapshot::path(&dir, offset)).unwrap();
        let producers = Producers::decode(&bytes, NOW_MS).unwrap();
        assert_eq!(producers.encode(), bytes);
        assert_eq!(producers.first_unstable(), Some(first_unstable));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Producers::decode(&damaged, NOW_MS).is_err(), "byte {at}");
            assert!(Producers::decode(&bytes[..at], NOW_MS).is_err(), "cut at {at}");
        }
    }
}
