//! Goals for the cost of the broker and of `levada files`, compared with records of `levada lab
//! broker` and `levada lab files`. Each goal has a row with the measured value, and with a reason
//! if the value misses the goal.
//!
//! The records are in the repository next to the page, so that readers can compute each row again.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::method::statistics::Interval;
use crate::published::claims::{At, Sum, circumstances, unit, values, without_place};
use crate::record::Line;
use crate::report::number;

pub use crate::published::claims::Picture;

mod table;

use table::GOALS;

const GROWTH: &str = "broker-growth";

/// Pictures of the page: cost of a request as one quantity grows.
pub const PICTURES: [Picture; 4] = [
    Picture {
        name: "growth-connections",
        experiment: GROWTH,
        group: "produce of 1 KiB, by connections that are silent meanwhile",
    },
    Picture {
        name: "growth-partitions",
        experiment: GROWTH,
        group: "produce of 1 KiB, by partitions of the broker",
    },
    Picture {
        name: "growth-segments",
        experiment: GROWTH,
        group: "fetch of one batch at any offset, by segments of the log",
    },
    Picture { name: "growth-fetch", experiment: GROWTH, group: "fetch, by bytes asked for" },
];

/// A goal for the value of a case.
struct Goal {
    work: &'static str,
    metric: Sum,
    this: At,
    bound: Bound,
    /// Reason why the value misses the goal, if it does.
    if_not: &'static str,
}

/// Bound of a value.
#[derive(Debug, Clone, Copy)]
enum Bound {
    /// At most this multiple of the value of another case in the same round.
    Times(At, f64),
    /// At least this multiple of the value of another case in the same round.
    TimesAtLeast(At, f64),
    /// At most this value.
    Value(f64),
    /// At least this value.
    ValueAtLeast(f64),
}

/// Verdict about a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoalVerdict {
    Reached,
    /// The median misses the goal, but the interval contains it.
    NotSure,
    NotReached,
    NotMeasured,
}

impl GoalVerdict {
    fn label(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::NotSure => "not sure",
            Self::NotReached => "not reached",
            Self::NotMeasured => "not measured",
        }
    }
}

impl Bound {
    fn that(&self) -> Option<At> {
        match self {
            Self::Times(that, _) | Self::TimesAtLeast(that, _) => Some(*that),
            Self::Value(_) | Self::ValueAtLeast(_) => None,
        }
    }

    fn judge(&self, seen: &Interval) -> GoalVerdict {
        let (meets, near) = match self {
            Self::Times(_, most) | Self::Value(most) => (seen.median <= *most, seen.low <= *most),
            Self::TimesAtLeast(_, least) | Self::ValueAtLeast(least) => {
                (seen.median >= *least, seen.high >= *least)
            }
        };
        match (meets, near) {
            (true, _) => GoalVerdict::Reached,
            (_, true) => GoalVerdict::NotSure,
            _ => GoalVerdict::NotReached,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Times(that, most) => format!("≤ {} of {}", times(*most), that.name()),
            Self::TimesAtLeast(that, least) => format!("≥ {} of {}", times(*least), that.name()),
            Self::Value(most) => format!("≤ {}", number::plain(*most)),
            Self::ValueAtLeast(least) => format!("≥ {}", number::plain(*least)),
        }
    }
}

impl At {
    /// Name that distinguishes this case, with the group if groups are systems.
    fn name(&self) -> String {
        match self.group {
            "levada" | "kafka" => format!("{}, {}", self.group, self.case),
            _ => self.case.to_owned(),
        }
    }
}

/// Returns the page from records by experiment, in the form of [`kept`].
pub fn page(records: &BTreeMap<String, Vec<Line>>) -> String {
    let mut text = table::HEAD.to_owned();
    for (experiment, lines) in records {
        let _ = writeln!(text, "- [`{experiment}`](runs/{experiment}.jsonl): {}", circumstances(lines));
    }
    text.push_str("\n| Work | Goal | Levada | The other | Factor | Verdict |\n|---|---|---|---|---|---|\n");
    for goal in GOALS {
        let lines: Vec<&Line> = records.get(goal.this.experiment).into_iter().flatten().collect();
        let _ = writeln!(text, "{}", row(goal, &lines));
    }
    text.push_str(table::GROWTH);
    for picture in PICTURES {
        let _ = writeln!(text, "\n{}:\n\n![{0}]({}.svg)", picture.group, picture.name);
    }
    text
}

fn row(goal: &Goal, lines: &[&Line]) -> String {
    let (work, wanted) = (goal.work, goal.bound.words());
    let Some(seen) = measured(goal, lines) else {
        return format!("| {work} | {wanted} | | | | **{}** |", GoalVerdict::NotMeasured.label());
    };
    let verdict = goal.bound.judge(&seen.judged);
    let why = match verdict {
        GoalVerdict::NotReached | GoalVerdict::NotSure => format!(": {}", goal.if_not),
        GoalVerdict::Reached | GoalVerdict::NotMeasured => String::new(),
    };
    let (mine, theirs, factor) = (&seen.mine, &seen.theirs, &seen.factor);
    format!("| {work} | {wanted} | {mine} | {theirs} | {factor} | **{}**{why} |", verdict.label())
}

/// Formatted values of a row, and the interval that decides the verdict.
struct Measured {
    judged: Interval,
    mine: String,
    theirs: String,
    factor: String,
}

fn measured(goal: &Goal, lines: &[&Line]) -> Option<Measured> {
    let metric = goal.metric;
    let unit = unit(lines, metric, goal.this);
    let value = |interval: &Interval| format!("{}{unit}", number::plain(interval.median));
    let mine = values(lines, metric, goal.this);
    let own = Interval::of(mine.values().copied())?;
    let Some(that) = goal.bound.that() else {
        let range = format!("{} to {}", number::plain(own.low), number::plain(own.high));
        return Some(Measured { mine: value(&own), theirs: String::new(), factor: range, judged: own });
    };
    let theirs = values(lines, metric, that);
    let quotients = mine.iter().filter_map(|(round, value)| Some(value / theirs.get(round)?));
    let judged = Interval::of(quotients)?;
    let factor = format!("{} ({} to {})", times(judged.median), times(judged.low), times(judged.high));
    let theirs = value(&Interval::of(theirs.into_values())?);
    Some(Measured { mine: value(&own), theirs, factor, judged })
}

/// Formats a factor; factors below 0.67 as a fraction.
fn times(factor: f64) -> String {
    match factor {
        factor if factor > 0.0 && factor < 0.67 => format!("1/{}", number::plain(1.0 / factor)),
        factor => format!("{}×", number::plain(factor)),
    }
}

/// Parts of records by experiment, for all experiments with goals. If several records contain an
/// experiment, the last one counts.
pub fn kept(records: &[Vec<Line>]) -> BTreeMap<String, Vec<Line>> {
    let mut kept = BTreeMap::new();
    for record in records {
        for line in record {
            if let Line::Experiment(announced) = line
                && (announced.experiment == GROWTH
                    || GOALS.iter().any(|goal| goal.this.experiment == announced.experiment))
            {
                let experiment = &announced.experiment;
                let own = record.iter().filter_map(|line| of_experiment(line, experiment)).collect();
                kept.insert(experiment.clone(), own);
            }
        }
    }
    kept
}

fn of_experiment(line: &Line, experiment: &str) -> Option<Line> {
    match line {
        Line::Run(run) => {
            let mut run = run.clone();
            run.command.iter_mut().for_each(|word| *word = without_place(word));
            run.environment.directory = without_place(&run.environment.directory);
            Some(Line::Run(run))
        }
        Line::Experiment(announced) => (announced.experiment == experiment).then(|| line.clone()),
        Line::Sample(sample) => (sample.experiment == experiment).then(|| line.clone()),
        Line::Note(note) => (note.experiment.as_deref() == Some(experiment)).then(|| line.clone()),
        Line::Ended(ended) => (ended.experiment == experiment).then(|| line.clone()),
        _ => None,
    }
}

/// Flame graphs of Levada in the records: the name of each file, and its SVG.
pub fn flames(records: &[Vec<Line>]) -> BTreeMap<String, String> {
    let drawn = records.iter().flatten().filter_map(|line| match line {
        Line::Flame(flame) if flame.case == "levada" => {
            let words = format!("{} {} {}", flame.experiment, flame.group, flame.case).to_lowercase();
            let words: Vec<&str> =
                words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
            Some((words.join("-"), crate::machine::flame::draw(&flame.stacks)?))
        }
        _ => None,
    });
    drawn.collect()
}

#[cfg(test)]
mod tests;
