//! The comparison finds changes, and finds none where only chance differs.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::record::CaseLine;

fn record(better: Better, values: &[f64]) -> Vec<Line> {
    let metric = Metric { better, ..Metric::neither("cost", "cost", "s") };
    let case = CaseLine { group: "g".to_owned(), case: "c".to_owned(), params: BTreeMap::new() };
    let announced = Announced {
        experiment: "e".to_owned(),
        shows: String::new(),
        metrics: vec![metric],
        cases: vec![case],
        sweep: None,
    };
    let samples = values.iter().zip(1..).map(|(value, round)| {
        Line::Sample(Sample {
            experiment: "e".to_owned(),
            group: "g".to_owned(),
            case: "c".to_owned(),
            params: BTreeMap::new(),
            round,
            metrics: [("cost".to_owned(), *value)].into(),
            verdict: None,
        })
    });
    std::iter::once(Line::Experiment(announced)).chain(samples).collect()
}

fn judged(better: Better, before: &[f64], after: &[f64]) -> ComparisonVerdict {
    of(&record(better, before), &record(better, after))[0].verdict
}

fn around(middle: f64, count: u32) -> Vec<f64> {
    (0..count).map(|at| middle * (1.0 + 0.001 * f64::from(at % 5))).collect()
}

#[test]
fn verdict_depends_on_size_and_direction_of_change() {
    let one = around(1.0, 15);
    assert_eq!(judged(Better::Less, &one, &one), ComparisonVerdict::NoDifference);
    assert_eq!(judged(Better::Less, &one, &around(1.2, 15)), ComparisonVerdict::Worse);
    assert_eq!(judged(Better::More, &one, &around(1.2, 15)), ComparisonVerdict::Better);
    assert_eq!(judged(Better::Less, &one, &around(0.8, 15)), ComparisonVerdict::Better);
    assert_eq!(judged(Better::More, &one, &around(0.8, 15)), ComparisonVerdict::Worse);
    assert_eq!(judged(Better::Neither, &one, &around(0.8, 15)), ComparisonVerdict::Changed);
    // Certain, but small.
    assert_eq!(judged(Better::Less, &one, &around(1.03, 15)), ComparisonVerdict::NoDifference);
    // Large, but with too few values.
    assert_eq!(judged(Better::Less, &around(1.0, 3), &around(2.0, 3)), ComparisonVerdict::TooFew);
}

/// A record of several cases, each with 15 values around its middle.
fn cases(middles: &[f64]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (at, middle) in middles.iter().enumerate() {
        for mut line in record(Better::Less, &around(*middle, 15)) {
            match &mut line {
                Line::Experiment(announced) => announced.cases[0].case = at.to_string(),
                Line::Sample(sample) => sample.case = at.to_string(),
                _ => {}
            }
            match (&line, lines.first_mut()) {
                (Line::Experiment(one), Some(Line::Experiment(all))) => all.cases.extend(one.cases.clone()),
                _ => lines.push(line),
            }
        }
    }
    lines
}

#[test]
fn shared_drift_up_to_a_tenth_is_ignored() {
    fn check(after: &[f64], expected: &[ComparisonVerdict]) {
        let verdicts: Vec<ComparisonVerdict> =
            of(&cases(&vec![1.0; after.len()]), &cases(after)).iter().map(|one| one.verdict).collect();
        assert_eq!(verdicts, expected, "{after:?}");
    }
    const SAME: ComparisonVerdict = ComparisonVerdict::NoDifference;
    check(&[1.07, 1.06, 1.08, 1.07, 1.06], &[SAME; 5]);
    check(&[1.07, 1.06, 1.3, 1.07, 1.06], &[SAME, SAME, ComparisonVerdict::Worse, SAME, SAME]);
    check(&[1.0, 0.99, 1.07, 1.0, 1.01], &[SAME, SAME, ComparisonVerdict::Worse, SAME, SAME]);
    // All cases share the change, but it is too great for a machine.
    check(&[1.2, 1.2, 1.2, 1.2, 1.2], &[ComparisonVerdict::Worse; 5]);
    // With only three cases there is no shared change.
    check(&[1.07, 1.06, 1.08], &[ComparisonVerdict::Worse; 3]);
}

#[test]
fn comparison_omits_cases_of_only_one_record() {
    assert!(of(&record(Better::Less, &[1.0]), &[]).is_empty());
}

#[test]
fn false_difference_rate_is_one_in_thousand() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut noisy = || -> Vec<f64> { (0..15).map(|_| rng.random_range(0.5..1.5)).collect() };
    let found = (0..2000)
        .filter(|_| judged(Better::Less, &noisy(), &noisy()) != ComparisonVerdict::NoDifference)
        .count();
    assert!(found <= 10, "{found} of 2000 equal pairs differ");
}

proptest! {
    #[test]
    fn change_interval_encloses_the_quotient(
        before in prop::collection::vec(0.1..10.0f64, 9..30),
        after in prop::collection::vec(0.1..10.0f64, 9..30),
    ) {
        let compared = of(&record(Better::Less, &before), &record(Better::Less, &after));
        let change = compared[0].change.expect("nine values are enough");
        prop_assert!(change.low <= change.quotient && change.quotient <= change.high);
    }
}
