//! Summary of a record: for each case the median of each metric, and its ratio to the first
//! case of its group.
//!
//! Relations are made of pairs: the two cases' values of the same round are divided, and the median
//! of those quotients counts. A disturbance of a whole round affects both and cancels out.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::machine::noise::Noise;
use crate::method::statistics::Interval;
use crate::record::{Better, CaseLine, Line, Metric, Sample, Sweep};

/// An experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// One word.
    pub name: String,
    /// The statement that it supports.
    pub shows: String,
    /// Its metrics; the first one ranks.
    pub metrics: Vec<Metric>,
    /// Axis of the picture.
    pub sweep: Option<Sweep>,
    /// Its groups, in order.
    pub groups: Vec<Group>,
    /// Note, with the case that it concerns.
    pub notes: Vec<String>,
    /// Other activity of the machine; none if the record is incomplete.
    pub noise: Option<Noise>,
}

/// Cases that are compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// In the order of the announcement; those that were skipped are left out.
    pub rows: Vec<Row>,
}

/// A case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub case: String,
    /// Parameters of the case.
    pub params: BTreeMap<String, String>,
    /// Medians by metric.
    pub metrics: BTreeMap<String, Interval>,
    /// Factor by which it is better than the first case of the group in the first metric: 2 is half
    /// the cost, or twice the rate.
    pub relative: Option<Interval>,
    /// True if its bytes were checked, and sound.
    pub sound: Option<bool>,
    /// The reason why it differs from its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// Durations of its system calls, if each was measured.
    pub calls: Vec<Calls>,
}

/// The calls of one name in a run: medians over the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calls {
    /// The call.
    pub name: String,
    /// Their number.
    pub calls: f64,
    /// Time that all of them took.
    pub total_ms: f64,
    /// Time that the shortest took.
    pub min_ms: f64,
    /// Time that one took on average.
    pub avg_ms: f64,
    /// Time that the longest took.
    pub max_ms: f64,
}

/// The experiments of a record.
pub fn of(lines: &[Line]) -> Vec<Summary> {
    let announced = lines.iter().filter_map(|line| match line {
        Line::Experiment(announced) => Some(announced),
        _ => None,
    });
    let summary = |announced: &crate::record::Announced| {
        let name = announced.experiment.as_str();
        let samples = samples(lines, name);
        let mut groups: Vec<Group> = Vec::new();
        for case in &announced.cases {
            let of_case = |sample: &&&Sample| sample.group == case.group && sample.case == case.case;
            let own: Vec<&Sample> = samples.iter().filter(of_case).copied().collect();
            if own.is_empty() {
                continue;
            }
            if groups.last().is_none_or(|group| group.name != case.group) {
                groups.push(Group { name: case.group.clone(), rows: Vec::new() });
            }
            let Some(group) = groups.last_mut() else { continue };
            let reference = group.rows.first().map_or(case.case.as_str(), |row| row.case.as_str());
            let base = samples.iter().filter(|sample| sample.group == case.group && sample.case == reference);
            let base: Vec<&Sample> = base.copied().collect();
            let row = Row {
                case: case.case.clone(),
                params: case.params.clone(),
                metrics: medians(&announced.metrics, &own),
                relative: announced.metrics.first().and_then(|metric| relation(metric, &own, &base)),
                calls: calls(&own),
                caveat: caveat(lines, name, case),
                sound: own.iter().find_map(|sample| sample.verdict.as_ref().map(|verdict| verdict.sound)),
            };
            group.rows.push(row);
        }
        Summary {
            name: name.to_owned(),
            shows: announced.shows.clone(),
            metrics: announced.metrics.clone(),
            sweep: announced.sweep.clone(),
            groups,
            notes: notes(lines, name),
            noise: noise(lines, name),
        }
    };
    announced.map(summary).collect()
}

fn samples<'a>(lines: &'a [Line], experiment: &str) -> Vec<&'a Sample> {
    let own = lines.iter().filter_map(|line| match line {
        Line::Sample(sample) if sample.experiment == experiment => Some(sample),
        _ => None,
    });
    own.collect()
}

fn medians(metrics: &[Metric], samples: &[&Sample]) -> BTreeMap<String, Interval> {
    let median = |metric: &Metric| {
        let values = samples.iter().filter_map(|sample| sample.metrics.get(&metric.name).copied());
        Some((metric.name.clone(), Interval::of(values)?))
    };
    metrics.iter().filter_map(median).collect()
}

/// Of metrics that are named `call.NAME.VALUE`.
fn calls(samples: &[&Sample]) -> Vec<Calls> {
    let mut values: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for (metric, value) in samples.iter().flat_map(|sample| &sample.metrics) {
        let parts = metric.strip_prefix("call.").and_then(|rest| rest.rsplit_once('.'));
        if let Some(parts) = parts {
            values.entry(parts).or_default().push(*value);
        }
    }
    let median = |name: &str, value: &str| {
        let values = values.get(&(name, value)).cloned().unwrap_or_default();
        Interval::of(values).map_or(f64::NAN, |interval| interval.median)
    };
    let names: std::collections::BTreeSet<&str> = values.keys().map(|(name, _)| *name).collect();
    let of = |name: &str| Calls {
        name: name.to_owned(),
        calls: median(name, "calls"),
        total_ms: median(name, "total_ms"),
        min_ms: median(name, "min_ms"),
        avg_ms: median(name, "avg_ms"),
        max_ms: median(name, "max_ms"),
    };
    names.into_iter().map(of).collect()
}

/// Factor by which `own` is better than `base`, round by round.
fn relation(metric: &Metric, own: &[&Sample], base: &[&Sample]) -> Option<Interval> {
    let value = |sample: &Sample| sample.metrics.get(&metric.name).copied();
    let quotients = own.iter().filter_map(|sample| {
        let other = base.iter().find(|other| other.round == sample.round && other.round > 0)?;
        let (mine, theirs) = (value(sample)?, value(other)?);
        Some(if metric.better == Better::More { mine / theirs } else { theirs / mine })
    });
    Interval::of(quotients)
}

fn notes(lines: &[Line], experiment: &str) -> Vec<String> {
    let own = lines.iter().filter_map(|line| match line {
        Line::Note(note) if note.experiment.as_deref() == Some(experiment) => Some(note),
        _ => None,
    });
    let text = |note: &crate::record::Note| match (&note.group, &note.case) {
        (Some(group), Some(case)) if group.is_empty() => format!("{case}: {}", note.text),
        (Some(group), Some(case)) => format!("{group}, {case}: {}", note.text),
        _ => note.text.clone(),
    };
    own.map(text).collect()
}

fn caveat(lines: &[Line], experiment: &str, case: &CaseLine) -> Option<String> {
    lines.iter().find_map(|line| match line {
        Line::Note(note)
            if note.caveat
                && note.experiment.as_deref() == Some(experiment)
                && note.group.as_ref() == Some(&case.group)
                && note.case.as_ref() == Some(&case.case) =>
        {
            Some(note.text.clone())
        }
        _ => None,
    })
}

fn noise(lines: &[Line], experiment: &str) -> Option<Noise> {
    lines.iter().find_map(|line| match line {
        Line::Ended(ended) if ended.experiment == experiment => Some(ended.noise.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
