//! Every method makes a correct copy, and every call is timed.

use super::*;
use crate::method::limits::Scale;
use crate::record::Recorder;
use crate::tests::tiny;
use crate::{Limits, Method, summary};

fn bench() -> Bench {
    Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap()
}

#[test]
fn every_method_copies_every_byte() {
    let bench = bench();
    tiny(&bench, &mut Copies::new(&bench).unwrap());
}

#[test]
fn number_of_calls_matches_the_step_size() {
    let bench = bench();
    let mut recorder = Recorder::in_memory();
    let mut copies = Copies::new(&bench).unwrap();
    Method::new(Limits::exactly(3), 1).run(&mut copies, &mut recorder).unwrap();
    let summary = summary::of(recorder.lines()).swap_remove(0);
    let rows = &summary.groups[0].rows;
    let calls = |case: &str, call: &str| {
        let row = rows.iter().find(|row| row.case == case).unwrap();
        let calls = row.calls.iter().find(|calls| calls.name == call).unwrap();
        assert!(calls.min_ms <= calls.avg_ms && calls.avg_ms <= calls.max_ms, "{calls:?}");
        assert!(calls.avg_ms <= calls.total_ms, "{calls:?}");
        calls.calls
    };
    assert_eq!(calls("read+write 4K", "read"), 256.0);
    assert_eq!(calls("read+write 4K", "write"), 256.0);
    assert_eq!(calls("read+write 64K", "read"), 16.0);
    assert_eq!(calls("sendfile 4K", "sendfile"), 256.0);
    assert!(summary.metrics.iter().all(|metric| !metric.name.starts_with("call.")));
}

#[test]
fn check_detects_a_copy_that_differs() {
    let bench = bench();
    let mut copies = Copies::new(&bench).unwrap();
    copies.checksum ^= 1;
    let case = copies.cases().swap_remove(0);
    let Outcome::Checked(verdict) = copies.run(&case, Pass::Integrity).unwrap() else { panic!() };
    assert!(!verdict.sound, "{verdict:?}");
}
