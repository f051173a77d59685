//! Summary of a record: for each case the median of each metric, and its ratio to the first case of
//! its group.
//!
//! Ratios are computed in pairs: the values of two cases in the same round are divided, and the
//! median of these quotients counts. A disturbance of a whole round affects both values and cancels
//! out.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::machine::noise::Noise;
use crate::method::statistics::Interval;
use crate::record::{Better, CaseLine, Line, Metric, Sample, Sweep};

/// Summary of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the experiment: one word.
    pub name: String,
    /// Purpose of the experiment, in one sentence.
    pub shows: String,
    /// Metrics of the experiment. The first metric ranks the cases.
    pub metrics: Vec<Metric>,
    /// Axis of the picture, if a parameter is swept.
    pub sweep: Option<Sweep>,
    /// Groups of cases, in order.
    pub groups: Vec<Group>,
    /// Notes, each with the case that it concerns.
    pub notes: Vec<String>,
    /// Other activity of the machine; none if the record is not complete.
    pub noise: Option<Noise>,
}

/// Cases that are compared with each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Rows in the order of the announcement, without skipped cases.
    pub rows: Vec<Row>,
}

/// Figures of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the case.
    pub case: String,
    /// Parameters of the case.
    pub params: BTreeMap<String, String>,
    /// Median of each metric.
    pub metrics: BTreeMap<String, Interval>,
    /// Factor by which the case is better than the first case of the group in the first metric: 2
    /// means half the cost or twice the rate.
    pub relative: Option<Interval>,
    /// True if the check found all bytes unchanged; none without a check.
    pub sound: Option<bool>,
    /// Reason why the work of the case does not match its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// Durations of the system calls, if the experiment timed each.
    pub calls: Vec<Calls>,
}

/// Calls of one system call in a run: medians over the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calls {
    /// Name of the system call.
    pub name: String,
    /// Number of calls.
    pub calls: f64,
    /// Duration of all calls, in ms.
    pub total_ms: f64,
    /// Duration of the shortest call, in ms.
    pub min_ms: f64,
    /// Average duration of a call, in ms.
    pub avg_ms: f64,
    /// Duration of the longest call, in ms.
    pub max_ms: f64,
}

/// Summarises the experiments of a record.
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

/// Collects the metrics with names `call.NAME.VALUE`.
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

/// Factor by which `own` is better than `base`: the median of the factors of all rounds.
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
