//! Black-box suites as jobs, and `cargo xtask black-box` for some of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::catalogue::{Suite, suites};
use super::{BUILD, CLIENTS, Extent, Kind, RELEASE_BUILT, SUITES, TestBinary};
use crate::deps::{self, NEWER_KAFKA};
use crate::job::{Company, Job};

/// One test at a time, so that it has the broker's processors; its figures are shown.
const OPTIONS: [&str; 3] = ["--test-threads=1", "--nocapture", "--exact"];

/// True for a binary of black-box suites.
pub(super) fn is_folder(binary: &TestBinary) -> bool {
    binary.package == SUITES && binary.kind == Kind::Test
}

/// A job for each suite.
pub(super) fn jobs(
    root: &Path,
    folders: &[TestBinary],
    suites: &[Suite],
    extent: Extent,
) -> Result<Vec<Job>, String> {
    suites.iter().map(|suite| job(root, folders, suite, extent)).collect()
}

fn job(root: &Path, folders: &[TestBinary], suite: &Suite, extent: Extent) -> Result<Job, String> {
    let command = super::scaled(command(root, folders, suite, &[])?, extent);
    let company = if suite.head.is_alone { Company::Alone } else { Company::Shared };
    let again = format!("cargo xtask black-box {} --", suite.name);
    let needs: &[&str] = if suite.is_short() { &[CLIENTS] } else { &[RELEASE_BUILT, CLIENTS] };
    let (folder, programs) = (root.to_owned(), suite.head.needs.clone());
    let job = Job::new(format!("black box: {}", suite.name), company, command, again);
    let check = move || deps::check(&folder, programs.iter().map(String::as_str));
    Ok(job.after(needs).expecting(suite.head.seconds).if_ready(Box::new(check)))
}

/// The command that runs a suite's tests, or those whose names contain one of the texts.
fn command(
    root: &Path,
    folders: &[TestBinary],
    suite: &Suite,
    filters: &[String],
) -> Result<Command, String> {
    let binary = folders.iter().find(|binary| binary.target == suite.folder);
    let binary = binary.ok_or_else(|| format!("cargo has built no test binary {}", suite.folder))?;
    let mut tests = tests(binary, &suite.name)?;
    tests.retain(|test| filters.is_empty() || filters.iter().any(|text| test.contains(text.as_str())));
    if tests.is_empty() {
        return Err(format!("{} has no such test", suite.name));
    }
    let mut command = super::command_of(binary);
    command.env("LEVADA_BIN", suite.binary(root)).args(OPTIONS).args(tests);
    if suite.head.needs.iter().any(|need| need == NEWER_KAFKA) {
        command.env("LEVADA_TEST_KAFKA", "newer");
    }
    Ok(command)
}

/// Names of the tests of a module.
fn tests(binary: &TestBinary, module: &str) -> Result<Vec<String>, String> {
    let failed = |error: String| format!("{} --list: {error}", binary.executable.display());
    let listed = super::command_of(binary).args(["--list", "--format=terse"]).stdin(Stdio::null()).output();
    let listed = listed.map_err(|error| failed(error.to_string()))?;
    if !listed.status.success() {
        return Err(failed(listed.status.to_string()));
    }
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let prefix = format!("{module}::");
    Ok(names.filter(|name| name.starts_with(&prefix)).map(str::to_owned).collect())
}

/// `cargo xtask black-box [NAME]... [-- TEXT...]`: the suites of these names or in these folders,
/// one by one with visible output, or all but those of a soak.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (names, filters) = split_at_dashes(arguments);
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "--test").collect();
    let mut chosen = suites(root)?;
    if let Some(name) = names.iter().find(|name| !chosen.iter().any(|suite| suite.is_called(name))) {
        return Err(format!("no suite and no folder of suites is called {name}: see tests/tests"));
    }
    chosen.retain(|suite| match names[..] {
        [] => suite.belongs_to(true),
        _ => names.iter().any(|name| suite.is_called(name)),
    });
    deps::install(root, &chosen.iter().flat_map(Suite::programs).collect())?;
    if chosen.iter().any(|suite| !suite.is_short()) {
        super::execute(&mut super::release_command(root))?;
    }
    let built = super::cargo(root, &BUILD).stderr(Stdio::inherit()).output();
    let built = built.map_err(|error| format!("cargo: {error}"))?;
    if !built.status.success() {
        return Err(format!("cargo build: {}", built.status));
    }
    let folders = super::binaries(&String::from_utf8_lossy(&built.stdout))?;
    let mut failed = Vec::new();
    for suite in &chosen {
        println!("\n==> {}/{}", suite.folder, suite.name);
        if super::execute(&mut command(root, &folders, suite, filters)?).is_err() {
            failed.push(suite.name.as_str());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(" "))) }
}

fn split_at_dashes(arguments: &[String]) -> (&[String], &[String]) {
    let dashes = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    (&arguments[..dashes], arguments.get(dashes + 1..).unwrap_or_default())
}

impl Suite {
    /// The binary that the suite tests.
    fn binary(&self, root: &Path) -> PathBuf {
        super::binary(root, if self.is_short() { "debug" } else { "release" })
    }
}

#[cfg(test)]
mod tests;
