//! The record of a run: JSON Lines, written during the run. Summaries, reports and comparisons are
//! made from the record alone.
//!
//! Each line is one object with a `type`. A `run` comes first. An `experiment` announces each
//! experiment; its `sample`s and `note`s follow in the order in which they happened, and an `ended`
//! closes it. A record that stops in the middle (a crash, a full disk) is valid up to there. A
//! field never changes its name or its unit. Readers ignore unknown fields.

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

/// Version of this format. A reader refuses greater versions.
pub const FORMAT: u32 = 1;

/// One line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// First line of a record.
    Run(Box<Run>),
    /// Start of an experiment.
    Experiment(Announced),
    /// One run of one case.
    Sample(Sample),
    /// Profile of a case.
    Flame(Flame),
    /// Information for readers of the figures.
    Note(Note),
    /// End of an experiment.
    Ended(Ended),
}

/// Place, time and method of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the format: [`FORMAT`].
    pub format: u32,
    /// Version of Levada.
    pub levada: String,
    /// Start of the run in milliseconds since 1970.
    pub started_ms: u64,
    /// Command line: the program and its arguments.
    pub command: Vec<String>,
    /// Name of the scale: `quick`, `normal`, `full` or `tiny`.
    pub scale: String,
    /// Maximum number of timed rounds of an experiment.
    pub rounds: u32,
    /// Seed of the order of cases.
    pub seed: u64,
    /// Description of the machine.
    pub environment: Environment,
}

/// Description of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Announced {
    /// Name of the experiment: one word.
    pub experiment: String,
    /// Purpose of the experiment, in one sentence.
    pub shows: String,
    /// Metrics of the samples. The first metric ranks the cases.
    pub metrics: Vec<Metric>,
    /// Cases in order. The first case of a group is its baseline.
    pub cases: Vec<CaseLine>,
    /// Axis of the picture, if a parameter is swept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

/// A case in the announcement of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseLine {
    /// Group of the case.
    pub group: String,
    /// Name of the case within the group.
    pub case: String,
    /// Parameters of the case.
    pub params: BTreeMap<String, String>,
}

/// Result of one run of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the experiment.
    pub experiment: String,
    /// Group of the case.
    pub group: String,
    /// Name of the case within the group.
    pub case: String,
    /// Parameters of the case.
    pub params: BTreeMap<String, String>,
    /// Number of the round, from 1. Round 0 checks bytes and times nothing.
    pub round: u32,
    /// Values by the name of their metric; empty in round 0.
    pub metrics: BTreeMap<String, f64>,
    /// Verdict of the integrity check; present in round 0.
    pub verdict: Option<Verdict>,
}

/// Profile of a case, from rounds that count for nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flame {
    /// Name of the experiment.
    pub experiment: String,
    /// Group of the case.
    pub group: String,
    /// Name of the case within the group.
    pub case: String,
    /// Tool that took the samples.
    pub with: String,
    /// Number of samples of each stack.
    pub stacks: Seen,
}

/// Information about a run, an experiment or a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Name of the experiment; none for the run.
    pub experiment: Option<String>,
    /// Group in the experiment; none for all groups.
    pub group: Option<String>,
    /// Name of the case in the group; none for all cases.
    pub case: Option<String>,
    /// Text for readers.
    pub text: String,
    /// True if the work of the case does not match its name. Such a case has no rank.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub caveat: bool,
}

/// End of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Name of the experiment.
    pub experiment: String,
    /// Number of complete timed rounds.
    pub rounds: u32,
    /// Duration of the experiment in ms.
    pub elapsed_ms: u64,
    /// True if the experiment stopped before its end.
    pub interrupted: bool,
    /// Other activity of the machine during the experiment.
    pub noise: Noise,
}

/// Writes a record, and keeps its lines for the summary.
#[derive(Debug)]
pub struct Recorder {
    file: Option<(PathBuf, File)>,
    lines: Vec<Line>,
}

impl Recorder {
    /// Creates a recorder that keeps lines only in memory.
    pub fn in_memory() -> Self {
        Self { file: None, lines: Vec::new() }
    }

    /// Creates a recorder with a new file, and the file's directory if necessary.
    ///
    /// # Errors
    /// The file exists, or this process cannot create it.
    pub fn create(path: &Path) -> Result<Self, LabError> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(LabError::file("cannot create the directory", dir))?;
        }
        let file = File::create_new(path).map_err(LabError::file("cannot create the record", path))?;
        Ok(Self { file: Some((path.to_owned(), file)), lines: Vec::new() })
    }

    /// Path of the file; none for a record in memory.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// Lines so far.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Adds a line and writes it to the file. Omits values of a sample that are not finite, as
    /// statistics do: JSON has no form for such values, and one of them would make the record
    /// unreadable.
    ///
    /// # Errors
    /// This process cannot write the file.
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

    /// Adds the first line: the machine, the number of rounds, and the seed of their order.
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

    /// Adds the line that announces an experiment.
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

    /// Adds a note about one case, or about all cases.
    ///
    /// # Errors
    /// As for [`add`](Recorder::add).
    pub fn note(&mut self, experiment: &str, case: Option<&Case>, text: String) -> Result<(), LabError> {
        self.noted(experiment, case, text, false)
    }

    /// Adds a note about a case whose work does not match its name.
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
/// This process cannot read the file, or [`LabError::Record`] names a line that is not valid.
pub fn read(path: &Path) -> Result<Vec<Line>, LabError> {
    let text = fs::read_to_string(path).map_err(LabError::file("cannot read the record", path))?;
    let wrong = |line: usize, what: String| LabError::Record { path: path.to_owned(), line, what };
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = serde_json::from_str(text).map_err(|error| wrong(index + 1, error.to_string()))?;
        if let Line::Run(run) = &line
            && run.format > FORMAT
        {
            let what = format!(
                "format {} is newer than this program, which reads formats up to {FORMAT}",
                run.format
            );
            return Err(wrong(index + 1, what));
        }
        lines.push(line);
    }
    if !matches!(lines.first(), Some(Line::Run(_))) {
        return Err(wrong(1, "the first line of a record must have type run".to_owned()));
    }
    Ok(lines)
}

/// Command line as users type it: `levada lab` runs the program `levada-lab`.
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
