//! The laboratory: a quick run of one experiment of `levada lab`, and its report.
//!
//! A run is a separate process with the lowest priority, never a part of the broker: it uses a
//! processor for seconds and writes files. There is one at a time; it ends with the broker, and its
//! files are in a directory that only the broker's user can read.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};
use levada_process::blocking::off_shard;
use levada_security::acl::Operation;
use levada_security::nonce;
use maud::{Markup, html};
use rustix::process::{Pid, setpriority_process};

use super::allowed::ALTER_CLUSTER;
use super::failure::Failed;
use super::fields::Fields;
use super::layout::{self, Page, Section, choice, field, notice, proof};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Experiments that need nothing but this machine.
const EXPERIMENTS: [(&str, &str); 6] = [
    ("transfer", "transfer: from a file to a socket"),
    ("send", "send: from memory to a socket"),
    ("receive", "receive: from a socket into a file"),
    ("copy", "copy: from file to file"),
    ("read", "read: a large file"),
    ("search", "search: the batch of an offset"),
];

/// The program that `levada lab` runs, in the directory of the broker's.
const PROGRAM: &str = "levada-lab";
/// Largest report and longest output that are read.
const REPORT_BYTES_MAX: u64 = 16 << 20;
const OUTPUT_BYTES_MAX: usize = 4096;
/// Priority of a run: the lowest.
const NICE: i32 = 19;

/// The run that was started last.
#[derive(Default)]
pub(super) struct Laboratory(Option<Run>);

struct Run {
    experiment: &'static str,
    directory: PathBuf,
    child: Child,
    started: Instant,
    ended: Option<ExitStatus>,
}

/// State of a run for the page.
enum Progress {
    None,
    Running { experiment: &'static str, time: Duration },
    Done { experiment: &'static str },
    Failed { experiment: &'static str, output: String },
}

impl Run {
    fn start(experiment: &'static str) -> io::Result<Self> {
        let directory = std::env::temp_dir().join(format!("levada-laboratory-{}", nonce()));
        DirBuilder::new().mode(0o700).create(&directory)?;
        let child = spawn(experiment, &directory).inspect_err(|_| {
            // The directory contains only the output, and the cause has been reported already.
            let _ = fs::remove_dir_all(&directory);
        })?;
        Ok(Self { experiment, directory, child, started: Instant::now(), ended: None })
    }

    fn report(&self) -> PathBuf {
        self.directory.join("report.html")
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.ended().is_none() {
            // Both fail only for a process that has ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(path = %self.directory.display(), %error, "cannot remove the files of a laboratory run");
        }
    }
}

fn spawn(experiment: &str, directory: &Path) -> io::Result<Child> {
    let output = File::create(directory.join("output.txt"))?;
    let child = Command::new(std::env::current_exe()?.with_file_name(PROGRAM))
        .args([experiment, "--quick", "--dir"])
        .arg(directory)
        .arg("--record")
        .arg(directory.join("record.jsonl"))
        .arg("--report")
        .arg(directory.join("report.html"))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    // A run that has ended already needs no priority.
    let _ = setpriority_process(Pid::from_raw(child.id().cast_signed()), NICE);
    Ok(child)
}

impl Laboratory {
    fn progress(&mut self) -> Progress {
        let Some(run) = &mut self.0 else { return Progress::None };
        let experiment = run.experiment;
        match run.ended() {
            None => Progress::Running { experiment, time: run.started.elapsed() },
            Some(status) if status.success() => Progress::Done { experiment },
            Some(_) => {
                let output = fs::read(run.directory.join("output.txt")).unwrap_or_default();
                let tail = &output[output.len().saturating_sub(OUTPUT_BYTES_MAX)..];
                Progress::Failed { experiment, output: String::from_utf8_lossy(tail).into_owned() }
            }
        }
    }

    fn start(&mut self, experiment: &'static str) -> Result<(), Failed> {
        if let Progress::Running { experiment, .. } = self.progress() {
            return Err(Failed::Input(format!(
                "A run of {experiment} is still in progress; wait for its end, or stop it."
            )));
        }
        self.0 = None;
        let run = Run::start(experiment).map_err(|error| {
            Failed::Input(format!(
                "The run cannot be started with the program {PROGRAM} beside the broker's: {error}"
            ))
        });
        self.0 = Some(run?);
        Ok(())
    }

    fn stop(&mut self) {
        self.0 = None;
    }

    /// The report of the last run; none before its end.
    fn report(&mut self) -> Option<String> {
        let run = self.0.as_mut()?;
        let path = run.ended().is_some_and(|status| status.success()).then(|| run.report())?;
        let small = fs::metadata(&path).ok()?.len() <= REPORT_BYTES_MAX;
        small.then(|| fs::read_to_string(path).ok()).flatten()
    }
}

/// Renders the page of the laboratory.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Laboratory, page)
}

async fn page(console: &Arc<Console>, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    console.cluster_permission(visitor, Operation::Describe).await?;
    let worker = console.clone();
    let progress = off_shard(move || worker.laboratory.lock().progress()).await;
    let running = matches!(progress, Progress::Running { .. });
    let may_run = console.permits(visitor, ALTER_CLUSTER);
    let content = html! {
        (layout::done(fields.text("done")))
        p {
            "The laboratory measures on this machine the cost of each way to move bytes. A quick run takes seconds to a minute. "
            "It is a separate process with the lowest priority, but it shares processors, memory and disk with the broker: "
            "expect slower responses while it runs, and figures that the broker's own work disturbs."
        }
        div #laboratory data-refresh=[running.then_some("2")] { (state(visitor, progress, may_run)) }
        @if !running { (console.offered(visitor, ALTER_CLUSTER, ("Start a run", start_form(visitor)))) }
    };
    Ok(Page::new(Section::Laboratory, "Laboratory", content))
}

fn state(visitor: &Visitor, progress: Progress, may_run: bool) -> Markup {
    html! {
        @match progress {
            Progress::None => { p.soft { "There is no report yet." } },
            Progress::Running { experiment, time } => {
                (notice("warn", format!("{experiment} has been running for {}.", format::duration(time))))
                @if may_run {
                    form method="post" action="/laboratory/stop" { (proof(visitor)) button.danger { "Stop the run" } }
                }
            },
            Progress::Done { experiment } => {
                (notice("good", html! { "The run of " (experiment) " has ended. " a href="/laboratory/report" { "Read its report" } }))
            },
            Progress::Failed { experiment, output } => {
                (notice("bad", format!("The run of {experiment} failed. Its last output:")))
                pre { (output) }
            },
        }
    }
}

fn start_form(visitor: &Visitor) -> Markup {
    html! {
        form.card method="post" action="/laboratory" {
            (proof(visitor))
            (field("Experiment", choice("experiment", EXPERIMENTS, "transfer")))
            button { "Start a quick run" }
            p.soft { "A new run replaces the report of the last one. levada lab has more experiments, longer runs and comparisons." }
        }
    }
}

/// Starts a run.
pub(super) async fn start(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let started = start_run(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Laboratory, started)
}

async fn start_run(console: &Arc<Console>, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    console.cluster_permission(visitor, Operation::Alter).await?;
    let wanted = fields.text("experiment");
    let known = EXPERIMENTS.iter().find(|(name, _)| *name == wanted);
    let (experiment, _) = known.ok_or_else(|| Failed::Input(format!("There is no experiment {wanted}.")))?;
    let worker = console.clone();
    off_shard(move || worker.laboratory.lock().start(experiment)).await?;
    Err(Failed::Redirect("/laboratory".to_owned()))
}

/// Stops a run.
pub(super) async fn stop(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, .. }): Visiting,
) -> Response {
    let stopped = stop_run(&console, &visitor).await;
    layout::respond(&visitor, Section::Laboratory, stopped)
}

async fn stop_run(console: &Arc<Console>, visitor: &Visitor) -> Result<Page, Failed> {
    console.cluster_permission(visitor, Operation::Alter).await?;
    let worker = console.clone();
    off_shard(move || worker.laboratory.lock().stop()).await;
    Err(Failed::Redirect("/laboratory?done=stopped".to_owned()))
}

/// The report. It has separate styles and no script, and its policy isolates it from the console.
pub(super) async fn report(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, .. }): Visiting,
) -> Response {
    const POLICY: &str =
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox";
    let found = match console.cluster_permission(&visitor, Operation::Describe).await {
        Ok(()) => {
            let worker = console.clone();
            let report = off_shard(move || worker.laboratory.lock().report()).await;
            report.ok_or_else(|| Failed::Missing("There is no report. Start a run first.".to_owned()))
        }
        Err(failed) => Err(failed),
    };
    match found {
        Ok(report) => {
            let mut response = Html(report).into_response();
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            response
        }
        Err(failed) => layout::respond(&visitor, Section::Laboratory, Err(failed)),
    }
}
