//! Comparison of two records: the change of the first metric for each case of both records, with a
//! test for chance.
//!
//! The test assumes nothing about the distribution of values. The change is the median of all
//! quotients of a value after by a value before. Its ends are the quotients that enclose the true
//! one, by the ranks of the values (Hodges and Lehmann; Mann and Whitney). Runs that are hours
//! apart differ by more than the chance within each run. Therefore a change counts only from
//! [`LEAST_CHANGE`] on, independent of its ends. A change that all cases of an experiment share
//! counts only from [`LEAST_SHARED_CHANGE`] on.

use serde::Serialize;

use crate::record::{Announced, Better, Line, Metric, Sample};

/// Minimum change that counts. Smaller changes occur from one run to the next on the same machine.
pub const LEAST_CHANGE: f64 = 0.05;

/// Minimum change that counts if all cases of an experiment share it. Smaller shared changes come
/// from the machine: each run gets different memory pages and other neighbours. A case must also
/// differ from the shared change.
pub const LEAST_SHARED_CHANGE: f64 = 0.1;

/// Minimum number of cases with a shared change.
const SHARED_BY: usize = 4;

/// Number of standard deviations from the middle to the ends, so that one comparison in a thousand
/// finds a difference by chance.
const DEVIATIONS: f64 = 3.29;

/// A case that both records contain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the experiment.
    pub experiment: String,
    /// Group of the case.
    pub group: String,
    /// Name of the case within the group.
    pub case: String,
    /// Metric whose values are compared.
    pub metric: Metric,
    /// Median of the record before.
    pub before: f64,
    /// Median of the record after.
    pub after: f64,
    /// Quotient of after by before, with its ends; none if there are too few values.
    pub change: Option<Change>,
    /// Verdict about the change.
    pub verdict: ComparisonVerdict,
}

/// A quotient with its ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Median of all quotients.
    pub quotient: f64,
    /// Lower end of the quotient.
    pub low: f64,
    /// Upper end of the quotient.
    pub high: f64,
}

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// The change may be chance.
    NoDifference,
    /// The case has improved.
    Better,
    /// The case has become worse.
    Worse,
    /// The value has changed, and neither direction is better.
    Changed,
    /// Too few rounds for a verdict.
    TooFew,
}

/// Compares all cases that both records contain, in the order of the first record.
pub fn of(before: &[Line], after: &[Line]) -> Vec<Compared> {
    let announced = before.iter().filter_map(|line| match line {
        Line::Experiment(announced) => Some(announced),
        _ => None,
    });
    announced.flat_map(|announced| of_experiment(announced, before, after)).collect()
}

fn of_experiment(announced: &Announced, before: &[Line], after: &[Line]) -> Vec<Compared> {
    let Some(metric) = announced.metrics.first() else { return Vec::new() };
    let compared = |case: &crate::record::CaseLine| {
        let values = |lines: &[Line]| -> Vec<f64> {
            let own = lines.iter().filter_map(|line| match line {
                Line::Sample(sample) => Some(sample),
                _ => None,
            });
            let of_case = |sample: &&Sample| {
                sample.experiment == announced.experiment
                    && sample.group == case.group
                    && sample.case == case.case
            };
            let mut values: Vec<f64> =
                own.filter(of_case).filter_map(|sample| sample.metrics.get(&metric.name).copied()).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (before, after) = (values(before), values(after));
        let change = change(&before, &after);
        Some(Compared {
            experiment: announced.experiment.clone(),
            group: case.group.clone(),
            case: case.case.clone(),
            metric: metric.clone(),
            before: middle(&before)?,
            after: middle(&after)?,
            change,
            verdict: ComparisonVerdict::TooFew,
        })
    };
    let mut compared: Vec<Compared> = announced.cases.iter().filter_map(compared).collect();
    let shared = shared(&compared);
    for one in &mut compared {
        one.verdict = verdict(one.change, shared, metric.better);
    }
    compared
}

/// Quotient that all cases share, or 1 if it is too great to come from the machine.
fn shared(compared: &[Compared]) -> f64 {
    let mut quotients: Vec<f64> = compared.iter().filter_map(|one| Some(one.change?.quotient)).collect();
    quotients.sort_by(f64::total_cmp);
    match middle(&quotients) {
        Some(shared) if quotients.len() >= SHARED_BY && (shared - 1.0).abs() < LEAST_SHARED_CHANGE => shared,
        _ => 1.0,
    }
}

fn middle(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

fn change(before: &[f64], after: &[f64]) -> Option<Change> {
    let (m, n) = (before.len() as f64, after.len() as f64);
    let deviation = (m * n * (m + n + 1.0) / 12.0).sqrt();
    let outside = m * n / 2.0 - DEVIATIONS * deviation;
    if outside < 1.0 {
        return None;
    }
    let pairs = after.iter().flat_map(|after| before.iter().map(move |before| after / before));
    let mut quotients: Vec<f64> = pairs.filter(|quotient| quotient.is_finite()).collect();
    quotients.sort_by(f64::total_cmp);
    let outside = outside as usize;
    let last = quotients.len().checked_sub(outside)?;
    Some(Change {
        quotient: middle(&quotients)?,
        low: *quotients.get(outside - 1)?,
        high: *quotients.get(last)?,
    })
}

fn verdict(change: Option<Change>, shared: f64, better: Better) -> ComparisonVerdict {
    let Some(Change { quotient, low, high }) = change else { return ComparisonVerdict::TooFew };
    let differs_from =
        |base: f64| (quotient / base - 1.0).abs() >= LEAST_CHANGE && (low / base > 1.0 || high / base < 1.0);
    match (differs_from(1.0) && differs_from(shared), better, quotient > 1.0) {
        (false, _, _) => ComparisonVerdict::NoDifference,
        (true, Better::Neither, _) => ComparisonVerdict::Changed,
        (true, Better::Less, more) => {
            if more {
                ComparisonVerdict::Worse
            } else {
                ComparisonVerdict::Better
            }
        }
        (true, Better::More, more) => {
            if more {
                ComparisonVerdict::Better
            } else {
                ComparisonVerdict::Worse
            }
        }
    }
}

#[cfg(test)]
mod tests;
