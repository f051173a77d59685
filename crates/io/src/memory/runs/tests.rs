//! Tests of cutting.

use proptest::prelude::*;

use super::*;

const KIB: usize = 1 << 10;

/// Pieces in KiB, negative if registered; runs as (first letter of the way, count).
fn check(pieces: &[i32], may_refer: bool, expected: &[(char, usize)]) {
    let pieces = pieces
        .iter()
        .map(|kib| Length { bytes: usize::try_from(kib.abs()).unwrap() * KIB, registered: *kib < 0 });
    let runs: Vec<(char, usize)> = cut(pieces, &Thresholds::default(), may_refer)
        .map(|run| (format!("{:?}", run.mode).chars().nth(2).unwrap(), run.count))
        .collect();
    assert_eq!(runs, expected);
}

#[test]
fn runs_separate_small_and_large_pieces_in_order() {
    // The third letters tell the ways apart: coPied, reFerenced, reGistered.
    check(&[], true, &[]);
    check(&[4, 4, 16, 32, 2], true, &[('p', 2), ('f', 2), ('p', 1)]);
    check(&[16], true, &[('f', 1)]);
    check(&[15], true, &[('p', 1)]);
    check(&[-4, -4, -3, -64], true, &[('g', 1), ('g', 1), ('p', 1), ('g', 1)]);
}

#[test]
fn copying_route_yields_one_run_of_copies() {
    check(&[4, 4, 16, 32, -64, 2], false, &[('p', 6)]);
}

#[test]
fn pieces_per_message_are_limited() {
    check(&[16; 40], true, &[('f', 17), ('f', 17), ('f', 6)]);
    check(&[1; 2049], true, &[('p', 1024), ('p', 1024), ('p', 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_piece_is_in_one_run(
        pieces in prop::collection::vec((0_usize..100_000, any::<bool>()), 0..200),
        may_refer in any::<bool>(),
    ) {
        let lengths: Vec<Length> =
            pieces.iter().map(|&(bytes, registered)| Length { bytes, registered }).collect();
        let runs: Vec<Run> = cut(lengths.clone(), &Thresholds::default(), may_refer).collect();
        let mut rest = &lengths[..];
        for run in &runs {
            let (mine, others) = rest.split_at(run.count);
            prop_assert_eq!(run.bytes, mine.iter().map(|length| length.bytes).sum::<usize>());
            rest = others;
        }
        prop_assert!(rest.is_empty());
        prop_assert!(may_refer || runs.iter().all(|run| run.mode == SendMode::Copied));
    }
}
