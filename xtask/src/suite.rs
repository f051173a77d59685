//! Runs everything that must hold before a change lands, step by step, and counts the outcome.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{deny, deps, tidy, vm};

/// Every check there is. Goes on after a failure, so that one run shows all of them.
pub(crate) fn everything(root: &Path) -> Result<(), String> {
    let mut tally = Tally::default();
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let unit = ["test", "--workspace", "--exclude", "levada-tests", "--no-fail-fast"];
    let doc = ["doc", "--workspace", "--no-deps", "--document-private-items"];

    let ready = tally.step("test clients", || deps::install(root));
    tally.step("format", || cargo(root, &["fmt", "--all", "--check"]));
    tally.step("lints", || cargo(root, &clippy));
    tally.step("house rules", || tidy::run(root));
    tally.step("dependencies", || deny::run(root));
    tally.tests("unit tests", root, &unit);
    tally.step("documentation", || run(command(root, &doc).env("RUSTDOCFLAGS", "-D warnings")));
    match deps::can_install_vm() {
        true => drop(tally.step("virtual machine", || vm::run(root, vm::Extent::Usual))),
        false => {
            eprintln!("\n==> virtual machine: left out, because qemu is not there and cannot be installed")
        }
    }
    let built = tally.step("release build", || cargo(root, &["build", "--release", "--package", "levada"]));
    if ready && built {
        tally.tests("black box", root, &BLACK_BOX);
    }
    tally.close()
}

/// Only the black-box tests, against a fresh release binary.
pub(crate) fn black_box(root: &Path, rest: &[String]) -> Result<(), String> {
    let mut tally = Tally::default();
    let ready = tally.step("test clients", || deps::install(root));
    let built = tally.step("release build", || cargo(root, &["build", "--release", "--package", "levada"]));
    if ready && built {
        let (options, filters) = split_at_dashes(rest);
        let mut arguments: Vec<&str> = BLACK_BOX.to_vec();
        let dashes = arguments.iter().position(|argument| *argument == "--").unwrap_or(arguments.len());
        arguments.splice(dashes..dashes, options);
        arguments.extend(filters);
        tally.tests("black box", root, &arguments);
    }
    tally.close()
}

/// The tests of foreign clients, against Levada and a real Kafka. `LEVADA_BIN` names a binary to take as it is.
pub(crate) fn foreign(root: &Path, names: &[String]) -> Result<(), String> {
    deps::install_suites(root)?;
    if std::env::var_os("LEVADA_BIN").is_none() {
        cargo(root, &["build", "--release", "--package", "levada"])?;
    }
    let suites = ["run", "--quiet", "--package", "levada-tests", "--bin", "suites", "--"];
    run(command(root, &suites).args(names))
}

/// One test at a time: they measure time and memory, and some keep both cores busy.
const BLACK_BOX: [&str; 8] = [
    "test",
    "--release",
    "--package",
    "levada-tests",
    "--no-fail-fast",
    "--",
    "--test-threads=1",
    "--nocapture",
];

fn split_at_dashes(arguments: &[String]) -> (Vec<&str>, Vec<&str>) {
    let mut halves = arguments.splitn(2, |argument| argument == "--");
    let mut half = || halves.next().unwrap_or_default().iter().map(String::as_str).collect();
    (half(), half())
}

/// What has run so far.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    steps: Vec<(&'static str, Duration, bool)>,
}

impl Tally {
    /// A step that is no test: it counts only when it fails.
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<(), String>) -> bool {
        eprintln!("\n==> {name}");
        let start = Instant::now();
        let outcome = work();
        if let Err(message) = &outcome {
            eprintln!("error: {name}: {message}");
            self.failed += 1;
        }
        self.steps.push((name, start.elapsed(), outcome.is_ok()));
        outcome.is_ok()
    }

    fn tests(&mut self, name: &'static str, root: &Path, arguments: &[&str]) {
        let (mut passed, mut failed) = (0, 0);
        self.step(name, || {
            let status = count(command(root, arguments), &mut passed, &mut failed)?;
            match (status, passed, failed) {
                (true, 0, 0) => Err("no test ran".to_string()),
                (true, _, 0) => Ok(()),
                _ => Err(format!("{failed} failed")),
            }
        });
        self.passed += passed;
        // The step has already counted one failure; a build that failed has no other.
        self.failed += failed.saturating_sub(1);
    }

    fn close(self) -> Result<(), String> {
        eprintln!();
        for (name, time, good) in &self.steps {
            let word = if *good { "ok" } else { "FAILED" };
            eprintln!("{name:<16} {:>7.1} s  {word}", time.as_secs_f64());
        }
        let total: Duration = self.steps.iter().map(|step| step.1).sum();
        eprintln!("{:<16} {:>7.1} s", "all", total.as_secs_f64());
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { Ok(()) } else { Err(String::new()) }
    }
}

/// Runs a `cargo test`, passes its output on and adds up its `test result:` lines.
fn count(mut command: Command, passed: &mut u64, failed: &mut u64) -> Result<bool, String> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cargo: {error}"))?;
    let output = child.stdout.take().expect("stdout was asked for");
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(|error| format!("cargo's output: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some((good, bad)) = outcome(&line) {
            *passed += good;
            *failed += bad;
        }
    }
    Ok(child.wait().map_err(|error| format!("cargo: {error}"))?.success())
}

/// `test result: ok. 12 passed; 0 failed; …` → (12, 0).
fn outcome(line: &str) -> Option<(u64, u64)> {
    let rest = line.split_once("test result: ")?.1.split_once(". ")?.1;
    let mut parts = rest.split("; ");
    let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    run(&mut command(root, arguments))
}

fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root).args(arguments).stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

#[cfg(test)]
mod tests;
