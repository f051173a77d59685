//! Long runs of everything that is drawn at random: crashes, models, simulations, fuzz targets, and
//! black-box suites under disturbances.
//!
//! `cargo xtask test` runs each of them for seconds; a soak runs each of them for minutes, with
//! other seeds. It is run before a release.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::job::{self, Company, Job};
use crate::suite::{self, CLIENTS, Kind, RELEASE_BUILT, TestBinary};

/// Minutes for each of them if the command line names none.
const MINUTES: u64 = 10;

const BUILT: &str = "build of the long tests";
const SEEDED: &str = "seeds of the fuzz targets";
const FUZZ_BUILT: &str = "build of the fuzz targets";

/// A long run of a test binary.
struct Long {
    package: &'static str,
    target: &'static str,
    filter: &'static str,
    /// A variable that makes it long, or that makes it draw random values; `MINUTES` is replaced by
    /// the number of minutes.
    setting: (&'static str, &'static str),
    /// True if it has to be run again and again to last.
    is_repeated: bool,
}

/// Makes each node of a suite a broker in a separate cluster, with this number of controllers.
const CONTROLLERS: (&str, &str) = ("LEVADA_TEST_CONTROLLERS", "3");
/// The same for a suite that starts many nodes and measures them.
const CONTROLLER: (&str, &str) = ("LEVADA_TEST_CONTROLLERS", "1");

const LONG: [Long; 35] = [
    Long::once("levada-broker", "levada_broker", "crash::seeds_by_hand", ("LEVADA_CRASH_MINUTES", "MINUTES")),
    Long::again("levada-broker", "levada_broker", "simulation", ("LEVADA_SIMULATION_SEED", "random")),
    Long::again(
        "levada-cluster",
        "levada_cluster",
        "simulation::histories",
        ("LEVADA_SIMULATION_SEED", "random"),
    ),
    Long::again("levada-log", "model", "", ("LEVADA_MODEL_CASES", "500")),
    Long::again("levada-log", "compaction", "", ("LEVADA_MODEL_CASES", "500")),
    Long::again("levada-io", "levada_io", "matrix", ("LEVADA_TEST_MATRIX", "full")),
    Long::once("levada-broker", "remembered", "", ("LEVADA_SOAK_COUNT", "100000")),
    Long::once("levada-tests", "exactly_once", "", ("LEVADA_EOS_MINUTES", "MINUTES")),
    Long::again("levada-tests", "crash", "", ("LEVADA_TEST_ROUNDS", "50")),
    Long::once("levada-tests", "cluster", "", ("LEVADA_TEST_ROUNDS", "20")),
    Long::once("levada-tests", "replication_faults", "", ("LEVADA_REPLICATION_MINUTES", "MINUTES")),
    Long::once("levada-tests", "replication_moves", "large", ("LEVADA_MOVED_GIGABYTES", "20")),
    Long::once("levada-tests", "replacement", "", ("LEVADA_REPLACEMENT_MINUTES", "MINUTES")),
    Long::once("levada-tests", "coordinators_cluster", "", ("LEVADA_COORDINATORS_MINUTES", "MINUTES")),
    Long::again("levada-tests", "quorum", "", ("LEVADA_TEST_ROUNDS", "3")),
    Long::again("levada-tests", "streams", "", ("LEVADA_TEST_ROUNDS", "20")),
    Long::again("levada-tests", "connect", "", ("LEVADA_TEST_ROUNDS", "20")),
    Long::again("levada-tests", "hostile", "mutated_requests", ("LEVADA_TEST_MUTATIONS", "10000")),
    Long::once("levada-tests", "tail_pipe", "", ("LEVADA_TAIL_MINUTES", "MINUTES")),
    Long::once("levada-tests", "remembered", "", ("LEVADA_SOAK_COUNT", "10000")),
    Long::once("levada-tests", "hostile_requests", "", ("LEVADA_HOSTILE_WORLD", "10")),
    Long::again("levada-tests", "files_hostile", "", ("LEVADA_TEST_HOSTILE", "100000")),
    Long::again("levada-tests", "files_clients", "mirrors", ("LEVADA_TEST_FILES", "10000")),
    Long::once("levada-tests", "round_trip", "", CONTROLLERS),
    Long::once("levada-tests", "groups", "", CONTROLLERS),
    Long::once("levada-tests", "transactions", "", CONTROLLERS),
    Long::once("levada-tests", "exactly_once", "", CONTROLLERS),
    Long::once("levada-tests", "administration", "", CONTROLLERS),
    Long::once("levada-tests", "configuration", "", CONTROLLERS),
    Long::once("levada-tests", "tools", "", CONTROLLERS),
    Long::once("levada-tests", "streams", "", CONTROLLERS),
    Long::once("levada-tests", "connect", "", CONTROLLERS),
    Long::once("levada-tests", "features", "", CONTROLLERS),
    Long::once("levada-tests", "pipelining", "", CONTROLLERS),
    Long::once("levada-tests", "hostile_requests", "", CONTROLLER),
];

impl Long {
    const fn once(
        package: &'static str,
        target: &'static str,
        filter: &'static str,
        setting: (&'static str, &'static str),
    ) -> Self {
        Self { package, target, filter, setting, is_repeated: false }
    }

    const fn again(
        package: &'static str,
        target: &'static str,
        filter: &'static str,
        setting: (&'static str, &'static str),
    ) -> Self {
        Self { is_repeated: true, ..Self::once(package, target, filter, setting) }
    }

    fn is_in_cluster(&self) -> bool {
        self.setting.0 == CONTROLLERS.0
    }

    fn name(&self) -> String {
        let target = if self.target.starts_with("levada_") { self.filter } else { self.target };
        let place = if self.is_in_cluster() { " in a cluster" } else { "" };
        format!("{} {target}", self.package).trim_end().to_owned() + place
    }

    /// The job, if this binary has these tests.
    fn job(&self, binary: &TestBinary, minutes: u64) -> Option<Job> {
        if (binary.package.as_str(), binary.target.as_str()) != (self.package, self.target)
            || binary.kind == Kind::Bin
        {
            return None;
        }
        let (variable, value) = self.setting;
        let is_timed = value.contains("MINUTES");
        let value = value.replace("MINUTES", &minutes.to_string());
        let mut command = suite::command_of(binary);
        command.env(variable, &value).arg("--nocapture");
        if !self.filter.is_empty() {
            command.arg(self.filter);
        }
        if self.is_in_cluster() || self.target == "replication_faults" {
            // Several clusters at a time are more than a small machine has room for.
            command.arg("--test-threads=1");
        }
        let target = match binary.kind {
            Kind::Test => format!("--test {}", self.target),
            _ => "--lib".to_owned(),
        };
        let again = format!(
            "{variable}={value} cargo test --profile soak --package {} {target} -- --nocapture",
            self.package
        );
        let mut job = Job::new(self.name(), Company::Shared, command, again);
        let time = Duration::from_secs(60 * minutes);
        if self.is_repeated {
            job = job.lasting(time);
        } else if is_timed {
            job = job.taking(time);
        }
        Some(if self.package == "levada-tests" { job.after(&[RELEASE_BUILT, CLIENTS]) } else { job })
    }
}

/// Runs the tests whose names contain one of the words, or all of them, for this number of minutes
/// each.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (minutes, words) = parse(arguments)?;
    let is_wanted =
        move |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let (mut jobs, fuzz) = (Vec::new(), fuzz_jobs(root, minutes, &is_wanted)?);
    let wanted = LONG.iter().filter(|long| is_wanted(&long.name()));
    let packages: BTreeSet<&str> = wanted.map(|long| long.package).collect();
    if packages.is_empty() && fuzz.is_empty() {
        return Err("no long test has such a name".to_owned());
    }
    if packages.contains("levada-tests") {
        jobs.extend([suite::release_build(root), suite::own(root, CLIENTS, "deps")?]);
    }
    if !packages.is_empty() {
        let mut build = vec!["test", "--locked", "--profile", "soak", "--no-run", suite::MESSAGES];
        packages.iter().for_each(|package| build.extend(["--package", package]));
        let follow = move |output: &str| {
            let binaries = suite::binaries(output)?;
            let wanted = LONG.iter().filter(|long| is_wanted(&long.name()));
            Ok(wanted
                .filter_map(|long| binaries.iter().find_map(|binary| long.job(binary, minutes)))
                .collect())
        };
        jobs.push(suite::cargo_job(root, Company::Build, BUILT, &build).then(Box::new(follow)));
    }
    jobs.extend(fuzz);
    job::run(jobs, suite::processors(), &suite::outputs(root).join("soak"))
}

/// `--minutes N`, and words.
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
