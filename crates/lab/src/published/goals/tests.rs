//! Verdicts of goals, and the committed page with its records.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::record;

fn interval(low: f64, median: f64, high: f64) -> Interval {
    Interval { median, low, high, confidence: 0.95, count: 7 }
}

#[test]
fn median_decides_if_a_goal_is_reached() {
    const THAT: At = At { experiment: "e", group: "", case: "that" };
    fn check(bound: Bound, (low, median, high): (f64, f64, f64), expected: GoalVerdict) {
        assert_eq!(bound.judge(&interval(low, median, high)), expected, "{bound:?}");
    }
    check(Bound::Times(THAT, 0.5), (0.3, 0.5, 0.7), GoalVerdict::Reached);
    check(Bound::Times(THAT, 0.5), (0.4, 0.6, 0.7), GoalVerdict::NotSure);
    check(Bound::Times(THAT, 0.5), (0.51, 0.6, 0.7), GoalVerdict::NotReached);
    check(Bound::TimesAtLeast(THAT, 1.5), (1.2, 1.5, 1.9), GoalVerdict::Reached);
    check(Bound::TimesAtLeast(THAT, 1.5), (1.2, 1.4, 1.6), GoalVerdict::NotSure);
    check(Bound::TimesAtLeast(THAT, 1.5), (1.2, 1.4, 1.49), GoalVerdict::NotReached);
    check(Bound::Value(0.0), (0.0, 0.0, 2.0), GoalVerdict::Reached);
    check(Bound::Value(0.0), (1.0, 2.0, 3.0), GoalVerdict::NotReached);
    check(Bound::ValueAtLeast(100.0), (99.0, 100.0, 100.0), GoalVerdict::Reached);
}

#[test]
fn small_factors_are_formatted_as_fractions() {
    fn check(factor: f64, expected: &str) {
        assert_eq!(times(factor), expected);
    }
    check(0.125, "1/8");
    check(0.7, "0.7×");
    check(1.3, "1.3×");
    check(0.0, "0×");
}

#[test]
fn interval_of_few_rounds_states_lower_confidence() {
    for (rounds, word) in [(5, "with five"), (4, "with four"), (3, "with three"), (2, "with two")] {
        let interval = Interval::of((0..rounds).map(f64::from)).unwrap();
        assert_eq!((interval.low, interval.high), (0.0, f64::from(rounds - 1)), "the range of all values");
        let said = format!("{:.0} % {word}", interval.confidence * 100.0);
        assert!(table::HEAD.contains(&said), "{said}");
    }
    assert!(Interval::of((0..6).map(f64::from)).unwrap().confidence >= 0.95);
}

#[test]
fn page_names_goals_without_a_measurement() {
    assert_eq!(page(&BTreeMap::new()).matches("**not measured**").count(), GOALS.len());
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance")
}

fn runs() -> BTreeMap<String, Vec<Line>> {
    let files = fs::read_dir(docs().join("runs")).unwrap().map(|file| file.unwrap().path());
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), record::read(&path).unwrap())).collect()
}

#[test]
fn figures_pictures_match_their_records() {
    let runs = runs();
    for Picture { name, experiment, group } in PICTURES {
        let committed = fs::read_to_string(docs().join(format!("{name}.svg"))).unwrap();
        let drawn = crate::report::picture(&runs[experiment], experiment, group);
        assert_eq!(drawn.as_ref(), Some(&committed), "{name}");
    }
}

#[test]
fn figures_page_matches_its_records() {
    let committed = fs::read_to_string(docs().join("figures.md")).unwrap();
    assert_eq!(page(&runs()), committed, "docs/performance/record.sh writes the page again");
    assert!(!committed.contains("**not measured**"), "a goal has no figures");
}

#[test]
fn committed_records_are_already_reduced() {
    let runs = runs();
    let again = kept(&runs.values().cloned().collect::<Vec<_>>());
    assert_eq!(again, runs);
}
