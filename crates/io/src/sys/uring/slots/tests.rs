//! Tests of the slots. They make no calls, so that Miri can run them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn entry(key: Key, result: i32, more: bool, notification: bool) -> Entry {
    Entry { user_data: key.user_data(), result, more, notification }
}

fn one<T: std::fmt::Debug>(steps: [Option<Step<T>>; 2]) -> Step<T> {
    match steps {
        [Some(step), None] => step,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_result_without_more_is_the_end() {
    for result in [0, 5, -32] {
        let mut slots = Slots::new(1);
        let key = slots.insert("payload").unwrap();
        let step = one(slots.complete(entry(key, result, false, false)));
        assert_eq!(step, Step::Done { key, result, payload: "payload" });
        assert_eq!((slots.room(), slots.live()), (1, 0));
    }
}

#[test]
fn a_result_with_more_parks_errors_included() {
    for result in [0, 5, -32, -125] {
        let mut slots = Slots::new(1);
        let key = slots.insert("payload").unwrap();
        assert_eq!(one(slots.complete(entry(key, result, true, false))), Step::Parked { key, result });
        assert_eq!((slots.room(), slots.live()), (0, 1));
        assert_eq!(slots.held(key), Some(&mut "payload"));
        let step = one(slots.complete(entry(key, i32::MIN, false, true)));
        assert_eq!(step, Step::Released { key, usage: i32::MIN, payload: "payload" });
        assert_eq!(slots.room(), 1);
    }
}

#[test]
fn notifications_come_in_any_order() {
    let mut slots = Slots::new(3);
    let keys = ["a", "b", "c"].map(|name| slots.insert(name).unwrap());
    for key in keys {
        slots.complete(entry(key, 1, true, false));
    }
    for (key, name) in [(keys[2], "c"), (keys[0], "a"), (keys[1], "b")] {
        let step = one(slots.complete(entry(key, 0, false, true)));
        assert_eq!(step, Step::Released { key, usage: 0, payload: name });
    }
}

#[test]
fn a_notification_before_its_result_waits_for_it() {
    let mut slots = Slots::new(1);
    let key = slots.insert("payload").unwrap();
    assert_eq!(slots.complete(entry(key, 7, false, true)), [None, None]);
    assert_eq!(slots.live(), 1);
    let steps = slots.complete(entry(key, 5, true, false));
    let released = Step::Released { key, usage: 7, payload: "payload" };
    assert_eq!(steps, [Some(Step::Parked { key, result: 5 }), Some(released)]);
    assert_eq!(slots.room(), 1);
}

#[test]
fn late_completion_does_not_match_next_operation() {
    let mut slots = Slots::new(1);
    let old = slots.insert("old").unwrap();
    slots.complete(entry(old, 0, false, false));
    let new = slots.insert("new").unwrap();
    assert_ne!(old, new);
    for (more, notification) in [(false, false), (true, false), (false, true)] {
        assert_eq!(one(slots.complete(entry(old, 9, more, notification))), Step::Stray);
    }
    assert_eq!(slots.held(new), Some(&mut "new"));
    assert_eq!(slots.held(old), None);
    let nowhere = Entry { user_data: u64::MAX, result: 0, more: false, notification: false };
    assert_eq!(one(slots.complete(nowhere)), Step::Stray);
}

#[test]
fn full_slot_table_returns_the_operation() {
    let mut slots = Slots::new(2);
    let first = slots.insert(1).unwrap();
    slots.insert(2).unwrap();
    assert_eq!(slots.insert(3), Err(3));
    slots.complete(entry(first, 0, false, false));
    assert!(slots.insert(4).is_ok());
    assert_eq!(slots.drain().collect::<Vec<i32>>(), [4, 2]);
}

/// The kernel's next move: start, complete with or without `F_MORE`, notify, or repeat itself.
#[derive(Debug, Clone, Copy)]
enum Move {
    Start,
    Answer { of: usize, more: bool },
    Notify { of: usize },
    Repeat { of: usize, more: bool, notification: bool },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let of = 0_usize..100;
    let one = prop_oneof![
        3 => Just(Move::Start),
        3 => (of.clone(), any::<bool>()).prop_map(|(of, more)| Move::Answer { of, more }),
        2 => of.clone().prop_map(|of| Move::Notify { of }),
        1 => (of, any::<bool>(), any::<bool>()).prop_map(|(of, more, notification)| Move::Repeat { of, more, notification }),
    ];
    prop::collection::vec(one, 0..if cfg!(miri) { 40 } else { 200 })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 300 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each payload comes back once, after the kernel's last word about it, whatever the order.
    #[test]
    fn each_payload_is_released_once_after_use(moves in moves()) {
        let mut slots: Slots<u32> = Slots::new(5);
        // Operations without a result, those that wait for their notification, and keys that are
        // over.
        let (mut waiting, mut parked) = (BTreeMap::new(), BTreeMap::new());
        let mut over: Vec<Key> = Vec::new();
        let mut number = 0;
        for next in moves {
            let nth = |map: &BTreeMap<Key, u32>, of: usize| map.keys().nth(of % map.len().max(1)).copied();
            match next {
                Move::Start => match slots.insert(number) {
                    Ok(key) => {
                        prop_assert!(!over.contains(&key));
                        prop_assert_eq!(waiting.insert(key, number), None);
                        number += 1;
                    }
                    Err(back) => {
                        prop_assert_eq!(back, number);
                        prop_assert_eq!(waiting.len() + parked.len(), 5);
                    }
                },
                Move::Answer { of, more } => {
                    let Some(key) = nth(&waiting, of) else { continue };
                    let payload = waiting.remove(&key).unwrap();
                    let step = one(slots.complete(entry(key, 3, more, false)));
                    if more {
                        parked.insert(key, payload);
                        prop_assert_eq!(step, Step::Parked { key, result: 3 });
                    } else {
                        over.push(key);
                        prop_assert_eq!(step, Step::Done { key, result: 3, payload });
                    }
                }
                Move::Notify { of } => {
                    let Some(key) = nth(&parked, of) else { continue };
                    let payload = parked.remove(&key).unwrap();
                    over.push(key);
                    let step = one(slots.complete(entry(key, 0, false, true)));
                    prop_assert_eq!(step, Step::Released { key, usage: 0, payload });
                }
                Move::Repeat { of, more, notification } => {
                    let Some(key) = over.get(of % over.len().max(1)).copied() else { continue };
                    prop_assert_eq!(one(slots.complete(entry(key, 1, more, notification))), Step::Stray);
                }
            }
            prop_assert_eq!(slots.live(), waiting.len() + parked.len());
        }
        let mut left: Vec<u32> = slots.drain().collect();
        left.sort_unstable();
        let mut expected: Vec<u32> = waiting.into_values().chain(parked.into_values()).collect();
        expected.sort_unstable();
        prop_assert_eq!(left, expected);
    }
}
