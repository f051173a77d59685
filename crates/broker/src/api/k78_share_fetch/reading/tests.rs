//! Tests of `reading`.

use super::*;

const DATA: u8 = 0;
const MARKER: u8 = 1;

fn span(base_offset: i64, producer_id: i64, kind: u8) -> BatchSpan {
    BatchSpan {
        base_offset,
        last_offset: base_offset + if kind == MARKER { 0 } else { 1 },
        position: 0,
        size: 1,
        producer_id,
        is_transactional: producer_id >= 0,
        is_control: kind == MARKER,
        is_joined: false,
    }
}

#[test]
fn aborted_transactions_end_with_their_markers() {
    let spans = [
        span(0, 7, DATA),
        span(2, -1, DATA),
        span(4, 8, DATA),
        span(6, 7, MARKER),
        span(7, 7, DATA),
        span(9, 8, MARKER),
        span(10, 8, DATA),
    ];
    let aborted = [AbortedTransaction { producer_id: 7, first_offset: 0 }];
    let mut found: Vec<_> = fetched(&spans, &aborted).iter().map(|one| one.is_aborted).collect();
    assert_eq!(found, [true, false, false, false, false, false, false]);
    let both = [
        AbortedTransaction { producer_id: 8, first_offset: 4 },
        AbortedTransaction { producer_id: 8, first_offset: 10 },
    ];
    found = fetched(&spans, &both).iter().map(|one| one.is_aborted).collect();
    assert_eq!(found, [false, false, true, false, false, false, true]);
    assert!(fetched(&spans, &[]).iter().all(|one| !one.is_aborted));
}
