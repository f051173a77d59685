//! Tests of the records of aborted transactions.

use levada_base::batch::{BatchView, Builder, EndMarker, Marker};
use levada_wire::messages::fetch_response::AbortedTransaction;

use super::aborted::Aborted;

/// A transactional batch at `offset` with one record, or the marker that ends the transaction.
fn transactional(offset: i64, producer: i64, marker: Option<Marker>) -> bytes::BytesMut {
    let mut builder = Builder::new().transactional().base_offset(offset).producer(producer, 0, 0);
    let Some(marker) = marker else { return builder.push(0, None, Some(b"v")).build().unwrap() };
    let end =
        EndMarker { marker, producer_id: producer, producer_epoch: 0, coordinator_epoch: 0, timestamp_ms: 0 };
    let mut batch = end.build().unwrap();
    batch[..8].copy_from_slice(&offset.to_be_bytes());
    batch
}

#[test]
fn batches_of_aborted_transactions_are_skipped() {
    let mut one = AbortedTransaction::default();
    (one.producer_id, one.first_offset) = (7, 1);
    let mut aborted = Aborted::new(Some(vec![one]));
    let steps = [
        (0, 7, None, false, "before the transaction that was aborted"),
        (1, 7, None, true, "in it"),
        (2, 8, None, false, "of another producer"),
        (3, 7, Some(Marker::Abort), false, "its end"),
        (4, 7, None, false, "of the producer's next transaction"),
    ];
    for (offset, producer, marker, expected, which) in steps {
        let batch = transactional(offset, producer, marker);
        assert_eq!(aborted.holds(&BatchView::parse(&batch).unwrap()), expected, "the batch {which}");
    }
}
