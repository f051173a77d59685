//! Two records held against each other: for each case that both have, how the first metric has
//! changed, and whether that is more than chance.
//!
//! Nothing is assumed about how values are distributed. The change is the median of all quotients
//! of a value after by a value before; its ends are the quotients between which the true one lies,
//! by the ranks that the values have among each other (Hodges and Lehmann; Mann and Whitney). Runs
//! hours apart differ by more than chance within each: a change counts from [`LEAST_CHANGE`] on,
//! independent of its ends; one that all cases of an experiment share counts from
//! [`LEAST_SHARED_CHANGE`] on.

use serde::Serialize;

use crate::record::{Announced, Better, Line, Metric, Sample};

/// Smaller changes occur on a machine without a cause from one run to the next.
pub const LEAST_CHANGE: f64 = 0.05;

/// Differences that all cases of an experiment share are the machine's too, up to here: another run
/// has other pages of memory and other neighbours. A case has to differ from what it shares as
/// well.
pub const LEAST_SHARED_CHANGE: f64 = 0.1;

/// Number of cases from which on they have a shared change.
const SHARED_BY: usize = 4;

/// Number of standard deviations from the middle to the ends: one comparison in a thousand finds a
/// difference where there is none.
const DEVIATIONS: f64 = 3.29;

/// One case in both records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The experiment.
    pub experiment: String,
    /// The group in it.
    pub group: String,
    /// The case in that.
    pub case: String,
    /// The compared metric.
    pub metric: Metric,
    /// The median before.
    pub before: f64,
    /// The median after.
    pub after: f64,
    /// After by before, with its ends; none with too few values for any.
    pub change: Option<Change>,
    /// The verdict.
    pub verdict: ComparisonVerdict,
}

/// A quotient with its ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The median of all quotients.
    pub quotient: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// No change beyond chance.
    NoDifference,
    /// Better.
    Better,
    /// Worse.
    Worse,
    /// Changed, and neither direction is better.
    Changed,
    /// Too few rounds for a verdict.
    TooFew,
}

/// All cases that both records have, in the order of the first.
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

/// The ratio that all cases share, if it is small enough to be the machine's; else 1.
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
