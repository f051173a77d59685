//! Tests of the records that are taken out of a response.

use bytes::Bytes;
use levada_base::batch::{Builder, EndMarker, Marker};
use levada_base::compress::Compression;

use super::super::part::SHOWN_BYTES;
use super::*;

fn wanted(position: i64) -> Wanted {
    Wanted {
        topic: "t".to_owned(),
        positions: BTreeMap::from([(0, position)]),
        filter: Filter::default(),
        schemas: None,
        committed_only: true,
        wait_ms: 0,
        first: 0,
    }
}

fn data(batches: &[Bytes], aborted: &[(i64, i64)]) -> PartitionData {
    let mut data = PartitionData::default();
    data.records = Some(batches.concat().into());
    let aborted = aborted.iter().map(|(producer_id, first_offset)| {
        let mut one = AbortedTransaction::default();
        (one.producer_id, one.first_offset) = (*producer_id, *first_offset);
        one
    });
    data.aborted_transactions = Some(aborted.collect());
    data
}

fn plain(base: i64, values: &[&str]) -> Bytes {
    let mut builder = Builder::new().base_offset(base);
    for value in values {
        builder.push(1000, Some(b"key"), Some(value.as_bytes()));
    }
    builder.build().unwrap().freeze()
}

fn in_transaction(base: i64, producer: i64, value: &str) -> Bytes {
    let mut builder = Builder::new().base_offset(base).producer(producer, 0, 0).transactional();
    builder.push(1000, None, Some(value.as_bytes()));
    builder.build().unwrap().freeze()
}

fn marker(base: i64, producer_id: i64, marker: Marker) -> Bytes {
    let end = EndMarker { marker, producer_id, producer_epoch: 0, coordinator_epoch: 0, timestamp_ms: 1000 };
    let mut batch = end.build().unwrap();
    batch[..8].copy_from_slice(&base.to_be_bytes());
    batch.freeze()
}

fn values(looked: &Looked) -> Vec<(i64, String)> {
    let text = |one: &Found| one.value.as_ref().map(|value| value.shown.text.clone()).unwrap_or_default();
    looked.found.iter().map(|one| (one.offset, text(one))).collect()
}

#[test]
fn reading_starts_inside_batch_and_continues_next_page() {
    let batches = [plain(0, &["a", "b", "c"]), plain(3, &["d", "e"])];
    let mut wanted = wanted(1);
    let mut looked = Looked::default();
    wanted.take(data(&batches, &[]), (3, &mut looked));
    assert_eq!(values(&looked), [(1, "b".into()), (2, "c".into()), (3, "d".into())]);
    assert_eq!(wanted.positions[&0], 4);
    let mut rest = Looked::default();
    wanted.take(data(&batches, &[]), (3, &mut rest));
    assert_eq!(values(&rest), [(4, "e".into())]);
    assert_eq!(wanted.positions[&0], 5);
}

#[test]
fn filter_advances_past_unmatched_records() {
    let mut wanted = wanted(0);
    wanted.filter.value = b"an".to_vec();
    let mut looked = Looked::default();
    wanted.take(data(&[plain(0, &["apple", "banana", "orange", "fig"])], &[]), (10, &mut looked));
    assert_eq!(values(&looked), [(1, "banana".into()), (2, "orange".into())]);
    assert_eq!((looked.records, wanted.positions[&0]), (4, 4));
    wanted.filter.header = b"x".to_vec();
    let record = batch::records(&plain(0, &["banana"])).unwrap().next().unwrap().unwrap();
    let value = Part::of(None, Side::Value, &record);
    assert!(!wanted.filter.is_empty() && !wanted.filter.admits(&record, None, value.as_ref()));
}

#[test]
fn filter_by_field_needs_json() {
    let mut wanted = wanted(0);
    wanted.filter.field = JsonField::parse("a.b=1").ok();
    assert!(!wanted.filter.is_empty());
    let mut looked = Looked::default();
    let values_of = [r#"{"a":{"b":1}}"#, r#"{"a":{"b":11}}"#, "a.b=1"];
    wanted.take(data(&[plain(0, &values_of)], &[]), (10, &mut looked));
    assert_eq!(values(&looked).len(), 1, "{looked:?}");
    assert_eq!((looked.found[0].offset, wanted.positions[&0]), (0, 3));
}

#[test]
fn aborted_records_and_markers_are_left_out() {
    let batches = [
        in_transaction(0, 7, "aborted"),
        in_transaction(1, 8, "committed"),
        marker(2, 7, Marker::Abort),
        in_transaction(3, 7, "later"),
        marker(4, 8, Marker::Commit),
    ];
    let mut committed = wanted(0);
    let mut looked = Looked::default();
    committed.take(data(&batches, &[(7, 0)]), (10, &mut looked));
    assert_eq!(values(&looked), [(1, "committed".into()), (3, "later".into())]);
    assert_eq!(committed.positions[&0], 5, "the markers have been passed");
}

fn of_partition(index: i32, batches: &[Bytes]) -> PartitionData {
    let mut data = data(batches, &[]);
    data.partition_index = index;
    data
}

#[test]
fn a_busy_partition_does_not_hide_the_others() {
    let busy = || of_partition(0, &[plain(0, &["a", "b", "c", "d", "e", "f"])]);
    let mut wanted = wanted(0);
    wanted.positions.extend([(1, 0), (2, 0)]);
    let looked = wanted.take_all(vec![busy(), of_partition(1, &[]), of_partition(2, &[plain(0, &["x"])])], 4);
    let places =
        |looked: &Looked| looked.found.iter().map(|one| (one.partition, one.offset)).collect::<Vec<_>>();
    assert_eq!(places(&looked), [(0, 0), (0, 1), (2, 0)]);
    assert_eq!(wanted.positions, BTreeMap::from([(0, 2), (1, 0), (2, 1)]));
    // The busy partition gets the part that the others leave.
    let rest = wanted.take_all(vec![busy(), of_partition(1, &[]), of_partition(2, &[])], 4);
    assert_eq!(places(&rest), [(0, 2), (0, 3), (0, 4), (0, 5)]);
}

#[test]
fn partitions_rotate_as_first_in_a_read() {
    let mut wanted = wanted(0);
    wanted.positions.extend([(1, 0), (2, 0)]);
    let asked = |wanted: &Wanted| {
        request(wanted).topics[0].partitions.iter().map(|one| one.partition).collect::<Vec<_>>()
    };
    assert_eq!(asked(&wanted), [0, 1, 2]);
    wanted.take_all(vec![of_partition(0, &[plain(0, &["a"])]), of_partition(2, &[plain(0, &["b"])])], 4);
    assert_eq!(asked(&wanted), [1, 2, 0]);
    wanted.take_all(vec![of_partition(2, &[plain(1, &["c"])])], 4);
    assert_eq!(asked(&wanted), [0, 1, 2], "after the last comes the first");
    wanted.take_all(Vec::new(), 4);
    assert_eq!(asked(&wanted), [0, 1, 2]);
}

#[test]
fn damaged_batch_is_reported_to_the_page() {
    let mut damaged = plain(0, &["a"]).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let mut wanted = wanted(0);
    let mut looked = Looked::default();
    wanted.take(data(&[damaged.into()], &[]), (10, &mut looked));
    assert!(looked.damaged[0].starts_with("partition 0, offset 0: batch checksum"), "{:?}", looked.damaged);
}

#[test]
fn found_records_do_not_retain_expanded_batches() {
    let value = vec![b'a'; 1 << 20];
    let headers = vec![(&b"h"[..], None); 1000];
    let mut builder = Builder::new().compression(Compression::Zstd);
    builder.push_with_headers(1000, Some(b"key"), Some(&value), &headers);
    let batch = builder.build().unwrap().freeze();
    let mut looked = Looked::default();
    wanted(0).take(data(&[batch], &[]), (10, &mut looked));
    let found = &looked.found[0];
    let shown = found.value.as_ref().unwrap();
    assert_eq!((shown.len, shown.shown.text.len()), (1 << 20, SHOWN_BYTES));
    assert_eq!((found.headers.len(), found.headers_left_out), (SHOWN_HEADERS, 950));
    assert_eq!(found.headers[0], "h (no value)");
}

#[test]
fn one_read_of_expanding_batches_is_bounded() {
    let mut builder = Builder::new().compression(Compression::Zstd);
    builder.push(1000, Some(b"key"), Some(&vec![b'a'; 8 << 20]));
    let batches: Vec<Bytes> = (0..40)
        .map(|offset| {
            let mut batch = builder.build().unwrap();
            batch[..8].copy_from_slice(&i64::from(offset).to_be_bytes());
            batch.freeze()
        })
        .collect();
    let (mut wanted, mut looked) = (wanted(0), Looked::default());
    wanted.filter.value = b"b".to_vec();
    wanted.take(data(&batches, &[]), (10, &mut looked));
    assert_eq!(looked.records, 16, "of 8 MiB each");
    assert_eq!(wanted.positions[&0], 16, "the next read goes on there");
}
