//! The measurements work, and the decision follows from them.

use std::collections::BTreeMap;

use super::*;
use crate::statistics::Interval;
use crate::summary::{Group, Row, Summary};
use crate::tests::tiny;

#[test]
fn responses_arrive_whole() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    for make in EXPERIMENTS {
        let mut experiment = make(&bench).unwrap();
        // Where no namespace may be made, the sends have no route.
        if experiment.name() != "send" || crate::memory::Worker::start(&bench, Route::Ifb).is_ok() {
            tiny(&bench, experiment.as_mut());
        }
    }
}

fn interval(median: f64, low: f64) -> Interval {
    Interval { median, low, high: 2.0 * median - low, confidence: 0.95, count: 15 }
}

/// An experiment with one case beside the first one in each group, which is so many times better (with its lower end).
fn summary(name: &str, case: &str, size: &str, relations: &[(usize, f64, f64)]) -> Summary {
    let group = |(bytes, median, low): &(usize, f64, f64)| {
        let row = |case: &str, relative| Row {
            case: case.to_owned(),
            params: [(size.to_owned(), bytes.to_string())].into(),
            metrics: BTreeMap::new(),
            relative: Some(relative),
            sound: Some(true),
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
fn references_take_over_where_they_are_surely_better_from_there_on() {
    fn check(relations: &[(usize, f64, f64)], expected: u64) {
        let (thresholds, findings) = decide(&[summary("extents", "splice", "extent_bytes", relations)]);
        assert_eq!(thresholds.small_extent_bytes, expected, "{findings:?}");
        assert_eq!(findings[0].bytes, expected);
        assert!(findings[1..].iter().all(|finding| finding.bytes == finding.default_bytes), "{findings:?}");
        assert!(findings[1..].iter().all(|finding| finding.why.contains("not measured")), "{findings:?}");
    }
    check(&[], 16 << 10);
    check(&[(4096, 0.8, 0.7), (8192, 0.9, 0.8), (16_384, 1.3, 1.2), (32_768, 2.0, 1.9)], 8192);
    // Better by chance, and perhaps not better.
    check(&[(4096, 1.2, 1.1), (8192, 0.9, 0.8), (16_384, 1.1, 0.9), (32_768, 2.0, 1.9)], 16_384);
    check(&[(4096, 1.2, 1.1), (8192, 1.3, 1.2)], 2048);
    check(&[(4096, 0.5, 0.4), (8192, 0.6, 0.5)], 8192);
}

#[test]
fn memory_goes_by_reference_where_that_is_surely_better() {
    fn check(relations: &[(usize, f64, f64)], expected: usize) {
        let (thresholds, findings) =
            decide(&[summary("send", "SEND_ZC registered", "message_bytes", relations)]);
        assert_eq!(thresholds.registered_send_bytes, expected, "{findings:?}");
        assert_eq!(thresholds.zero_copy_send_bytes, Thresholds::default().zero_copy_send_bytes);
        // What is decided may be written down and read again.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("thresholds");
        std::fs::write(&path, thresholds.to_text("")).unwrap();
        assert_eq!(Thresholds::load(&path).unwrap(), thresholds);
    }
    check(&[(1024, 0.8, 0.7), (2048, 1.2, 1.1), (4096, 1.3, 1.2)], 2048);
    check(&[(1024, 0.8, 0.7), (2048, 0.9, 0.8)], 64 << 20);
}

#[test]
fn the_smallest_pipe_that_is_as_good_is_taken() {
    fn check(costs: &[(usize, f64)], expected: (usize, usize)) {
        let mut pipes = summary("pipes", "", "", &[]);
        let row = |(size, cost): &(usize, f64)| Row {
            case: size.to_string(),
            params: [("pipe_bytes".to_owned(), size.to_string())].into(),
            metrics: [("cpu_us".to_owned(), interval(*cost, *cost))].into(),
            relative: None,
            sound: Some(true),
        };
        pipes.groups.push(Group { name: "1M".to_owned(), rows: costs.iter().map(row).collect() });
        let (thresholds, findings) = decide(&[pipes]);
        assert_eq!((thresholds.pipe_bytes, thresholds.pipe_floor_bytes), expected, "{findings:?}");
    }
    check(&[(65_536, 140.0), (262_144, 101.0), (1_048_576, 100.0)], (262_144, 131_072));
    check(&[(65_536, 100.0), (262_144, 101.0), (1_048_576, 100.0)], (65_536, 65_536));
    check(&[(65_536, 140.0), (262_144, 120.0), (1_048_576, 100.0)], (1_048_576, 131_072));
}
