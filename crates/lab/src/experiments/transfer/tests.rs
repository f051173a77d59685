//! Every path transfers every byte.

use super::*;
use crate::method::limits::Scale;
use crate::tests::tiny;

#[test]
fn every_path_transfers_every_byte() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    tiny(&bench, &mut Transfers::new(&bench).unwrap());
}

#[test]
fn check_detects_a_changed_byte() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let mut transfers = Transfers::new(&bench).unwrap();
    transfers.checksum ^= 1;
    let case = transfers.cases().swap_remove(0);
    let Outcome::Checked(verdict) = transfers.run(&case, Pass::Integrity).unwrap() else {
        panic!("the pass is not a check")
    };
    assert!(!verdict.sound, "{verdict:?}");
}
