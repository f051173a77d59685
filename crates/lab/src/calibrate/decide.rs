//! From summaries to thresholds: a pure function, so that one can argue with it.

use levada_io::Thresholds;
use serde::Serialize;

use crate::statistics::Interval;
use crate::summary::{Group, Row, Summary};

/// One threshold and why it is what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its key in the file.
    pub key: &'static str,
    /// What was found best here.
    pub bytes: u64,
    /// What holds without calibration.
    pub default_bytes: u64,
    /// In words.
    pub why: String,
}

/// A pipe that costs no more than this times the best one is as good, and the smallest of those is taken: large ones are scarce.
const AS_GOOD: f64 = 1.03;

/// Sent by reference never: the largest size that may be set.
const NEVER_BYTES: usize = 64 << 20;

/// The thresholds that the summaries speak for. What was not measured keeps its default, and says so.
pub fn decide(summaries: &[Summary]) -> (Thresholds, Vec<Finding>) {
    let mut thresholds = Thresholds::default();
    let groups = |name: &str| {
        summaries.iter().find(|summary| summary.name == name).map_or(&[][..], |summary| &summary.groups)
    };
    let mut reasons = Vec::new();

    let extents = groups("extents");
    let points = points(extents, "extent_bytes", |row| row.case != "read_write");
    reasons.push(match crossing(&points) {
        Crossing::Unknown => "not measured".to_owned(),
        Crossing::Never => {
            thresholds.small_extent_bytes = points.last().map_or(0, |(size, _)| *size as u64);
            "copying was never surely worse".to_owned()
        }
        Crossing::From { below, at, gain } => {
            thresholds.small_extent_bytes = below.unwrap_or(at / 2) as u64;
            format!("from {at} bytes on references are surely better ({gain:.2}× there)")
        }
    });

    let pipes: Vec<(usize, f64)> =
        groups("pipes").iter().flat_map(|group| &group.rows).filter_map(pipe).collect();
    let best = pipes.iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
    let smallest = pipes.iter().filter(|(_, cost)| *cost <= best * AS_GOOD).min_by_key(|(size, _)| *size);
    reasons.push(match smallest {
        Some((size, cost)) => {
            thresholds.pipe_bytes = *size;
            thresholds.pipe_floor_bytes = thresholds.pipe_floor_bytes.min(*size);
            format!("the smallest within 3 % of the best: {cost:.1} µs for 1 MiB")
        }
        None => "not measured".to_owned(),
    });

    for (name, threshold) in [
        ("SEND_ZC", &mut thresholds.zero_copy_send_bytes),
        ("SEND_ZC registered", &mut thresholds.registered_send_bytes),
    ] {
        let points = self::points(groups("send"), "message_bytes", |row| row.case == name);
        reasons.push(match crossing(&points) {
            Crossing::Unknown => "not measured: there is no device here that takes references".to_owned(),
            Crossing::Never => {
                *threshold = NEVER_BYTES;
                "copying was never surely worse".to_owned()
            }
            Crossing::From { at, gain, .. } => {
                *threshold = at;
                format!("from there on {name} is surely better ({gain:.2}×)")
            }
        });
    }
    let defaults = Thresholds::default();
    let finding = |(((key, bytes), (_, default_bytes)), why)| Finding { key, bytes, default_bytes, why };
    let findings = thresholds.calibrated().zip(defaults.calibrated()).zip(reasons).map(finding).collect();
    (thresholds, findings)
}

/// By size, ascending: how many times better the row is than the first one of its group.
fn points(groups: &[Group], size: &str, wanted: impl Fn(&Row) -> bool) -> Vec<(usize, Interval)> {
    let rows = groups.iter().filter_map(|group| group.rows.iter().find(|row| wanted(row)));
    let point = |row: &Row| Some((row.params.get(size)?.parse().ok()?, row.relative?));
    let mut points: Vec<(usize, Interval)> = rows.filter_map(point).collect();
    points.sort_by_key(|(size, _)| *size);
    points
}

/// Where one way takes over from another.
enum Crossing {
    /// At a size, where it is so many times better; and the next smaller size that was tried.
    From {
        below: Option<usize>,
        at: usize,
        gain: f64,
    },
    Never,
    Unknown,
}

fn crossing(points: &[(usize, Interval)]) -> Crossing {
    if points.is_empty() {
        return Crossing::Unknown;
    }
    let better = points.iter().rev().take_while(|(_, relation)| relation.low > 1.0).count();
    let first = points.len() - better;
    match points.get(first) {
        Some((at, relation)) => Crossing::From {
            below: first.checked_sub(1).map(|below| points[below].0),
            at: *at,
            gain: relation.median,
        },
        None => Crossing::Never,
    }
}

/// Size and cost of a pipe.
fn pipe(row: &Row) -> Option<(usize, f64)> {
    Some((row.params.get("pipe_bytes")?.parse().ok()?, row.metrics.get("cpu_us")?.median))
}
