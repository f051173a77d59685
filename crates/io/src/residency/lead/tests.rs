//! Tests of runs, against pages that are looked at one by one.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;

/// Asks about pages, and how often.
fn ask(there: &[bool], islands: u64) -> (PageRun, u32) {
    let calls = Cell::new(0);
    let run = first_run(there.len() as u64, islands, |start, length| {
        calls.set(calls.get() + 1);
        let (start, length) = (start as usize, length as usize);
        there[start..start + length].iter().filter(|there| **there).count() as u64
    });
    (run, calls.get())
}

fn pages(text: &str) -> Vec<bool> {
    text.bytes().map(|page| page == b'#').collect()
}

#[test]
fn missing_page_runs_include_small_islands() {
    let rows = [
        ("#", 4, PageRun::There(1)),
        (".", 4, PageRun::Missing(1)),
        ("###...", 4, PageRun::There(3)),
        ("...###", 0, PageRun::Missing(3)),
        // Resident pages up to the end of the range do not count as an island, and are not read.
        ("...###", 4, PageRun::Missing(3)),
        ("..#..########..", 4, PageRun::Missing(5)),
        ("..#..####..", 0, PageRun::Missing(2)),
        ("..###.###.####", 4, PageRun::Missing(10)),
        (".#.#.#.#", 4, PageRun::Missing(7)),
    ];
    for (text, islands, run) in rows {
        assert_eq!(ask(&pages(text), islands).0, run, "{text} {islands}");
    }
}

proptest! {
    #[test]
    fn runs_are_those_of_the_pages(
        parts in prop::collection::vec((any::<bool>(), 1_usize..40), 1..20),
        islands in prop::sample::select(vec![0_u64, 1, 2, 16]),
    ) {
        let there: Vec<bool> =
            parts.iter().flat_map(|(there, count)| std::iter::repeat_n(*there, *count)).collect();
        let (run, calls) = ask(&there, islands);
        let all = there.len() as u64;
        prop_assert!(u64::from(calls) <= 3 * 11 + all / islands.max(1), "{calls} calls for {all} pages");
        match run {
            PageRun::There(count) => {
                let ahead = there.iter().take_while(|there| **there).count() as u64;
                prop_assert_eq!(count, ahead);
            }
            PageRun::Missing(count) => {
                let (run, rest) = there.split_at(usize::try_from(count).unwrap());
                prop_assert!(!run[0] && !run[run.len() - 1], "it begins and ends with a missing page");
                let island = run.split(|there| !there).map(<[bool]>::len).max().unwrap_or(0) as u64;
                prop_assert!(island < (2 * islands).max(1), "an island of {island} pages was swallowed");
                if islands <= 1 {
                    prop_assert!(rest.first().is_none_or(|there| *there));
                }
            }
        }
    }
}
