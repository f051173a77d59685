//! Ratios have a direction, and compare values of the same round.

use super::*;
use crate::record::{Announced, CaseLine};

fn lines(metric: Metric, values: &[(&str, u32, f64)]) -> Vec<Line> {
    let case = |case: &str| CaseLine { group: "g".into(), case: case.into(), params: BTreeMap::new() };
    let announced = Announced {
        experiment: "e".into(),
        shows: String::new(),
        metrics: vec![metric],
        cases: vec![case("a"), case("b"), case("c")],
        sweep: None,
    };
    let sample = |(case, round, value): &(&str, u32, f64)| {
        Line::Sample(Sample {
            experiment: "e".into(),
            group: "g".into(),
            case: (*case).into(),
            params: BTreeMap::new(),
            round: *round,
            metrics: [("m".to_owned(), *value)].into(),
            verdict: None,
        })
    };
    [Line::Experiment(announced)].into_iter().chain(values.iter().map(sample)).collect()
}

#[test]
fn ratio_above_one_means_better() {
    fn check(metric: Metric, expected: f64) {
        let rows =
            of(&lines(metric, &[("a", 1, 4.0), ("b", 1, 2.0)])).swap_remove(0).groups.swap_remove(0).rows;
        assert_eq!(rows[0].relative.unwrap().median, 1.0);
        assert_eq!(rows[1].relative.unwrap().median, expected);
    }
    check(Metric::less("m", "m", "s"), 2.0);
    check(Metric::more("m", "m", "/s"), 0.5);
}

#[test]
fn ratios_pair_values_of_the_same_round() {
    let values = [("a", 1, 1.0), ("b", 1, 2.0), ("a", 2, 100.0), ("b", 2, 200.0), ("b", 3, 7.0)];
    let summary = of(&lines(Metric::less("m", "m", "s"), &values)).swap_remove(0);
    let rows = &summary.groups[0].rows;
    assert_eq!(rows.len(), 2, "the case without samples is left out");
    let relative = rows[1].relative.unwrap();
    assert_eq!((relative.low, relative.high, relative.count), (0.5, 0.5, 2));
    assert_eq!((summary.noise, rows[1].sound), (None, None));
}
