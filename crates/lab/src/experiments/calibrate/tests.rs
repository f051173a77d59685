//! The measurements work, and the decision follows from their summaries.

use std::collections::BTreeMap;

use super::*;
use crate::method::statistics::Interval;
use crate::record::summary::{Group, Row, Summary};
use crate::tests::tiny;

#[test]
fn responses_arrive_with_all_their_bytes() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    for make in EXPERIMENTS {
        let mut experiment = make(&bench).unwrap();
        // Without permission for a network namespace, the sends have no route.
        if experiment.name() != "send"
            || crate::harness::memory_sender::Worker::start(&bench, Route::Ifb).is_ok()
        {
            tiny(&bench, experiment.as_mut());
        }
    }
}

fn interval(median: f64, low: f64) -> Interval {
    Interval { median, low, high: 2.0 * median - low, confidence: 0.95, count: 15 }
}

/// Summary of an experiment. Each group has a first case, and a second case that is better by a
/// median factor, of which the tuple also contains the lower bound.
fn summary(name: &str, case: &str, size: &str, relations: &[(usize, f64, f64)]) -> Summary {
    let group = |(bytes, median, low): &(usize, f64, f64)| {
        let row = |case: &str, relative| Row {
            case: case.to_owned(),
            params: [(size.to_owned(), bytes.to_string())].into(),
            metrics: BTreeMap::new(),
            relative: Some(relative),
            sound: Some(true),
            caveat: None,
            calls: Vec::new(),
        };
        let rows = vec![row("read_write", interval(1.0, 1.0)), row(case, interval(*median, *low))];
        Group { name: bytes.to_string(), rows }
    };
    Summary {
        name: name.to_owned(),
        shows: String::new(),
        metrics: Vec::new(),
        groups: relations.iter().map(group).collect(),
        notes: Vec::new(),
        noise: None,
        sweep: None,
    }
}

#[test]
fn extent_threshold_changes_only_if_default_is_wrong() {
    fn check(relations: &[(usize, f64, f64)], expected: u64) {
        let (thresholds, findings) = decide(&[summary("extents", "splice", "extent_bytes", relations)]);
        assert_eq!(thresholds.small_extent_bytes, expected, "{findings:?}");
        assert_eq!(findings[0].bytes, expected);
        assert!(findings[1..].iter().all(|finding| finding.bytes == finding.default_bytes), "{findings:?}");
    }
    const DEFAULT: u64 = 16 << 10;
    check(&[], DEFAULT);
    // Copies are better up to 8 KiB, and references from 32 KiB on: the default lies between.
    check(&[(8192, 0.8, 0.7), (16_384, 0.9, 0.7), (24_576, 1.1, 0.9), (32_768, 2.0, 1.9)], DEFAULT);
    // References are better from a smaller size on.
    check(
        &[(4096, 0.8, 0.7), (8192, 1.1, 0.9), (12_288, 1.3, 1.2), (16_384, 1.5, 1.4), (32_768, 2.0, 1.9)],
        4096,
    );
    // References are better even at the smallest size.
    check(&[(4096, 1.2, 1.1), (8192, 1.3, 1.2), (16_384, 1.3, 1.2)], 2048);
    // Copies are better up to a larger size.
    check(
        &[(8192, 0.5, 0.4), (16_384, 0.6, 0.5), (24_576, 0.8, 0.7), (32_768, 0.9, 0.85), (65_536, 1.5, 1.4)],
        32_768,
    );
    check(&[(8192, 0.5, 0.4), (131_072, 0.6, 0.5)], 131_072);
    // The intervals decide nothing.
    check(&[(8192, 0.9, 0.5), (16_384, 1.2, 0.5), (32_768, 0.7, 0.2)], DEFAULT);
}

#[test]
fn calibration_ignores_intervals_of_too_few_rounds() {
    let mut few = summary("extents", "splice", "extent_bytes", &[(4096, 2.0, 1.9), (8192, 2.0, 1.9)]);
    for row in few.groups.iter_mut().flat_map(|group| &mut group.rows) {
        row.relative.as_mut().unwrap().confidence = 0.75;
    }
    assert_eq!(decide(&[few]).0, Thresholds::default());
}

#[test]
fn calibration_uses_memory_references_only_if_surely_better() {
    fn check(relations: &[(usize, f64, f64)], expected: usize) {
        let (thresholds, findings) =
            decide(&[summary("send", "SEND_ZC registered", "message_bytes", relations)]);
        assert_eq!(thresholds.registered_send_bytes, expected, "{findings:?}");
        assert_eq!(thresholds.zero_copy_send_bytes, Thresholds::default().zero_copy_send_bytes);
        // A file keeps the decision unchanged.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("thresholds");
        std::fs::write(&path, thresholds.to_text("")).unwrap();
        assert_eq!(Thresholds::load(&path).unwrap(), thresholds);
    }
    check(&[(1024, 0.8, 0.7), (2048, 1.2, 1.1), (4096, 1.3, 1.2)], 2048);
    check(&[(1024, 0.8, 0.7), (4096, 1.2, 1.1), (8192, 1.3, 1.2)], 4096);
    check(&[(4096, 0.8, 0.7), (8192, 0.9, 0.85), (16_384, 1.3, 1.2)], 16_384);
    check(&[(1024, 0.8, 0.7), (2048, 0.9, 0.85)], 64 << 20);
}

#[test]
fn calibration_takes_smallest_pipe_of_equal_cost() {
    fn check(relations: &[(usize, f64, f64)], expected: (usize, usize)) {
        let mut pipes = summary("pipes", "", "", &[]);
        let row = |(size, median, low): &(usize, f64, f64)| Row {
            case: size.to_string(),
            params: [("pipe_bytes".to_owned(), size.to_string())].into(),
            metrics: BTreeMap::new(),
            relative: Some(interval(*median, *low)),
            sound: Some(true),
            caveat: None,
            calls: Vec::new(),
        };
        pipes.groups.push(Group { name: "1M".to_owned(), rows: relations.iter().map(row).collect() });
        let (thresholds, findings) = decide(&[pipes]);
        assert_eq!((thresholds.pipe_bytes, thresholds.pipe_floor_bytes), expected, "{findings:?}");
    }
    const DEFAULT: (usize, usize) = (1 << 20, 128 << 10);
    check(&[(1 << 20, 1.0, 1.0), (65_536, 0.7, 0.6), (262_144, 1.0, 0.98)], (262_144, 131_072));
    check(&[(1 << 20, 1.0, 1.0), (65_536, 1.0, 0.98), (262_144, 1.0, 0.98)], (65_536, 65_536));
    check(&[(1 << 20, 1.0, 1.0), (65_536, 0.7, 0.6), (262_144, 1.0, 0.9)], DEFAULT);
    check(&[], DEFAULT);
}
