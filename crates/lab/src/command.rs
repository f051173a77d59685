//! `levada lab`: measures the cost of each way to move bytes on this machine.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::copy::Copies;
use crate::loops::Loops;
use crate::read::Reads;
use crate::receive::Receives;
use crate::record::{self, Line, Recorder};
use crate::search::Searches;
use crate::send::{Mixed, Sends};
use crate::transfer::Transfers;
use crate::{Bench, Case, Experiment, Interrupt, LabError, Limits, Method, Scale, summary};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use levada_terminal::failure::Failure;
use levada_terminal::lab::{Args, Command, RunArgs};
use levada_terminal::output::{self, Format};
use levada_terminal::tell;

mod broker;
mod calibrate;
mod claims;
mod compare;
mod files;
mod goals;
mod report;
mod side_by_side;
mod table;

/// Creates an experiment on a bench. The path is the directory of Kafka's jars, if the command line
/// names one.
type Begin = for<'a> fn(&'a Bench, Option<&Path>) -> Result<Box<dyn Experiment + 'a>, LabError>;

/// All experiments that need only this machine, in the order of `levada lab all`.
const EXPERIMENTS: [Begin; 8] =
    [TRANSFER[0], COPY[0], READ[0], RECEIVE[0], SEARCH[0], SEND[0], SEND[1], LOOP[0]];

const TRANSFER: [Begin; 1] = [|bench, _| Ok(Box::new(Transfers::new(bench)?))];
const COPY: [Begin; 1] = [|bench, _| Ok(Box::new(Copies::new(bench)?))];
const READ: [Begin; 1] = [|bench, _| Ok(Box::new(Reads::new(bench)?))];
const RECEIVE: [Begin; 1] = [|bench, _| Ok(Box::new(Receives::new(bench)?))];
const SEARCH: [Begin; 1] = [|bench, libs| {
    let searches = Searches::new(bench)?;
    Ok(Box::new(match libs {
        Some(libs) => searches.beside_kafka(bench, libs),
        None => searches,
    }))
}];
const SEND: [Begin; 2] =
    [|bench, _| Ok(Box::new(Sends::new(bench))), |bench, _| Ok(Box::new(Mixed::new(bench)))];
const LOOP: [Begin; 1] = [|bench, _| Ok(Box::new(Loops::new(bench)?))];

/// Executes a command and prints its results. Blocks until the command has ended.
///
/// # Errors
/// The failed operation, with the next step.
pub fn run(args: Args, out: &mut dyn Write) -> Result<(), Failure> {
    match args.command {
        Command::All(args) => measure(&args.run, &EXPERIMENTS, args.kafka_libs.as_deref(), out),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(&args, out),
        Command::Broker(args) => broker::run(&args, out),
        Command::Files(args) => files::run(&args, out),
        Command::Transfer(args) => measure(&args, &TRANSFER, None, out),
        Command::Copy(args) => measure(&args, &COPY, None, out),
        Command::Read(args) => measure(&args, &READ, None, out),
        Command::Receive(args) => measure(&args, &RECEIVE, None, out),
        Command::Search(args) => measure(&args.run, &SEARCH, args.kafka_libs.as_deref(), out),
        Command::Send(args) => measure(&args, &SEND, None, out),
        Command::Loop(args) => measure(&args, &LOOP, None, out),
        Command::Calibrate(args) => calibrate::run(&args, out),
        Command::Claims(args) => claims::run(&args),
        Command::Goals(args) => goals::run(&args),
        Command::Peer => crate::peer::serve()
            .map_err(|error| Failure::new(format!("the parent of this process failed: {error}"))),
    }
}

/// Runs experiments, records them, and prints their results.
fn measure(
    args: &RunArgs,
    makers: &[Begin],
    kafka_libs: Option<&Path>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut session = Session::begin(args)?;
    let ended = makers.iter().try_for_each(|maker| session.run(|bench| maker(bench, kafka_libs)));
    if ended.is_ok() {
        session.check_only(args)?;
    }
    session.end(args, out)?;
    ended?;
    check_verdicts(session.recorder.lines())
}

/// Fails if the integrity check of a case found wrong bytes. The table still shows the case, but
/// its figures are not valid.
fn check_verdicts(lines: &[Line]) -> Result<(), Failure> {
    let wrong = lines.iter().filter_map(|line| {
        let Line::Sample(sample) = line else { return None };
        let verdict = sample.verdict.as_ref().filter(|verdict| !verdict.sound)?;
        Some(format!("{}, {}, {}: {}", sample.experiment, sample.group, sample.case, verdict.what))
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::with_next(
        format!("the check of the bytes failed: {}", wrong.join("; ")),
        "repeat it with --only CASE; if it fails again, report it with the raw results",
    ))
}

/// A run of `levada lab`: a bench, a method, and the record of the results.
struct Session {
    bench: Bench,
    method: Method,
    recorder: Recorder,
    only: Only,
}

/// Selection of cases by `--only`.
#[derive(Debug, Default)]
struct Only {
    text: Option<String>,
    /// True once an experiment had a case that contains the text.
    is_found: bool,
    /// Cases of the experiments that the selection left out.
    others: Vec<String>,
}

impl Only {
    /// True if the experiment with these cases must run.
    fn wants(&mut self, cases: &[Case]) -> bool {
        let Some(text) = &self.text else { return true };
        let names: Vec<String> = cases.iter().map(|case| format!("{} {}", case.group, case.name)).collect();
        if names.iter().any(|name| name.contains(text)) {
            self.is_found = true;
            return true;
        }
        self.others.extend(names);
        false
    }

    /// Fails if cases exist and none of them contains the text of `--only`.
    fn check(&self) -> Result<(), Failure> {
        match &self.text {
            Some(text) if !self.is_found && !self.others.is_empty() => Err(Failure::Usage(format!(
                "--only {text}: no case contains this text; the cases are\n  {}",
                self.others.join("\n  ")
            ))),
            _ => Ok(()),
        }
    }
}

impl Session {
    fn begin(args: &RunArgs) -> Result<Self, Failure> {
        Interrupt::catch();
        let scale = Scale::wanted_by(args);
        let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
        let mut bench = Bench::new(&dir, scale)?;
        if matches!(scale, Scale::Normal | Scale::Full) {
            reclaim_host_memory(&mut bench)?;
        }
        let limits = args.rounds.map_or_else(|| Limits::of(scale), Limits::exactly);
        let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()) ^ crate::cpu::monotonic_ns());
        let method = Method::new(limits, seed).shown().only(args.only.clone()).flames(args.flames);
        let path = args.record.clone().map_or_else(default_record, Ok)?;
        let mut recorder = Recorder::create(&path)?;
        recorder.run(&bench, method.limits(), method.seed())?;
        let only = Only { text: args.only.clone(), ..Only::default() };
        Ok(Self { bench, method, recorder, only })
    }

    /// Sets the limits of the following experiments, unless the command line names a number of
    /// rounds.
    fn limit(&mut self, args: &RunArgs, limits: fn(Scale) -> Limits) {
        if args.rounds.is_none() {
            self.method.limit(limits(Scale::wanted_by(args)));
        }
    }

    fn run(
        &mut self,
        maker: impl for<'a> FnOnce(&'a Bench) -> Result<Box<dyn Experiment + 'a>, LabError>,
    ) -> Result<(), LabError> {
        let mut experiment = maker(&self.bench)?;
        if !self.only.wants(&experiment.cases()) {
            return Ok(());
        }
        self.method.run(experiment.as_mut(), &mut self.recorder)
    }

    /// Fails if `--only` has left out every case, and removes the new record, which is empty.
    fn check_only(&self, args: &RunArgs) -> Result<(), Failure> {
        self.only.check().inspect_err(|_| {
            self.finish();
            if let (None, Some(path)) = (&args.record, self.recorder.path()) {
                // A failed removal leaves an empty record, which does no harm.
                let _ = std::fs::remove_file(path);
            }
        })
    }

    /// Prints the results so far, also after a failed experiment. Writes the report if the command
    /// line asks for one.
    fn end(&self, args: &RunArgs, out: &mut dyn Write) -> Result<(), Failure> {
        self.print(args.format.format, out)?;
        match &args.report {
            Some(path) => report::write(self.recorder.lines(), path),
            None => Ok(()),
        }
    }

    /// Removes the progress bar.
    fn finish(&self) {
        self.method.finish();
    }

    /// Prints on stderr the doubts about the result and the path of the raw results.
    fn tell(&self) {
        for doubt in table::doubts(self.recorder.lines()) {
            tell!("warning: the figures are not reliable: {doubt}");
        }
        if let Some(path) = self.recorder.path() {
            tell!("raw results: {}", path.display());
        }
    }

    fn print(&self, format: Format, out: &mut dyn Write) -> Result<(), Failure> {
        self.finish();
        let summaries = summary::of(self.recorder.lines());
        match format {
            Format::Json => output::json(out, &summaries)?,
            Format::Table => {
                for (index, summary) in summaries.iter().enumerate() {
                    if index > 0 {
                        writeln!(out)?;
                    }
                    table::print(summary, out)?;
                }
            }
        }
        out.flush()?;
        self.tell();
        Ok(())
    }
}

impl Scale {
    fn wanted_by(args: &RunArgs) -> Self {
        match (args.quick, args.full) {
            _ if args.tiny => Self::Tiny,
            (true, _) => Self::Quick,
            (_, true) => Self::Full,
            _ => Self::Normal,
        }
    }
}

/// Takes free memory back from the host and shows a progress bar, because each gigabyte takes
/// seconds.
fn reclaim_host_memory(bench: &mut Bench) -> Result<(), LabError> {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style =
        ProgressStyle::with_template("reclaiming free memory from the host {bar:20} {bytes}/{total_bytes}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let taken = bench.reclaim_host_memory(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    taken
}

/// Path of a new record below `$XDG_STATE_HOME` or `~/.local/state`.
fn default_record() -> Result<PathBuf, Failure> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().map(|home| home.join(".local/state"));
    let Some(state) = state.or_else(home) else {
        return Err(Failure::with_next(
            "no directory for raw results: this user has no home directory",
            "name a file for the record with --record",
        ));
    };
    let now = jiff::Zoned::now().strftime("%Y-%m-%dT%H-%M-%S").to_string();
    Ok(state.join(Path::new("levada/lab")).join(format!("{now}.{}.jsonl", std::process::id())))
}

/// Reads the lines of the record at a path from the command line.
fn read_record(path: &Path) -> Result<Vec<Line>, Failure> {
    record::read(path).map_err(|error| match error {
        LabError::File { .. } => Failure::with_next(
            error.to_string(),
            "name a record of levada lab: the default directory is ~/.local/state/levada/lab, and --record FILE of a run names another file",
        ),
        other => other.into(),
    })
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let what = error.to_string();
        match error {
            LabError::NoSpace { .. } => {
                Self::with_next(what, "name a directory with more free space with --dir")
            }
            LabError::File { .. } => {
                Self::with_next(what, "name another directory with --dir, or another file with --record")
            }
            _ => Self::new(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::record::{Sample, Verdict};

    use super::*;

    #[test]
    fn unmatched_case_filter_error_lists_cases() {
        let cases = [Case::new("1 GiB", "splice"), Case::new("1 GiB", "sendfile")];
        let only = |text: &str| Only { text: Some(text.to_owned()), ..Only::default() };
        let mut one = only("zzz");
        assert!(!one.wants(&cases));
        let failure = one.check().unwrap_err();
        assert!(failure.line().ends_with("the cases are\n  1 GiB splice\n  1 GiB sendfile"), "{failure:?}");
        // A case in one of several experiments is sufficient.
        assert!(one.wants(&[Case::new("zzz", "a")]));
        one.check().unwrap();
        let mut group = only("GiB s");
        assert!(group.wants(&cases));
        group.check().unwrap();
        assert!(Only::default().wants(&[]));
    }

    #[test]
    fn command_fails_if_a_case_has_wrong_bytes() {
        let sample = |case: &str, sound: bool| {
            Line::Sample(Sample {
                experiment: "copy".to_owned(),
                group: "1 MiB".to_owned(),
                case: case.to_owned(),
                params: BTreeMap::new(),
                round: 0,
                metrics: BTreeMap::new(),
                verdict: Some(Verdict { sound, what: "5 bytes of 7".to_owned() }),
            })
        };
        check_verdicts(&[sample("splice", true)]).unwrap();
        let failure = check_verdicts(&[sample("splice", true), sample("read", false)]).unwrap_err();
        let line = failure.line();
        assert!(line.contains("copy, 1 MiB, read: 5 bytes of 7") && !line.contains("splice"), "{line}");
    }

    #[test]
    fn missing_record_error_names_path_and_next_step() {
        let Failure::Failed { what, next, .. } = read_record(Path::new("/nosuch.jsonl")).unwrap_err() else {
            panic!("an error of another kind");
        };
        assert!(what.contains("/nosuch.jsonl"), "{what}");
        assert!(next.is_some_and(|next| next.starts_with("name a record of levada lab")));
    }
}
