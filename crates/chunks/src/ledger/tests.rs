//! The order of eviction.

use levada_testing::scaled;
use proptest::prelude::*;

use super::*;
use crate::CHUNK_BYTES;

const ROOM: u64 = 10;

fn records(segment: u8, number: u32) -> ChunkKey {
    ChunkKey { segment: [segment; 16], part: Part::Records(number) }
}

fn add(ledger: &mut Ledger, key: ChunkKey) -> Vec<ChunkKey> {
    let mut leaving = ledger.reserve(key, CHUNK_BYTES);
    leaving.extend(ledger.settle(key, CHUNK_BYTES));
    leaving
}

/// Reads a part in four requests.
fn replay(ledger: &mut Ledger, segment: u8, number: u32) -> Vec<Pattern> {
    let (start, step) = (u64::from(number) * CHUNK_BYTES, CHUNK_BYTES / 4);
    let parts = (0..4).map(|at| start + at * step);
    parts.map(|from| ledger.read([segment; 16], from, from + step)).collect()
}

#[test]
fn single_replay_leaves_repeated_parts() {
    let mut ledger = Ledger::new(ROOM * CHUNK_BYTES);
    for number in 0..6 {
        add(&mut ledger, records(1, number));
        replay(&mut ledger, 1, number);
        replay(&mut ledger, 1, number);
    }
    for number in 0..100 {
        let leaving = add(&mut ledger, records(2, number));
        assert!(leaving.iter().all(|key| key.segment == [2; 16]), "{leaving:?}");
        replay(&mut ledger, 2, number);
    }
    assert_eq!(ledger.of_segment([1; 16]).len(), 6);
    assert_eq!(ledger.bytes(), ROOM * CHUNK_BYTES);
}

#[test]
fn protected_parts_are_limited() {
    let mut ledger = Ledger::new(ROOM * CHUNK_BYTES);
    for number in 0..20 {
        add(&mut ledger, records(1, number));
        replay(&mut ledger, 1, number);
        replay(&mut ledger, 1, number);
    }
    assert_eq!(ledger.protected_bytes, ROOM / 5 * 4 * CHUNK_BYTES);
    assert_eq!(add(&mut ledger, records(2, 0)), [records(1, 10)]);
    assert_eq!(add(&mut ledger, records(2, 1)), [records(1, 11)]);
    assert_eq!(add(&mut ledger, records(2, 2)), [records(2, 0)]);
}

#[test]
fn ledger_recognizes_sequential_repeated_and_random_reads() {
    let mut ledger = Ledger::new(ROOM * CHUNK_BYTES);
    for number in 0..3 {
        add(&mut ledger, records(1, number));
    }
    assert_eq!(replay(&mut ledger, 1, 0), [Pattern::Continues; 4]);
    assert_eq!(replay(&mut ledger, 1, 1), [Pattern::Continues; 4]);
    assert_eq!(replay(&mut ledger, 1, 0), [Pattern::Repeats; 4]);
    let middle = 2 * CHUNK_BYTES + 100;
    assert_eq!(ledger.read([1; 16], middle, middle + 50), Pattern::Jumps);
    assert_eq!(ledger.read([1; 16], middle + 50, middle + 70), Pattern::Continues);
}

#[test]
fn parts_being_fetched_are_not_evicted() {
    let mut ledger = Ledger::new(2 * CHUNK_BYTES);
    for number in 0..3 {
        assert_eq!(ledger.reserve(records(1, number), CHUNK_BYTES), []);
    }
    assert_eq!(ledger.bytes(), 3 * CHUNK_BYTES);
    assert_eq!(ledger.settle(records(1, 1), CHUNK_BYTES), [records(1, 1)]);
    ledger.remove(&records(1, 0));
    assert_eq!(ledger.settle(records(1, 2), 100), []);
    assert_eq!(ledger.bytes(), 100);
}

#[derive(Clone, Debug)]
enum Step {
    Reserve(u8, u64),
    Settle(u8, u64),
    Remove(u8),
    Pin(u8),
    Read(u8, u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12_u8;
    prop_oneof![
        (key.clone(), 1..300_u64).prop_map(|(key, bytes)| Step::Reserve(key, bytes)),
        (key.clone(), 1..300_u64).prop_map(|(key, bytes)| Step::Settle(key, bytes)),
        key.clone().prop_map(Step::Remove),
        key.clone().prop_map(Step::Pin),
        (key, 0..50_u64, 0..50_u64).prop_map(|(key, from, len)| Step::Read(key, from, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(200)))]
    #[test]
    fn ledger_sums_match_its_entries(steps in prop::collection::vec(step(), 1..200)) {
        let mut ledger = Ledger::new(1000);
        for step in steps {
            let rank = |ledger: &Ledger, key: u8| ledger.entries.get(&records(key, 0)).map(|entry| entry.rank);
            match step {
                Step::Reserve(key, bytes) if rank(&ledger, key).is_none() => drop(ledger.reserve(records(key, 0), bytes)),
                Step::Settle(key, bytes) if rank(&ledger, key) == Some(Rank::Pinned) => {
                    drop(ledger.settle(records(key, 0), bytes));
                }
                Step::Remove(key) => ledger.remove(&records(key, 0)),
                Step::Pin(key) if rank(&ledger, key).is_some_and(|rank| rank != Rank::Pinned) => ledger.pin(records(key, 0)),
                Step::Read(key, from, len) => drop(ledger.read([key; 16], from, from + len)),
                _ => {}
            }
            let sum = |rank: Option<Rank>| -> u64 {
                let entries = ledger.entries.values().filter(|entry| rank.is_none_or(|rank| rank == entry.rank));
                entries.map(|entry| entry.bytes).sum()
            };
            prop_assert_eq!(ledger.bytes, sum(None));
            prop_assert_eq!(ledger.protected_bytes, sum(Some(Rank::Protected)));
            prop_assert!(ledger.protected_bytes <= 800);
            let count = |rank| ledger.entries.values().filter(|entry| entry.rank == rank).count();
            prop_assert_eq!(ledger.probation.len(), count(Rank::Probation));
            prop_assert_eq!(ledger.protected.len(), count(Rank::Protected));
        }
    }
}
