//! Every path carries every byte.

use super::*;
use crate::method::limits::Scale;
use crate::tests::tiny;

#[test]
fn every_path_carries_every_byte() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    tiny(&bench, &mut Transfers::new(&bench).unwrap());
}

#[test]
fn a_byte_that_changes_is_seen() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let mut transfers = Transfers::new(&bench).unwrap();
    transfers.checksum ^= 1;
    let case = transfers.cases().swap_remove(0);
    let Outcome::Checked(verdict) = transfers.run(&case, Pass::Integrity).unwrap() else {
        panic!("not checked")
    };
    assert!(!verdict.sound, "{verdict:?}");
}
