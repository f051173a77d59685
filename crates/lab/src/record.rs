//! The record of a run: JSON Lines, written while it runs, and all that summaries, reports and
//! comparisons are made of.
//!
//! One object a line, told apart by `type`. A `run` comes first; each experiment is announced by an
//! `experiment`, followed by its `sample`s and `note`s in the order in which they happened, and
//! closed by an `ended`. A record that stops in the middle (a crash, a full disk) is still good up
//! to there. Fields are never renamed and never change their unit; readers ignore fields that they
//! do not know.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::machine::environment::Environment;
use crate::machine::flame::Seen;
use crate::machine::noise::Noise;
use crate::method::experiment::{Case, Experiment};
use crate::method::limits::Limits;
pub use crate::method::metric::{Better, Metric, Sweep, Verdict};

pub mod compare;
pub mod summary;

/// The version of this format. A reader refuses larger ones.
pub const FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Run(Box<Run>),
    /// An experiment begins.
    Experiment(Announced),
    /// One run of one case.
    Sample(Sample),
    /// Profile of a case.
    Flame(Flame),
    /// Information for readers of the figures.
    Note(Note),
    /// An experiment is over.
    Ended(Ended),
}

/// Place, time and method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of Levada.
    pub levada: String,
    /// Milliseconds since 1970.
    pub started_ms: u64,
    /// Command line: the program and its arguments.
    pub command: Vec<String>,
    /// `quick`, `normal`, `full` or `tiny`.
    pub scale: String,
    /// Number of rounds, and their total time at most.
    pub rounds: u32,
    /// Seed of the order of the cases.
    pub seed: u64,
    /// The machine.
    pub environment: Environment,
}

/// Description of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Announced {
    /// One word.
    pub experiment: String,
    /// Purpose, in a sentence.
    pub shows: String,
    /// Metrics of samples; the first one ranks the cases.
    pub metrics: Vec<Metric>,
    /// Cases, in order. The first case of a group is the baseline.
    pub cases: Vec<CaseLine>,
    /// Axis, if a parameter is swept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

/// A case as announced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseLine {
    /// Group of the case.
    pub group: String,
    /// Its name there.
    pub case: String,
    /// Value of the parameter.
    pub params: BTreeMap<String, String>,
}

/// One run of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The experiment.
    pub experiment: String,
    /// The group in it.
    pub group: String,
    /// The case in that.
    pub case: String,
    /// Parameters of the case.
    pub params: BTreeMap<String, String>,
    /// From 1; 0 is the round that checks and is not timed.
    pub round: u32,
    /// Values by the name of their metric; empty in round 0.
    pub metrics: BTreeMap<String, f64>,
    /// Result of the check; present in round 0.
    pub verdict: Option<Verdict>,
}

/// Profile of a case, of rounds that count for nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flame {
    /// The experiment.
    pub experiment: String,
    /// The group in it.
    pub group: String,
    /// The case in that.
    pub case: String,
    /// The tool that looked.
    pub with: String,
    /// Number of samples of each stack.
    pub stacks: Seen,
}

/// Information.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// About which experiment; none: about the run.
    pub experiment: Option<String>,
    /// About which group of it; none: about all.
    pub group: Option<String>,
    /// About which case of that; none: about all.
    pub case: Option<String>,
    /// In words.
    pub text: String,
    /// The case differs from its name: it has no rank.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub caveat: bool,
}

/// The end of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Name of the experiment.
    pub experiment: String,
    /// Timed rounds that are whole.
    pub rounds: u32,
    /// Time that it took.
    pub elapsed_ms: u64,
    /// True if it was stopped before its end.
    pub interrupted: bool,
    /// Other activity of the machine during the experiment.
    pub noise: Noise,
}

/// Writes a record and keeps it for the summary.
#[derive(Debug)]
pub struct Recorder {
    file: Option<(PathBuf, File)>,
    lines: Vec<Line>,
}

impl Recorder {
    /// Keeps lines in memory only.
    pub fn in_memory() -> Self {
        Self { file: None, lines: Vec::new() }
    }

    /// Writes to a new file, whose directory is made if need be.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn create(path: &Path) -> Result<Self, LabError> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(LabError::file("cannot make the directory", dir))?;
        }
        let file = File::create_new(path).map_err(LabError::file("cannot make the record", path))?;
        Ok(Self { file: Some((path.to_owned(), file)), lines: Vec::new() })
    }

    /// Destination of the record.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// Record so far.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Adds a line. It is in the file when this returns. Values of a sample that are infinite or no
    /// numbers are left out, as in statistics: JSON has no form for them, and one of them would
    /// make the record unreadable.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, mut line: Line) -> Result<(), LabError> {
        if let Line::Sample(sample) = &mut line {
            sample.metrics.retain(|_, value| value.is_finite());
        }
        if let Some((path, file)) = &mut self.file {
            let mut text = serde_json::to_vec(&line).map_err(LabError::file("cannot write", &*path))?;
            text.push(b'\n');
            file.write_all(&text).map_err(LabError::file("cannot write", &*path))?;
        }
        self.lines.push(line);
        Ok(())
    }

    /// The first line: the machine, how many rounds there are to be, and the seed of their order.
    ///
    /// # Errors
    /// As for [`add`](Recorder::add).
    pub fn run(&mut self, bench: &Bench, limits: Limits, seed: u64) -> Result<(), LabError> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let run = Run {
            format: FORMAT,
            levada: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX)),
            command: command(std::env::args()),
            scale: bench.scale().label().to_owned(),
            rounds: limits.rounds,
            seed,
            environment: Environment::of(bench.dir(), bench.caps(), bench.places()),
        };
        let doubts = run.environment.doubts();
        self.add(Line::Run(Box::new(run)))?;
        doubts.into_iter().try_for_each(|text| {
            self.add(Line::Note(Note { experiment: None, group: None, case: None, text, caveat: false }))
        })
    }

    /// The line that announces an experiment.
    ///
    /// # Errors
    /// As for [`add`](Recorder::add).
    pub fn announce(&mut self, experiment: &dyn Experiment, cases: &[Case]) -> Result<(), LabError> {
        let case = |case: &Case| CaseLine {
            group: case.group.clone(),
            case: case.name.clone(),
            params: case.params.clone(),
        };
        self.add(Line::Experiment(Announced {
            experiment: experiment.name().to_owned(),
            shows: experiment.shows(),
            metrics: experiment.metrics(),
            cases: cases.iter().map(case).collect(),
            sweep: experiment.sweep(),
        }))
    }

    /// A line about one case, or about all.
    ///
    /// # Errors
    /// As for [`add`](Recorder::add).
    pub fn note(&mut self, experiment: &str, case: Option<&Case>, text: String) -> Result<(), LabError> {
        self.noted(experiment, case, text, false)
    }

    /// A line about a case that differs from its name.
    ///
    /// # Errors
    /// As for [`add`](Recorder::add).
    pub fn caveat(&mut self, experiment: &str, case: &Case, text: String) -> Result<(), LabError> {
        self.noted(experiment, Some(case), text, true)
    }

    fn noted(
        &mut self,
        experiment: &str,
        case: Option<&Case>,
        text: String,
        caveat: bool,
    ) -> Result<(), LabError> {
        self.add(Line::Note(Note {
            experiment: Some(experiment.to_owned()),
            group: case.map(|case| case.group.clone()),
            case: case.map(|case| case.name.clone()),
            text,
            caveat,
        }))
    }
}

/// Reads a record.
///
/// # Errors
/// The file cannot be read, or [`LabError::Record`] with the line that is none.
pub fn read(path: &Path) -> Result<Vec<Line>, LabError> {
    let text = fs::read_to_string(path).map_err(LabError::file("cannot read the record", path))?;
    let wrong = |line: usize, what: String| LabError::Record { path: path.to_owned(), line, what };
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = serde_json::from_str(text).map_err(|error| wrong(index + 1, error.to_string()))?;
        if let Line::Run(run) = &line
            && run.format > FORMAT
        {
            let what =
                format!("form {} is newer than this program, which reads up to form {FORMAT}", run.format);
            return Err(wrong(index + 1, what));
        }
        lines.push(line);
    }
    if !matches!(lines.first(), Some(Line::Run(_))) {
        return Err(wrong(1, "a record begins with a line of type run".to_owned()));
    }
    Ok(lines)
}

/// The command line as the user gives it: `levada lab` runs the program `levada-lab`.
fn command(mut arguments: impl Iterator<Item = String>) -> Vec<String> {
    let program = arguments.next().unwrap_or_default();
    let words = match program.strip_suffix("-lab") {
        Some(levada) => vec![levada.to_owned(), "lab".to_owned()],
        None => vec![program],
    };
    words.into_iter().chain(arguments).collect()
}

#[cfg(test)]
mod tests;
