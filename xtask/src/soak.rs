//! Long runs of everything that is drawn at random: crashes, models, simulations, fuzz targets, and
//! black-box suites under disturbances.
//!
//! `cargo xtask test` runs each of them for seconds; a soak runs each of them for minutes, with
//! other seeds. It is run before a release. The head of a test's file describes its long runs
//! ([`head`]).

mod head;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::job::{self, Company, Job};
use crate::suite::{self, CLIENTS, Kind, RELEASE_BUILT, TestBinary};

use head::{Extent, Soak};

/// Minutes for each of them if the command line names none.
const MINUTES: u64 = 10;

const BUILT: &str = "build of the long tests";
const SEEDED: &str = "seeds of the fuzz targets";
const FUZZ_BUILT: &str = "build of the fuzz targets";
/// The package of the black-box suites.
const BLACK_BOX: &str = "levada-tests";

impl Soak {
    fn is_in_cluster(&self) -> bool {
        matches!(self.line.extent, Extent::Controllers(_))
    }

    fn is_black_box(&self) -> bool {
        self.package == BLACK_BOX
    }

    fn name(&self) -> String {
        let target = self.target.as_deref().unwrap_or_default();
        let subject = if self.module.is_empty() { target } else { &self.module };
        let filter = self.line.filter.as_deref().unwrap_or_default();
        let place = if self.is_in_cluster() { "in a cluster" } else { "" };
        let words = [&self.package, subject, filter, place].into_iter().filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }

    /// The job, with the binary that contains its tests.
    fn job(&self, binaries: &[TestBinary], minutes: u64) -> Result<Job, String> {
        let is_own = |binary: &&TestBinary| match (&self.target, binary.kind) {
            _ if binary.package != self.package => false,
            (Some(target), Kind::Test) => *target == binary.target,
            (None, Kind::Lib | Kind::Bin) => true,
            _ => false,
        };
        let binary = binaries.iter().find(is_own);
        let binary = binary.ok_or_else(|| format!("{}: Cargo has built no such tests", self.place))?;
        let listed = suite::command_of(binary).args(["--list", "--format", "terse"]).output();
        let listed = listed.map_err(|error| format!("{}: {error}", binary.executable.display()))?;
        let names = self.tests(&String::from_utf8_lossy(&listed.stdout));
        if names.is_empty() {
            return Err(format!("{}: no test of {} has such a name", self.place, self.name()));
        }
        Ok(self.job_of(binary, &names, minutes))
    }

    /// The names of its tests, from the list of all tests of a binary.
    fn tests(&self, listed: &str) -> Vec<String> {
        let module = if self.module.is_empty() { String::new() } else { format!("{}::", self.module) };
        let filter = self.line.filter.as_deref().unwrap_or_default();
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        let own = names.filter(|name| name.strip_prefix(&module).is_some_and(|rest| rest.contains(filter)));
        own.map(str::to_owned).collect()
    }

    fn job_of(&self, binary: &TestBinary, names: &[String], minutes: u64) -> Job {
        let (variable, value) = self.line.extent.setting(minutes);
        let mut command = suite::command_of(binary);
        command.env(variable, &value).args(["--nocapture", "--exact"]).args(names);
        if self.is_black_box() {
            // Several clusters at a time are more than a small machine has room for.
            command.arg("--test-threads=1");
        }
        let target = match (&self.target, binary.kind) {
            (Some(target), _) => format!("--test {target}"),
            (None, Kind::Bin) => "--bins".to_owned(),
            (None, _) => "--lib".to_owned(),
        };
        let again = format!(
            "{variable}={value} cargo test --profile soak --package {} {target} -- --nocapture",
            self.package
        );
        let mut job = Job::new(self.name(), Company::Shared, command, again);
        let time = Duration::from_secs(60 * minutes);
        if self.line.is_repeated {
            job = job.lasting(time);
        } else if let Extent::Lasts(_) = self.line.extent {
            // Each test lasts for the time, one after the other in the worst case.
            job = job.taking(time * u32::try_from(names.len()).unwrap_or(u32::MAX));
        }
        if self.is_black_box() { job.after(&[RELEASE_BUILT, CLIENTS]) } else { job }
    }
}

/// Runs the tests whose names contain one of the words, or all of them, for this number of minutes
/// each.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (minutes, words) = parse(arguments)?;
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let (mut jobs, fuzz) = (Vec::new(), fuzz_jobs(root, minutes, &is_wanted)?);
    let mut soaks = head::soaks(root)?;
    soaks.retain(|soak| is_wanted(&soak.name()));
    let packages: BTreeSet<String> = soaks.iter().map(|soak| soak.package.clone()).collect();
    if packages.is_empty() && fuzz.is_empty() {
        return Err("no long test has such a name".to_owned());
    }
    if packages.contains(BLACK_BOX) {
        jobs.extend([suite::release_build(root), suite::own(root, CLIENTS, "deps")?]);
    }
    if !packages.is_empty() {
        let mut build = vec!["test", "--locked", "--profile", "soak", "--no-run", suite::MESSAGES];
        packages.iter().for_each(|package| build.extend(["--package", package]));
        let follow = move |output: &str| {
            let binaries = suite::binaries(output)?;
            soaks.iter().map(|soak| soak.job(&binaries, minutes)).collect()
        };
        jobs.push(suite::cargo_job(root, Company::Build, BUILT, &build).then(Box::new(follow)));
    }
    jobs.extend(fuzz);
    job::run(jobs, suite::processors(), &suite::outputs(root).join("soak"))
}

/// Parses `--minutes N` and the names that select suites.
fn parse(arguments: &[String]) -> Result<(u64, Vec<String>), String> {
    let (mut minutes, mut words, mut rest) = (MINUTES, Vec::new(), arguments.iter());
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--minutes" => {
                let given = rest.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                minutes = given.ok_or("--minutes takes a number of minutes")?;
            }
            option if option.starts_with('-') => {
                return Err(format!("{option}: soak takes --minutes N and names"));
            }
            word => words.push(word.to_owned()),
        }
    }
    Ok((minutes, words))
}

/// Each fuzz target whose name is wanted, if this machine has cargo-fuzz.
fn fuzz_jobs(root: &Path, minutes: u64, is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Job>, String> {
    let mut wanted = targets(root)?;
    wanted.retain(|target| is_wanted(&fuzz_name(target)));
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut there = Command::new("cargo");
    there.args(["+nightly", "fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !there.status().is_ok_and(|status| status.success()) {
        println!(
            "fuzz targets: left out, because `cargo +nightly fuzz` does not work (cargo install cargo-fuzz)"
        );
        return Ok(Vec::new());
    }
    let mut seed = Command::new("python3");
    seed.arg("fuzz/seed.py").current_dir(root);
    let mut jobs = vec![
        Job::new(SEEDED, Company::Shared, seed, "python3 fuzz/seed.py".to_owned()),
        fuzz_job(root, FUZZ_BUILT.to_owned(), Company::Build, &["build"]),
    ];
    for target in wanted {
        let time = format!("-max_total_time={}", 60 * minutes);
        let run = ["run", &target, "--", &time, "-malloc_limit_mb=256"];
        jobs.push(fuzz_job(root, fuzz_name(&target), Company::Shared, &run).after(&[SEEDED, FUZZ_BUILT]));
    }
    Ok(jobs)
}

fn fuzz_job(root: &Path, name: String, company: Company, arguments: &[&str]) -> Job {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz"]).args(arguments).current_dir(root);
    // This program was started by the Cargo of another toolchain.
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    Job::new(name, company, command, format!("cargo +nightly fuzz {}", arguments.join(" ")))
}

fn fuzz_name(target: &str) -> String {
    format!("fuzz {target}")
}

/// The names of the fuzz targets, in order.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/targets");
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    let paths = entries.iter().map(fs::DirEntry::path);
    let mut names: Vec<String> =
        paths.filter_map(|path| path.file_stem()?.to_str().map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests;
