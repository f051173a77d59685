//! Cases of each way in which ranges meet, and random lists against a map of offsets.

use std::collections::BTreeMap;

use levada_testing::{scaled, seeds};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{NO_START_OFFSET, StateBatch, StateBatches};

/// Ranges of a text such as `3-7:0x2 9:4x1`: first and last offset, state, count.
fn ranges(text: &str) -> Vec<StateBatch> {
    let range = |word: &str| {
        let (offsets, delivery) = word.split_once(':').unwrap();
        let (first, last) = offsets.split_once('-').unwrap_or((offsets, offsets));
        let (state, count) = delivery.split_once('x').unwrap();
        StateBatch {
            first_offset: first.parse().unwrap(),
            last_offset: last.parse().unwrap(),
            delivery_state: state.parse().unwrap(),
            delivery_count: count.parse().unwrap(),
        }
    };
    text.split_whitespace().map(range).collect()
}

fn check(stored: &str, added: &str, start_offset: i64, expected: &str) {
    let mut batches = StateBatches::of(&ranges(stored), NO_START_OFFSET);
    batches.merge(&ranges(added), start_offset);
    assert_eq!(batches.as_slice(), ranges(expected), "{stored} and {added} from {start_offset} on");
}

#[test]
fn empty_state_batches_merge_to_empty() {
    check("", "", NO_START_OFFSET, "");
    check("", "", 120, "");
}

#[test]
fn ranges_before_the_start_are_dropped() {
    for (stored, added) in [("10-30:0x1", ""), ("", "10-30:0x1"), ("10-30:0x1", "15-25:0x1")] {
        check(stored, added, 9, "10-30:0x1");
        check(stored, added, 10, "10-30:0x1");
        check(stored, added, 11, "11-30:0x1");
        check(stored, added, 30, "30:0x1");
        check(stored, added, 31, "");
        check(stored, added, NO_START_OFFSET, "10-30:0x1");
    }
    check("0-4:2x1 6-8:0x1", "1-2:0x9 8-9:2x1", 7, "7:0x1 8-9:2x1");
}

#[test]
fn adjacent_equal_ranges_are_merged() {
    for (added, expected) in [
        ("10-20:0x1", "10-20:0x1"),
        ("10-15:0x1", "10-20:0x1"),
        ("15-20:0x1", "10-20:0x1"),
        ("12-18:0x1", "10-20:0x1"),
        ("5-30:0x1", "5-30:0x1"),
        ("15-30:0x1", "10-30:0x1"),
        ("5-15:0x1", "5-20:0x1"),
        ("21-30:0x1", "10-30:0x1"),
        ("5-9:0x1", "5-20:0x1"),
        ("22-30:0x1", "10-20:0x1 22-30:0x1"),
        ("21-30:0x2", "10-20:0x1 21-30:0x2"),
        ("21-30:2x1", "10-20:0x1 21-30:2x1"),
    ] {
        check("10-20:0x1", added, NO_START_OFFSET, expected);
        check("", &format!("10-20:0x1 {added}"), NO_START_OFFSET, expected);
    }
}

#[test]
fn merge_prefers_higher_count_then_state() {
    // Each range with one of less rank, whichever is stored.
    for (high, low) in [("0x2", "0x1"), ("0x2", "4x1"), ("2x1", "0x1"), ("4x3", "2x3"), ("0x1", "0x-1")] {
        for (first, second, expected) in [
            ("10-20:H", "10-20:L", "10-20:H"),
            ("10-20:H", "10-15:L", "10-20:H"),
            ("10-20:H", "15-20:L", "10-20:H"),
            ("10-20:H", "12-18:L", "10-20:H"),
            ("10-15:H", "10-20:L", "10-15:H 16-20:L"),
            ("15-20:H", "10-20:L", "10-14:L 15-20:H"),
            ("12-18:H", "10-20:L", "10-11:L 12-18:H 19-20:L"),
            ("10-18:H", "15-20:L", "10-18:H 19-20:L"),
            ("15-20:H", "10-18:L", "10-14:L 15-20:H"),
            ("10-14:H", "15-20:L", "10-14:H 15-20:L"),
        ] {
            let named = |text: &str| text.replace('H', high).replace('L', low);
            let (first, second, expected) = (named(first), named(second), named(expected));
            check(&first, &second, NO_START_OFFSET, &expected);
            check(&second, &first, NO_START_OFFSET, &expected);
            check("", &format!("{first} {second}"), NO_START_OFFSET, &expected);
            check("", &format!("{second} {first}"), NO_START_OFFSET, &expected);
        }
    }
}

#[test]
fn several_state_ranges_are_combined_together() {
    check("100-110:0x1 121-130:0x1", "111-119:2x2 116-123:2x2", -1, "100-110:0x1 111-123:2x2 124-130:0x1");
    check("100-110:0x1 121-130:0x1", "111-119:2x2 116-123:2x2", 120, "120-123:2x2 124-130:0x1");
    check("100-110:0x1", "101-105:1x2 101-115:2x2 101-120:3x2", -1, "100:0x1 101-120:3x2");
    check("111-120:0x1", "115-119:0x2 111-113:0x2 114:2x1", -1, "111-113:0x2 114:2x1 115-119:0x2 120:0x1");
    // The range that ends the gap joins both sides.
    check("1-2:2x1 4-5:2x1", "3:2x1", -1, "1-5:2x1");
    // A range that takes the state of its neighbour joins it.
    check("1-4:2x3 5-9:0x1", "5-12:2x3", -1, "1-12:2x3");
}

#[test]
fn invalid_state_ranges_are_skipped() {
    check("", "9-3:0x1", NO_START_OFFSET, "");
    check("5:0x1", &format!("7-{}:0x1", i64::MAX), 5, &format!("5:0x1 7-{}:0x1", i64::MAX - 1));
    check(
        "",
        &format!("{}-{}:2x1", i64::MAX - 1, i64::MAX),
        NO_START_OFFSET,
        &format!("{}:2x1", i64::MAX - 1),
    );
    for (range, expected) in [("0-0:0x1", true), ("9-3:0x1", false), ("0-9223372036854775807:0x1", false)] {
        assert_eq!(ranges(range)[0].is_range(), expected, "{range}");
    }
    assert!(!StateBatch { first_offset: -1, ..ranges("0-5:0x1")[0] }.is_range());
}

/// State of each offset, one by one.
fn naive(lists: &[&[StateBatch]], start_offset: i64) -> Vec<StateBatch> {
    let mut by_offset: BTreeMap<i64, (i16, i8)> = BTreeMap::new();
    for batch in lists.iter().copied().flatten() {
        for offset in batch.first_offset..=batch.last_offset {
            let delivery = (batch.delivery_count, batch.delivery_state);
            let known = by_offset.entry(offset).or_insert(delivery);
            *known = delivery.max(*known);
        }
    }
    let mut list: Vec<StateBatch> = Vec::new();
    for (offset, (delivery_count, delivery_state)) in by_offset.range(start_offset..) {
        let is_alike = |last: &&mut StateBatch| {
            (last.last_offset + 1, last.delivery_count, last.delivery_state)
                == (*offset, *delivery_count, *delivery_state)
        };
        match list.last_mut().filter(is_alike) {
            Some(last) => last.last_offset = *offset,
            None => list.push(StateBatch {
                first_offset: *offset,
                last_offset: *offset,
                delivery_state: *delivery_state,
                delivery_count: *delivery_count,
            }),
        }
    }
    list
}

pub(in crate::share_state) fn random_ranges(rng: &mut StdRng, most: usize, offsets: i64) -> Vec<StateBatch> {
    let count = rng.random_range(0..=most);
    let range = |_| {
        let first_offset = rng.random_range(0..offsets);
        let longest = if rng.random_bool(0.7) { 3 } else { offsets };
        let length = rng.random_range(0..longest);
        StateBatch {
            first_offset,
            last_offset: (first_offset + length).min(offsets - 1),
            delivery_state: [0, 2, 4][rng.random_range(0..3)],
            delivery_count: rng.random_range(1..4),
        }
    };
    (0..count).map(range).collect()
}

#[test]
fn merged_batches_match_a_map_of_offsets() {
    let mut joined = 0;
    for seed in seeds(scaled(20_000)) {
        let mut rng = StdRng::seed_from_u64(seed);
        let offsets = rng.random_range(1..60);
        let stored = random_ranges(&mut rng, 12, offsets);
        let mut batches = StateBatches::of(&stored, NO_START_OFFSET);
        assert_eq!(batches.as_slice(), naive(&[&stored], NO_START_OFFSET), "seed {seed}");
        let mut lists = vec![stored];
        for _ in 0..4 {
            let start_offset =
                if rng.random_bool(0.5) { NO_START_OFFSET } else { rng.random_range(0..=offsets) };
            let added = random_ranges(&mut rng, 6, offsets);
            let before = batches.clone();
            batches.merge(&added, start_offset);
            let expected = naive(&[before.as_slice(), &added], start_offset);
            assert_eq!(
                batches.as_slice(),
                expected,
                "seed {seed}: {before:?} and {added:?} from {start_offset}"
            );
            joined += usize::from(batches.len() < before.len() + added.len());
            lists.push(added);
        }
        let again = StateBatches::of(batches.as_slice(), NO_START_OFFSET);
        assert_eq!(again, batches, "seed {seed}");
    }
    assert!(joined > 0, "no ranges have met");
}
