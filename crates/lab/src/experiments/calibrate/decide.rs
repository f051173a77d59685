//! Thresholds from summaries: a pure function, so that unit tests can check its rules.

use levada_io::Thresholds;
use serde::Serialize;

use crate::method::statistics::Interval;
use crate::record::summary::{Group, Row, Summary};

/// One threshold and the reason for its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Key in the file of thresholds.
    pub key: &'static str,
    /// Best value on this machine, in bytes.
    pub bytes: u64,
    /// Default without calibration, in bytes.
    pub default_bytes: u64,
    /// Reason for the value, for users.
    pub why: String,
}

/// A pipe is as good as the default if the upper bound of its cost is at most this factor times the
/// cost of the default. The decision takes the smallest of these pipes, because the kernel limits
/// the memory of pipes.
const AS_GOOD: f64 = 1.03;

/// Threshold for messages that must never be sent by reference: the largest valid value.
const NEVER_BYTES: usize = 64 << 20;

/// Minimum confidence of an interval that counts; five rounds reach it.
const CONFIDENCE: f64 = 0.93;

/// Returns the thresholds that the summaries support, with the reasons. A default changes only if
/// the confidence interval excludes it.
pub fn decide(summaries: &[Summary]) -> (Thresholds, Vec<Finding>) {
    let defaults = Thresholds::default();
    let mut thresholds = defaults;
    let groups = |name: &str| {
        summaries.iter().find(|summary| summary.name == name).map_or(&[][..], |summary| &summary.groups)
    };
    let mut reasons = Vec::new();

    let extents = points(groups("extents"), "extent_bytes", |row| row.case != "read_write");
    let small = usize::try_from(defaults.small_extent_bytes).unwrap_or(usize::MAX);
    let crossing = crossing(&extents, small + 1);
    match crossing {
        Crossing::At { below, at, .. } => thresholds.small_extent_bytes = below.unwrap_or(at / 2) as u64,
        Crossing::Never => thresholds.small_extent_bytes = extents.last().map_or(0, |(size, _)| *size as u64),
        Crossing::Unknown | Crossing::Default => {}
    }
    reasons.push(crossing.why("references", "no extents were measured"));

    let (pipe_bytes, why) = pipe(groups("pipes"), defaults.pipe_bytes);
    thresholds.pipe_bytes = pipe_bytes;
    thresholds.pipe_floor_bytes = thresholds.pipe_floor_bytes.min(pipe_bytes);
    reasons.push(why);

    for (name, threshold) in [
        ("SEND_ZC", &mut thresholds.zero_copy_send_bytes),
        ("SEND_ZC registered", &mut thresholds.registered_send_bytes),
    ] {
        let crossing =
            self::crossing(&points(groups("send"), "message_bytes", |row| row.case == name), *threshold);
        match crossing {
            Crossing::At { at, .. } => *threshold = at,
            Crossing::Never => *threshold = NEVER_BYTES,
            Crossing::Unknown | Crossing::Default => {}
        }
        reasons.push(crossing.why(name, "not measured: no device of this machine accepts references"));
    }
    let finding = |(((key, bytes), (_, default_bytes)), why)| Finding { key, bytes, default_bytes, why };
    let findings = thresholds.calibrated().zip(defaults.calibrated()).zip(reasons).map(finding).collect();
    (thresholds, findings)
}

/// Factors by which a row of a group is better than the first row, sorted by ascending size.
fn points(groups: &[Group], size: &str, wanted: impl Fn(&Row) -> bool) -> Vec<(usize, Interval)> {
    let rows = groups.iter().filter_map(|group| group.rows.iter().find(|row| wanted(row)));
    let point = |row: &Row| Some((row.params.get(size)?.parse().ok()?, row.relative?));
    let mut points: Vec<(usize, Interval)> = rows.filter_map(point).collect();
    points.sort_by_key(|(size, _)| *size);
    points
}

/// Size from which references cost less than copies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Crossing {
    /// The size, the next smaller measured size, and the factor by which references are better at
    /// the size.
    At { below: Option<usize>, at: usize, gain: f64 },
    /// Copies are better at every size.
    Never,
    /// The measurement does not contradict the default.
    Default,
    /// The experiment has no rows.
    Unknown,
}

/// Finds the threshold in the measured points. Up to some size the intervals show that copies are
/// better, and from another size on that references are better. Between these sizes the result is
/// open. A default in this range stays. Otherwise the threshold is the size at which the medians
/// cross.
fn crossing(points: &[(usize, Interval)], default: usize) -> Crossing {
    let Some((largest, _)) = points.last() else { return Crossing::Unknown };
    let sure = |relation: &Interval| relation.confidence >= CONFIDENCE;
    let copied = points.iter().rposition(|(_, relation)| sure(relation) && relation.high < 1.0);
    let from_the_end = |better: fn(&Interval) -> f64| {
        points.len() - points.iter().rev().take_while(|(_, relation)| better(relation) > 1.0).count()
    };
    let referred = Some(from_the_end(|relation| relation.low))
        .filter(|first| *first < points.len() && points[*first..].iter().all(|(_, relation)| sure(relation)));
    if copied.is_some_and(|last| points[last].0 == *largest) {
        return Crossing::Never;
    }
    let too_early = copied.is_some_and(|last| default <= points[last].0);
    let too_late = referred.is_some_and(|first| default > points[first].0);
    if !too_early && !too_late {
        return Crossing::Default;
    }
    let least = copied.map_or(0, |last| last + 1);
    let most = referred.unwrap_or(points.len() - 1);
    let first = from_the_end(|relation| relation.median).clamp(least, most.max(least));
    let (at, relation) = points[first];
    Crossing::At { below: first.checked_sub(1).map(|below| points[below].0), at, gain: relation.median }
}

impl Crossing {
    fn why(self, what: &str, unknown: &str) -> String {
        match self {
            Self::At { at, gain, .. } if gain <= 1.0 => {
                format!("below {at} bytes a copy is certainly better; from there on the result is open")
            }
            Self::At { at, gain, .. } => {
                format!("from {at} bytes on {what} are better ({gain:.2}× there)")
            }
            Self::Never => "a copy is certainly better at every size".to_owned(),
            Self::Default => "the measurement does not contradict the default".to_owned(),
            Self::Unknown => unknown.to_owned(),
        }
    }
}

/// Returns the smallest pipe that is as good as the default, and the reason.
fn pipe(groups: &[Group], default: usize) -> (usize, String) {
    let rows = groups.iter().flat_map(|group| &group.rows);
    let as_good = rows.clone().filter_map(|row| {
        let relation = row.relative?;
        let good = relation.confidence >= CONFIDENCE && relation.low >= 1.0 / AS_GOOD;
        row.params.get("pipe_bytes")?.parse().ok().filter(|_| good)
    });
    let as_good: Option<usize> = as_good.min();
    match as_good {
        Some(bytes) if bytes < default => {
            (bytes, "certainly within 3 % of the default, with less memory for pipes".to_owned())
        }
        _ if rows.count() == 0 => (default, "no pipes were measured".to_owned()),
        _ => (default, "no smaller pipe is certainly as good".to_owned()),
    }
}
