//! Everything that must hold before a change lands, as a list of jobs that run side by side.

mod binaries;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::deps;
use crate::job::{self, Company, Job};

pub(crate) use binaries::{Kind, TestBinary, binaries};

const TESTS_BUILT: &str = "build of the tests";
pub(crate) const RELEASE_BUILT: &str = "release build";
pub(crate) const CLIENTS: &str = "test clients";

/// Black-box suites that hold times or memory against bounds, or that load the whole machine.
const ALONE: [&str; 8] = [
    "cold",
    "footprint",
    "footprint_cluster",
    "half_open",
    "hostile",
    "hostile_requests",
    "overload",
    "remembered",
];

/// Test binaries that take longest, the longest first: they start first, so that none of them is
/// left over at the end.
const LONG: [&str; 11] = [
    "replacement",
    "member",
    "replication_faults",
    "cluster",
    "cluster_quorum",
    "exactly_once",
    "streams",
    "lab_broker",
    "authentication",
    "restricted",
    "compaction",
];

/// Black-box suites that only a soak runs: those whose subject a faster suite covers as well.
/// `cluster` and `cluster_quorum` run the state machines of `quorum` in the binary.
const SOAK_ONLY: [&str; 1] = ["quorum"];

/// Has Cargo name the test binaries.
pub(crate) const MESSAGES: &str = "--message-format=json-render-diagnostics";

/// All checks. Continues after a failure, so that one run shows all of them.
pub(crate) fn everything(root: &Path) -> Result<(), String> {
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let doc = ["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"];
    let mut jobs = vec![
        tests_build(root, &["--workspace"]),
        own(root, CLIENTS, "deps")?,
        release_build(root),
        cargo_job(root, Company::Shared, "format", &["fmt", "--all", "--check"]),
        own(root, "house rules", "tidy")?,
        own(root, "dependencies", "deny")?,
        packages(root)?,
    ];
    if deps::can_install_vm() {
        jobs.push(own(root, "virtual machine", "vm")?.after(&[TESTS_BUILT, CLIENTS]));
    } else {
        println!("virtual machine: left out, because qemu is not there and cannot be installed");
    }
    jobs.extend([
        cargo_job(root, Company::Build, "documentation tests", &["test", "--locked", "--workspace", "--doc"])
            .after(&[TESTS_BUILT]),
        cargo_job(root, Company::Build, "lints", &clippy),
        cargo_job(root, Company::Build, "documentation", &doc),
    ]);
    job::run(jobs, processors(), &outputs(root))
}

/// The black-box tests against a fresh release binary, or against `LEVADA_BIN`. With arguments for
/// `cargo test` they run one by one and are seen while they run.
pub(crate) fn black_box(root: &Path, rest: &[String]) -> Result<(), String> {
    if rest.is_empty() {
        let jobs = vec![
            tests_build(root, &["--package", "levada-tests"]),
            own(root, CLIENTS, "deps")?,
            release_build(root),
        ];
        return job::run(jobs, processors(), &outputs(root));
    }
    deps::install(root)?;
    run(&mut release_command(root))?;
    let (options, filters) = split_at_dashes(rest);
    let mut test = cargo(root, &["test", "--package", "levada-tests", "--no-fail-fast"]);
    run(test.args(options).arg("--").args(BLACK_BOX).args(filters))
}

/// The tests of foreign clients, against Levada and a real Kafka. `LEVADA_BIN` names a binary to
/// take as it is.
pub(crate) fn foreign(root: &Path, names: &[String]) -> Result<(), String> {
    deps::install_suites(root)?;
    run(&mut release_command(root))?;
    let suites = ["run", "--quiet", "--package", "levada-tests", "--bin", "suites", "--"];
    run(cargo(root, &suites).args(names))
}

/// One test at a time, so that it has the broker's processors; its figures are shown.
const BLACK_BOX: [&str; 2] = ["--test-threads=1", "--nocapture"];

fn split_at_dashes(arguments: &[String]) -> (&[String], &[String]) {
    let dashes = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    (&arguments[..dashes], arguments.get(dashes + 1..).unwrap_or_default())
}

/// Builds the tests of some packages; a job for each test binary follows from it.
fn tests_build(root: &Path, packages: &[&str]) -> Job {
    let arguments = [&["test", "--locked", "--no-run", MESSAGES], packages].concat();
    let follow = |output: &str| {
        let mut binaries = binaries(output)?;
        binaries.retain(|binary| !SOAK_ONLY.contains(&binary.target.as_str()));
        let place =
            |binary: &TestBinary| LONG.iter().position(|name| *name == binary.target).unwrap_or(LONG.len());
        binaries.sort_by_key(place);
        Ok(binaries.iter().map(tests_of).collect())
    };
    cargo_job(root, Company::Build, TESTS_BUILT, &arguments).then(Box::new(follow))
}

/// The job that runs a test binary as Cargo would.
fn tests_of(binary: &TestBinary) -> Job {
    let TestBinary { package, target, kind, .. } = binary;
    let mut command = command_of(binary);
    if package == "levada-tests" && *kind == Kind::Test {
        command.args(BLACK_BOX);
        let company = if ALONE.contains(&target.as_str()) { Company::Alone } else { Company::Shared };
        let again = format!("cargo xtask black-box --test {target} --");
        return Job::new(format!("black box: {target}"), company, command, again)
            .after(&[RELEASE_BUILT, CLIENTS]);
    }
    let (name, option) = match kind {
        Kind::Lib => (package.clone(), "--lib".to_owned()),
        Kind::Bin => (format!("{package}: {target}, unit tests"), format!("--bin {target}")),
        Kind::Test => (format!("{package}: {target}"), format!("--test {target}")),
    };
    Job::new(name, Company::Shared, command, format!("cargo test --package {package} {option} --"))
}

/// A test binary as Cargo runs it.
pub(crate) fn command_of(binary: &TestBinary) -> Command {
    let mut command = Command::new(&binary.executable);
    command.current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
    command
}

/// Makes the packages of the binary under test and checks their contents.
fn packages(root: &Path) -> Result<Job, String> {
    let binary = match std::env::var_os("LEVADA_BIN") {
        Some(binary) => PathBuf::from(binary),
        None => deps::target(root).join("release/levada"),
    };
    let task = ["dist".as_ref(), "--binary".as_ref(), binary.as_os_str()];
    Ok(own_words(root, "packages", &task)?.after(&[RELEASE_BUILT, CLIENTS]))
}

pub(crate) fn release_build(root: &Path) -> Job {
    let again = "cargo build --release --package levada".to_owned();
    Job::new(RELEASE_BUILT, Company::Build, release_command(root), again)
}

/// Builds the binary under test, unless `LEVADA_BIN` names one.
fn release_command(root: &Path) -> Command {
    match std::env::var_os("LEVADA_BIN") {
        None => cargo(root, &["build", "--locked", "--release", "--package", "levada"]),
        Some(binary) => {
            let mut there = Command::new("test");
            there.arg("-x").arg(binary);
            there
        }
    }
}

/// A task of this program as a job in parallel with others.
pub(crate) fn own(root: &Path, name: &str, task: &str) -> Result<Job, String> {
    own_words(root, name, &[task.as_ref()])
}

fn own_words(root: &Path, name: &str, words: &[&OsStr]) -> Result<Job, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let mut command = Command::new(program);
    command.args(words).current_dir(root);
    let again =
        words.iter().fold("cargo xtask".to_owned(), |line, word| line + " " + &word.to_string_lossy());
    Ok(Job::new(name, Company::Shared, command, again))
}

pub(crate) fn cargo_job(root: &Path, company: Company, name: &str, arguments: &[&str]) -> Job {
    let words: Vec<&str> = arguments.iter().copied().filter(|word| *word != MESSAGES).collect();
    Job::new(name, company, cargo(root, arguments), format!("cargo {}", words.join(" ")))
}

/// Cargo, for which a warning about documentation is an error.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root).args(arguments).env("RUSTDOCFLAGS", "-D warnings").stdin(Stdio::null());
    command
}

/// As many jobs in parallel with a build as there are processors.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The folder for the jobs' outputs.
pub(crate) fn outputs(root: &Path) -> PathBuf {
    deps::target(root).join("checks")
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}

#[cfg(test)]
mod tests;
