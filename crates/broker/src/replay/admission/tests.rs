//! Tests of admission: what memory looks like, and what may stay.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn seen(total: u64, free: u64, available: u64) -> Observation {
    Observation { total: total * MIB, free: free * MIB, available: available * MIB, stalled: 0.0 }
}

fn wanted(at: u64) -> Wanted {
    Wanted { file: (1, 1), offset: at * MIB, len: MIB, ahead: 0 }
}

/// A pass over so many MiB; how many of them may stay.
fn pass(admission: &mut Admission, range: std::ops::Range<u64>) -> usize {
    range.filter(|at| admission.ask(&wanted(*at)) == Verdict::Admitted).count()
}

#[test]
fn admission_needs_a_memory_measurement() {
    let mut admission = Admission::default();
    assert_eq!(pass(&mut admission, 0..10) + pass(&mut admission, 0..10), 0);
    assert_eq!(admission.level(), None);
}

#[test]
fn unreported_memory_state_keeps_no_pages() {
    let mut admission = Admission::default();
    admission.observe(&seen(1600, 300, 1000));
    admission.observe_nothing();
    assert_eq!(admission.level(), None);
    assert_eq!(pass(&mut admission, 0..10) + pass(&mut admission, 0..10), 0);
}

#[test]
fn free_memory_is_filled_down_to_a_reserve() {
    let mut admission = Admission::default();
    admission.observe(&seen(1600, 300, 1000));
    assert_eq!(admission.level(), Some(MemoryState::Free));
    assert_eq!(pass(&mut admission, 0..1000), 200, "what is free, less a sixteenth of all");
    assert_eq!(pass(&mut admission, 2000..2010), 0, "until memory is looked at again");
}

#[test]
fn admission_counts_read_ahead_bytes() {
    let mut admission = Admission::default();
    admission.observe(&seen(1600, 300, 1000));
    let with_ahead = Wanted { ahead: 9 * MIB, ..wanted(0) };
    let all = (0..100).map(|at| Wanted { offset: at * 10 * MIB, ..with_ahead });
    assert_eq!(all.filter(|one| admission.ask(one) == Verdict::Admitted).count(), 20);
}

#[test]
fn full_cache_admits_ranges_on_second_read() {
    let mut admission = Admission::default();
    admission.observe(&seen(1600, 20, 1000));
    assert_eq!(admission.level(), Some(MemoryState::Full));
    assert_eq!(pass(&mut admission, 0..400), 0, "the first leaves no trace");
    assert_eq!(pass(&mut admission, 0..400), 400);
    // More than half of what the cache could hold would push itself out.
    assert_eq!(pass(&mut admission, 1000..1600), 0);
    assert_eq!(pass(&mut admission, 1000..1600), 0);
}

#[test]
fn memory_pressure_refuses_old_records() {
    let mut admission = Admission::default();
    let stalled = |stalled| Observation { stalled, ..seen(1600, 1500, 1500) };
    admission.observe(&stalled(12.0));
    assert_eq!(admission.level(), Some(MemoryState::Stalled));
    assert_eq!(pass(&mut admission, 0..10) + pass(&mut admission, 0..10), 0);
    admission.observe(&stalled(5.0));
    assert_eq!(admission.level(), Some(MemoryState::Stalled), "not before it is over");
    admission.observe(&stalled(1.0));
    assert_eq!(admission.level(), Some(MemoryState::Free));
    admission.observe(&stalled(9.0));
    assert_eq!(admission.level(), Some(MemoryState::Free));
}

#[test]
fn small_free_memory_changes_keep_memory_state() {
    let mut admission = Admission::default();
    let mut level = |free| {
        admission.observe(&seen(1600, free, 1000));
        admission.level()
    };
    // From full to free above an eighth, from free to full at a sixteenth.
    let levels = [150, 201, 190, 101, 100, 190, 200, 201].map(|free| level(free) == Some(MemoryState::Free));
    assert_eq!(levels, [false, true, true, true, false, false, false, true]);
}

proptest! {
    #[test]
    fn first_reads_are_admitted_only_into_free_memory(
        events in prop::collection::vec(
            (any::<bool>(), 0_u64..1600, prop_oneof![4 => Just(0.0), 1 => 0.0..20.0], 0_u64..300, 1_u64..40),
            1..60,
        ),
    ) {
        let mut admission = Admission::default();
        let mut read = std::collections::BTreeSet::new();
        let mut room = 0;
        for (observe, free, stalled, at, count) in events {
            if observe {
                admission.observe(&Observation { stalled, ..seen(1600, free, free + (1600 - free) / 2) });
                room = free.saturating_sub(100);
            }
            for at in at..at + count {
                let first = read.insert(at);
                let verdict = admission.ask(&wanted(at));
                if verdict == Verdict::Admitted && first {
                    prop_assert!(admission.level() == Some(MemoryState::Free) && room > 0, "{at} displaces somebody");
                }
                room -= u64::from(verdict == Verdict::Admitted && room > 0);
                prop_assert!(admission.level() != Some(MemoryState::Stalled) || verdict == Verdict::Refused);
            }
        }
    }
}
