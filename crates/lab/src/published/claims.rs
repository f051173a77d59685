//! Claims of articles about moving bytes, compared with records of a machine: a row for each claim,
//! with the measured value, the verdict, and the reason.
//!
//! The page is made from the [kept parts](kept()) of records: for each experiment the cases that a
//! claim or a picture needs. These parts are small enough for the repository, so that readers can
//! compute each row again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::method::statistics::Interval;
use crate::record::{Line, Sample};
use crate::report::number;

mod table;

use table::CLAIMS;

/// A picture of the report that the documentation contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    /// Name of the file, without its extension.
    pub name: &'static str,
    /// Experiment that measures the values.
    pub experiment: &'static str,
    /// Group of the experiment, or panel of its curves.
    pub group: &'static str,
}

/// Pictures of the documentation.
pub const PICTURES: [Picture; 3] = [
    Picture { name: "transfer", experiment: "transfer", group: "hot, receiver copies" },
    Picture { name: "send", experiment: "send", group: "ifb, transmit only" },
    Picture { name: "mixed", experiment: "mixed", group: "" },
];

/// A claim of an article.
struct Claim {
    /// Letter that stands for the article.
    source: char,
    /// Paraphrase of the claim.
    words: &'static str,
    says: Says,
    /// Reason for the result if the claim is confirmed.
    if_so: &'static str,
    /// Reason for the result if the claim is refuted, or confirmed only in part.
    if_not: &'static str,
}

/// Claim in a form that can be computed.
enum Says {
    /// The value of `this` is this multiple of the value of `that`; 1 means equal.
    Times { metric: Sum, this: At, that: At, times: f64 },
    /// The value of a metric, to two per cent.
    Is { metric: Sum, this: At, value: f64 },
    /// `this` costs less than `that` from about this number of bytes on; the size completes the
    /// group.
    From { metric: Sum, this: At, that: At, bytes: f64 },
}

/// Names of the metrics whose values are added.
pub(crate) type Sum = &'static [&'static str];

/// Key of a value: a case of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) experiment: &'static str,
    pub(crate) group: &'static str,
    pub(crate) case: &'static str,
}

/// Verdict about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimVerdict {
    Confirmed,
    /// The factor has the claimed direction, but less than half of its logarithm.
    InPart,
    Refuted,
    /// The runs differ too much from each other.
    NotSure,
    NotMeasured,
}

impl ClaimVerdict {
    fn label(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::InPart => "in part",
            Self::Refuted => "refuted",
            Self::NotSure => "not sure",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Returns the page from records by experiment, in the form of [`kept`].
pub fn page(records: &BTreeMap<String, Vec<Line>>) -> String {
    let lines: Vec<&Line> = records.values().flatten().collect();
    let mut text = table::HEAD.to_owned();
    for (experiment, lines) in records {
        let _ = writeln!(text, "- `{experiment}`: {}", circumstances(lines));
    }
    for (source, title) in table::SOURCES {
        let _ = write!(
            text,
            "\n## {source}. {title}\n\n| The article says | Measured | Verdict | Why |\n|---|---|---|---|\n"
        );
        for claim in CLAIMS.iter().filter(|claim| claim.source == source) {
            let (verdict, figures) = judge(claim, &lines);
            let why = match verdict {
                ClaimVerdict::Confirmed => claim.if_so,
                ClaimVerdict::NotSure => "The runs differ too much for a verdict",
                _ => claim.if_not,
            };
            let _ = writeln!(text, "| {} | {figures} | **{}** | {why} |", claim.words, verdict.label());
        }
    }
    text
}

/// Returns time and machine of an experiment, and the reliability of its figures.
pub(crate) fn circumstances(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        match line {
            Line::Run(run) => {
                let machine = &run.environment;
                let day = i64::try_from(run.started_ms)
                    .ok()
                    .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
                let day = day.map_or_else(
                    || "at an unknown time".to_owned(),
                    |day| day.strftime("%Y-%m-%d").to_string(),
                );
                let _ = write!(
                    text,
                    "{day}, {}, {} processors, Linux {}, {}",
                    machine.processor, machine.processors, machine.kernel, machine.file_system
                );
            }
            Line::Ended(ended) => {
                let _ = write!(text, "; {} rounds; ", ended.rounds);
                let doubts = ended.noise.doubts.join(", ");
                text.push_str(if doubts.is_empty() { "the machine was quiet" } else { &doubts });
            }
            _ => {}
        }
    }
    text
}

fn judge(claim: &Claim, lines: &[&Line]) -> (ClaimVerdict, String) {
    let judged = match &claim.says {
        Says::Times { metric, this, that, times } => of_times(lines, metric, (*this, *that), *times),
        Says::Is { metric, this, value } => of_value(lines, metric, *this, *value),
        Says::From { metric, this, that, bytes } => of_size(lines, metric, (*this, *that), *bytes),
    };
    judged.unwrap_or_else(|| (ClaimVerdict::NotMeasured, why_not(claim, lines)))
}

fn of_times(
    lines: &[&Line],
    metric: Sum,
    (this, that): (At, At),
    times: f64,
) -> Option<(ClaimVerdict, String)> {
    let (mine, theirs) = (values(lines, metric, this), values(lines, metric, that));
    let quotients = mine.iter().filter_map(|(round, value)| Some(value / theirs.get(round)?));
    let quotient = Interval::of(quotients)?;
    let median =
        |values: BTreeMap<u32, f64>| Interval::of(values.into_values()).map(|interval| interval.median);
    let (mine, theirs) = (median(mine)?, median(theirs)?);
    let half = times.sqrt();
    let includes = |value: f64| quotient.low <= value && value <= quotient.high;
    let verdict = match times == 1.0 {
        true if (0.9..1.1).contains(&quotient.median) => ClaimVerdict::Confirmed,
        true if includes(1.0) => ClaimVerdict::NotSure,
        true => ClaimVerdict::Refuted,
        false if quotient.low > 1.0 && quotient.median >= half => ClaimVerdict::Confirmed,
        false if quotient.low > 1.0 => ClaimVerdict::InPart,
        false if quotient.high >= half => ClaimVerdict::NotSure,
        false => ClaimVerdict::Refuted,
    };
    let plain = number::plain;
    let text = format!(
        "{}× ({} to {}), claimed {}×: {} against {}{}",
        plain(quotient.median),
        plain(quotient.low),
        plain(quotient.high),
        plain(times),
        plain(mine),
        plain(theirs),
        unit(lines, metric, this),
    );
    Some((verdict, text))
}

fn of_value(lines: &[&Line], metric: Sum, this: At, value: f64) -> Option<(ClaimVerdict, String)> {
    let seen = Interval::of(values(lines, metric, this).into_values())?.median;
    let verdict = if (seen - value).abs() <= value.abs() * 0.02 {
        ClaimVerdict::Confirmed
    } else {
        ClaimVerdict::Refuted
    };
    let unit = unit(lines, metric, this);
    Some((verdict, format!("{}{unit}, claimed {}", number::plain(seen), number::plain(value))))
}

fn of_size(
    lines: &[&Line],
    metric: Sum,
    (this, that): (At, At),
    bytes: f64,
) -> Option<(ClaimVerdict, String)> {
    let mut from = None;
    let mut any = false;
    for (group, size) in sizes(lines, this) {
        let at = |at: At| -> BTreeMap<u32, f64> {
            let own = samples(lines)
                .filter(|s| s.experiment == at.experiment && s.group == group && s.case == at.case);
            own.filter_map(|sample| Some((sample.round, sum(sample, metric)?))).collect()
        };
        let theirs = at(that);
        let quotients = at(this).into_iter().filter_map(|(round, mine)| Some(mine / theirs.get(&round)?));
        let Some(quotient) = Interval::of(quotients) else { continue };
        any = true;
        if quotient.high < 1.0 {
            from = from.or(Some(size));
        } else {
            from = None;
        }
    }
    let claimed = number::size(bytes);
    any.then(|| match from {
        Some(size) => {
            let near = (bytes / 4.0..=bytes * 4.0).contains(&size);
            let verdict = if near { ClaimVerdict::Confirmed } else { ClaimVerdict::InPart };
            (verdict, format!("from {} on, claimed {claimed}", number::size(size)))
        }
        None => (ClaimVerdict::Refuted, format!("at no size, claimed from {claimed} on")),
    })
}

/// Groups whose names begin as this one's and that have its case, with their sizes in bytes,
/// smallest first.
fn sizes(lines: &[&Line], this: At) -> Vec<(String, f64)> {
    let cases = lines.iter().filter_map(|line| match line {
        Line::Experiment(announced) if announced.experiment == this.experiment => Some(&announced.cases),
        _ => None,
    });
    let own = cases.flatten().filter(|line| line.case == this.case && line.group.starts_with(this.group));
    let size = |line: &crate::record::CaseLine| {
        let bytes = line.params.get("message_bytes").or_else(|| line.params.get("extent_bytes"))?;
        Some((line.group.clone(), bytes.parse().ok()?))
    };
    let mut sizes: Vec<(String, f64)> = own.filter_map(size).collect();
    sizes.sort_by(|one, other| one.1.total_cmp(&other.1));
    sizes
}

fn samples<'l>(lines: &'l [&Line]) -> impl Iterator<Item = &'l Sample> {
    lines.iter().filter_map(|line| match line {
        Line::Sample(sample) if sample.round > 0 => Some(sample),
        _ => None,
    })
}

/// Sum of the metrics that the sample has; none if it has none of them.
fn sum(sample: &Sample, metric: &[&str]) -> Option<f64> {
    let present = metric.iter().filter_map(|name| sample.metrics.get(*name).copied());
    present.reduce(|sum, value| sum + value)
}

/// Values of a case by round.
pub(crate) fn values(lines: &[&Line], metric: Sum, at: At) -> BTreeMap<u32, f64> {
    values_of(lines, metric, (at.experiment, at.group, at.case))
}

/// Values by round for the names of an experiment, a group and a case.
pub(crate) fn values_of(lines: &[&Line], metric: &[&str], at: (&str, &str, &str)) -> BTreeMap<u32, f64> {
    let own = samples(lines)
        .filter(|sample| (sample.experiment.as_str(), sample.group.as_str(), sample.case.as_str()) == at);
    own.filter_map(|sample| Some((sample.round, sum(sample, metric)?))).collect()
}

pub(crate) fn unit(lines: &[&Line], metric: Sum, at: At) -> String {
    let announced = lines.iter().find_map(|line| match line {
        Line::Experiment(announced) if announced.experiment == at.experiment => Some(announced),
        _ => None,
    });
    let metrics = announced.map_or(&[][..], |announced| &announced.metrics);
    let unit =
        metrics.iter().find(|known| metric.contains(&known.name.as_str())).map(|known| known.unit.as_str());
    match unit {
        Some(unit) if !unit.is_empty() => format!("\u{202f}{unit}"),
        Some(_) => String::new(),
        None => "\u{202f}ms".to_owned(),
    }
}

/// Reason in the record why a case has no figures.
fn why_not(claim: &Claim, lines: &[&Line]) -> String {
    let cases = claim.says.cases();
    let note = lines.iter().find_map(|line| match line {
        Line::Note(note) if cases.iter().any(|at| is_about(note, at)) => Some(note.text.clone()),
        _ => None,
    });
    note.unwrap_or_else(|| "no figures".to_owned())
}

fn is_about(note: &crate::record::Note, at: &At) -> bool {
    note.experiment.as_deref() == Some(at.experiment)
        && note.group.as_deref() == Some(at.group)
        && note.case.as_deref() == Some(at.case)
}

impl Says {
    fn cases(&self) -> Vec<At> {
        match self {
            Self::Times { this, that, .. } | Self::From { this, that, .. } => vec![*this, *that],
            Self::Is { this, .. } => vec![*this],
        }
    }

    /// True if the claim needs this case.
    fn needs(&self, (experiment, group, case): (&str, &str, &str)) -> bool {
        let whole = |at: &At| match self {
            Self::From { .. } => group.starts_with(at.group),
            _ => group == at.group,
        };
        self.cases().iter().any(|at| at.experiment == experiment && at.case == case && whole(at))
    }
}

fn needed(at: (&str, &str, &str)) -> bool {
    let (experiment, group, _) = at;
    PICTURES.iter().any(|picture| picture.experiment == experiment && group.starts_with(picture.group))
        || CLAIMS.iter().any(|claim| claim.says.needs(at))
        || super::copying::needs(at)
}

/// Parts of records that claims and pictures need, one per experiment. If several records contain
/// an experiment, the first one counts.
pub fn kept(records: &[Vec<Line>]) -> BTreeMap<String, Vec<Line>> {
    let mut kept: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    let wanted: BTreeSet<&str> = CLAIMS
        .iter()
        .flat_map(|claim| claim.says.cases())
        .map(|at| at.experiment)
        .chain(PICTURES.map(|picture| picture.experiment))
        .collect();
    for record in records {
        for experiment in &wanted {
            let own: Vec<Line> = record.iter().filter_map(|line| of_experiment(line, experiment)).collect();
            if own.len() > 1 && !kept.contains_key(*experiment) {
                kept.insert((*experiment).to_owned(), own);
            }
        }
    }
    kept
}

/// Returns the part of a line that the page of an experiment needs; none if it needs nothing.
fn of_experiment(line: &Line, experiment: &str) -> Option<Line> {
    match line {
        Line::Run(run) => {
            let mut run = run.clone();
            run.command.iter_mut().for_each(|word| *word = without_place(word));
            Some(Line::Run(run))
        }
        Line::Experiment(announced) if announced.experiment == experiment => {
            let mut announced = announced.clone();
            announced.cases.retain(|case| needed((experiment, &case.group, &case.case)));
            Some(Line::Experiment(announced))
        }
        Line::Sample(sample) if sample.experiment == experiment => {
            if !needed((experiment, &sample.group, &sample.case)) {
                return None;
            }
            // The announcement of the experiment contains the parameters.
            Some(Line::Sample(Sample { params: BTreeMap::new(), ..sample.clone() }))
        }
        Line::Note(note) if note.experiment.as_deref() == Some(experiment) => {
            let at = note.group.as_deref().zip(note.case.as_deref());
            at.is_some_and(|(group, case)| needed((experiment, group, case))).then(|| line.clone())
        }
        Line::Ended(ended) if ended.experiment == experiment => Some(line.clone()),
        _ => None,
    }
}

/// Returns a word of a command line. Shortens a path on this machine to its last part, alone or as
/// the value of an option.
pub(crate) fn without_place(word: &str) -> String {
    let (option, value) = match word.find("=/") {
        Some(at) if word.starts_with("--") => word.split_at(at + 1),
        _ => ("", word),
    };
    match value.strip_prefix('/') {
        Some(path) => {
            let last = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
            format!("{option}{last}")
        }
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests;
