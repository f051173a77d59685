//! Tests of the ledger. They make no calls, so that Miri can run them.

use proptest::prelude::*;

use super::*;

/// A ledger of sends with 1, 2, 4, 8 … bytes, the first of them numbered `first`.
fn ledger(first: u32, count: u32) -> Ledger {
    let mut ledger = Ledger { first, ..Ledger::default() };
    for power in 0..count {
        ledger.sent(vec![Bytes::new()], 1 << power);
    }
    ledger
}

#[test]
fn acknowledged_ranges_free_their_sends() {
    // Start of the counting, acknowledged sends, released memory.
    let rows = [
        (0, vec![(0, 0)], vec![1]),
        (0, vec![(0, 3)], vec![15]),
        (0, vec![(1, 1), (0, 0), (2, 3)], vec![2, 1, 12]),
        (0, vec![(3, 3), (1, 2), (0, 0)], vec![8, 6, 1]),
        // Twice, beyond the end, before the start.
        (0, vec![(0, 0), (0, 1)], vec![1, 2]),
        (0, vec![(2, 9)], vec![12]),
        (5, vec![(0, 4), (0, 5)], vec![0, 1]),
        (5, vec![(100, 200)], vec![0]),
        // Across the wrap.
        (u32::MAX - 1, vec![(u32::MAX - 1, 0)], vec![7]),
        (u32::MAX - 1, vec![(0, 1), (u32::MAX, u32::MAX), (u32::MAX - 1, u32::MAX - 1)], vec![12, 2, 1]),
    ];
    for (first, ranges, freed) in rows {
        let mut ledger = ledger(first, 4);
        let done: Vec<u64> = ranges.iter().map(|(first, last)| ledger.acknowledged(*first, *last)).collect();
        assert_eq!(done, freed, "{first} {ranges:?}");
        assert_eq!(ledger.parked_bytes(), 15 - freed.iter().sum::<u64>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_zero_copy_send_is_freed_once(
        first in any::<u32>(),
        ranges in prop::collection::vec((0_u32..30, 0_u32..10), 0..40),
    ) {
        let mut ledger = ledger(first, 20);
        let mut left: u64 = (1 << 20) - 1;
        for (start, len) in ranges {
            let mask: u64 = (start..=start + len).filter(|number| *number < 20).map(|number| 1 << number).sum();
            let freed = ledger.acknowledged(first.wrapping_add(start), first.wrapping_add(start + len));
            prop_assert_eq!(freed, left & mask);
            left &= !mask;
            prop_assert_eq!(ledger.parked_bytes(), left);
        }
    }
}
