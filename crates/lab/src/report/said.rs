//! Sentences of a report, and the rows of a summary that a sentence or a curve uses.

use super::number;
use super::picture::{Axis, Curve};
use crate::method::statistics::Interval;
use crate::record::summary::{Group, Row, Summary};
use crate::record::{Better, Line, Metric, Run};

/// Number of experiments whose figures are not reliable.
pub(super) fn doubts(summaries: &[Summary]) -> usize {
    summaries.iter().filter(|summary| is_doubtful(summary)).count()
}

/// True if the machine was busy with other work, or if the record does not contain the end of the
/// experiment.
pub(super) fn is_doubtful(summary: &Summary) -> bool {
    summary.noise.as_ref().is_none_or(|noise| !noise.doubts.is_empty())
}

/// Quantity that grows over the cases of a group, such as *partitions of the broker*; none if the
/// names of the cases are not numbers. Such a group has no best case.
fn quantity(group: &Group) -> Option<&str> {
    let (_, quantity) = group.name.rsplit_once(", by ")?;
    let is_number = |row: &Row| row.case.parse::<u64>().is_ok();
    (!group.rows.is_empty() && group.rows.iter().all(is_number)).then_some(quantity)
}

/// Name of a case in a picture. A number gets its quantity.
pub(super) fn label(group: &Group, row: &Row) -> String {
    let number: Option<f64> = row.case.parse().ok();
    let (Some(quantity), Some(number)) = (quantity(group), number) else { return row.case.clone() };
    let noun = quantity.split(' ').next().unwrap_or(quantity);
    match noun {
        "bytes" => number::size(number),
        _ if number == 1.0 => format!("1 {}", noun.strip_suffix('s').unwrap_or(noun)),
        _ => format!("{} {noun}", number::plain(number)),
    }
}

/// Doubts about all figures, noted before the first experiment.
pub(super) fn before(lines: &[Line]) -> Vec<&str> {
    let notes = lines.iter().filter_map(|line| match line {
        Line::Note(note) if note.experiment.is_none() => Some(note.text.as_str()),
        _ => None,
    });
    notes.collect()
}

/// Index of the row with the best median. Cases whose work does not match their names, and cases of
/// a quantity, have no rank.
pub(super) fn best(group: &Group, metric: &Metric) -> Option<usize> {
    if quantity(group).is_some() {
        return None;
    }
    let median = |row: &Row| row.metrics.get(&metric.name).map(|interval| interval.median);
    let ranked = group.rows.iter().enumerate().filter(|(_, row)| row.caveat.is_none());
    let medians = ranked.filter_map(|(at, row)| Some((at, median(row)?)));
    let best = match metric.better {
        Better::Less => medians.min_by(|one, other| one.1.total_cmp(&other.1)),
        Better::More => medians.max_by(|one, other| one.1.total_cmp(&other.1)),
        Better::Neither => None,
    };
    best.map(|(at, _)| at)
}

/// Result of a group in one sentence.
pub(super) fn outcome(group: &Group, metric: &Metric) -> String {
    if quantity(group).is_some() {
        return growth(group, metric);
    }
    let (Some(at), Some(first)) = (best(group, metric), group.rows.first()) else { return String::new() };
    let row = &group.rows[at];
    let Some(interval) = row.metrics.get(&metric.name) else { return String::new() };
    let mut said =
        format!("{} is the best here, with {}", row.case, number::with_unit(interval.median, &metric.unit));
    if let Some(relative) = row.relative.filter(|relative| at > 0 && relative.low > 1.0) {
        said.push_str(&format!(": {} times better than {}", number::plain(relative.median), first.case));
    }
    let equals = equals(group, metric, at);
    match &equals[..] {
        [] => {}
        [one] => said.push_str(&format!("; {one} may be as good")),
        [one, other] => said.push_str(&format!("; {one} and {other} may be as good")),
        _ => said.push_str(&format!("; {} others may be as good", equals.len())),
    }
    said.push('.');
    for row in &group.rows {
        if let Some(caveat) = &row.caveat {
            said.push_str(&format!(" {} does not rank: {caveat}.", row.case));
        }
    }
    said
}

/// Change over the cases of a quantity, in one sentence.
fn growth(group: &Group, metric: &Metric) -> String {
    let value = |row: &Row| {
        let interval = row.metrics.get(&metric.name)?;
        Some(format!("{} for {}", number::with_unit(interval.median, &metric.unit), label(group, row)))
    };
    let ends = (group.rows.first().and_then(value), group.rows.last().and_then(value));
    let (Some(first), Some(last)) = ends else { return String::new() };
    format!("From {first} to {last}.")
}

/// Names of the rows that the noise does not separate from the best one.
fn equals<'g>(group: &'g Group, metric: &Metric, best: usize) -> Vec<&'g str> {
    let interval = |row: &Row| row.metrics.get(&metric.name).copied();
    let Some(first) = interval(&group.rows[best]) else { return Vec::new() };
    let overlaps = |other: Interval| other.low <= first.high && first.low <= other.high;
    let others = group
        .rows
        .iter()
        .enumerate()
        .filter(|(at, row)| *at != best && row.caveat.is_none() && interval(row).is_some_and(overlaps));
    others.map(|(_, row)| row.case.as_str()).collect()
}

/// Label of the axis of bars: metric, unit, quantity of the cases, and direction.
pub(super) fn axis_of(group: &Group, metric: &Metric) -> String {
    let axis = axis(metric);
    let Some(quantity) = quantity(group) else { return axis };
    let (length, good) = axis.split_once(';').unwrap_or((&axis, ""));
    let good = if good.is_empty() { String::new() } else { format!(";{good}") };
    format!("{length}, by {quantity}{good}")
}

/// Label of the axis of bars: metric, unit and direction.
fn axis(metric: &Metric) -> String {
    let good = match metric.better {
        Better::Less => "; less is better",
        Better::More => "; more is better",
        Better::Neither => "",
    };
    let unit = if metric.unit.is_empty() { String::new() } else { format!(" in {}", metric.unit) };
    format!("{}{unit}{good}", metric.label)
}

/// Vertical axis of curves.
pub(super) fn up(metric: &Metric) -> Axis {
    Axis { label: axis(metric), written: number::plain }
}

/// Command line that repeats a run, quoted for a shell.
pub(super) fn command(run: &Run) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,".contains(letter);
    let quoted = |word: &String| {
        if word.chars().all(is_plain) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    run.command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Curves of one picture.
pub(super) struct CurveSet {
    pub(super) name: String,
    pub(super) across: Axis,
    pub(super) curves: Vec<Curve>,
}

/// Pictures of an experiment that sweeps a parameter; empty for other experiments.
pub(super) fn sweeps(summary: &Summary) -> Vec<CurveSet> {
    let (Some(sweep), Some(metric)) = (&summary.sweep, summary.metrics.first()) else { return Vec::new() };
    let across = Axis {
        label: sweep.across.replace('_', " "),
        written: if sweep.across.ends_with("_bytes") { number::size } else { number::plain },
    };
    let mut pictures: Vec<CurveSet> = Vec::new();
    for row in summary.groups.iter().flat_map(|group| &group.rows) {
        let Some((x, y)) = point(row, &sweep.across, metric) else { continue };
        let name = sweep.panel.as_ref().and_then(|panel| row.params.get(panel)).cloned().unwrap_or_default();
        let at = pictures.iter().position(|picture| picture.name == name).unwrap_or_else(|| {
            pictures.push(CurveSet { name, across: across.clone(), curves: Vec::new() });
            pictures.len() - 1
        });
        let curves = &mut pictures[at].curves;
        match curves.iter_mut().find(|curve| curve.label == row.case) {
            Some(curve) => curve.points.push((x, y)),
            None => curves.push(Curve { label: row.case.clone(), points: vec![(x, y)] }),
        }
    }
    for curve in pictures.iter_mut().flat_map(|picture| &mut picture.curves) {
        curve.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    pictures
}

fn point(row: &Row, across: &str, metric: &Metric) -> Option<(f64, Interval)> {
    let x = row.params.get(across)?.parse().ok()?;
    Some((x, *row.metrics.get(&metric.name)?))
}
