//! Everything that must hold before a change lands, as a list of jobs that run side by side. The
//! short tier runs before each commit; the long tier contains it.

mod binaries;
mod black_box;
mod budget;
mod catalogue;
mod documentation;
mod lints;
mod parts;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::catalogue::Suite;
use self::parts::Part;
use crate::deps;
use crate::job::{self, Company, Job};

pub(crate) use binaries::{Kind, TestBinary, binaries};
pub(crate) use black_box::run as black_box;
pub(crate) use documentation::run as documentation;
pub(crate) use lints::run as lints;

const TESTS_BUILT: &str = "build of the tests";
pub(crate) const RELEASE_BUILT: &str = "release build";
pub(crate) const CLIENTS: &str = "test clients";
const PACKAGES: &str = "packages";
const IMAGE: &str = "starts of the image";

/// The package of the black-box suites.
const SUITES: &str = "levada-tests";

/// Share of their full sizes at which randomised tests run in the short tier.
const SHORT_SCALE: &str = "0.3";

/// Has Cargo name the binaries that it builds.
pub(crate) const MESSAGES: &str = "--message-format=json-render-diagnostics";

/// Builds the tests of all packages and, with the same compiled dependencies, the binary of the dev
/// profile. A narrower selection of packages would compile some of them with other features.
const BUILD: [&str; 6] = ["build", "--locked", "--workspace", "--bins", "--tests", MESSAGES];

/// The tests of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// False for the short tier.
    is_all: bool,
    part: Part,
}

/// Runs the checks of a tier. Continues after a failure, so that one run shows all of them.
pub(crate) fn test(root: &Path, arguments: &[String]) -> Result<(), String> {
    let extent = extent(arguments)?;
    let mut suites = catalogue::suites(root)?;
    suites.retain(|suite| suite.belongs_to(extent.is_all));
    let suites = extent.part.take(suites, |suite| (suite.name.clone(), suite.head.seconds));
    let others = extent.part.take(others(root, extent)?, weight);
    let uses: Vec<Use> = others.iter().flat_map(|job| uses(job.name())).collect();
    let mut jobs = vec![clients(root, &suites, &uses)?];
    if !uses.is_empty() || suites.iter().any(|suite| !suite.is_short()) {
        jobs.push(release_build(root));
    }
    jobs.insert(0, tests_build(root, extent, suites));
    jobs.extend(others);
    if extent.is_all {
        budget::check(root)?.iter().for_each(|share| println!("{share}"));
    }
    job::run(jobs, processors(), &outputs(root))
}

/// Reads the arguments of `cargo xtask test`: none, or `--all` with `--part K/N` or without.
fn extent(arguments: &[String]) -> Result<Extent, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => Ok(Extent { is_all: false, part: Part::WHOLE }),
        ["--all"] => Ok(Extent { is_all: true, part: Part::WHOLE }),
        ["--all", "--part", text] => {
            let part =
                Part::parse(text).ok_or_else(|| format!("--part {text}: a part is a text such as 2/3"))?;
            Ok(Extent { is_all: true, part })
        }
        _ => Err("test takes --all, and with it --part K/N, or --suites [NAME]...".to_owned()),
    }
}

/// The jobs of a run that follow from no build.
fn others(root: &Path, extent: Extent) -> Result<Vec<Job>, String> {
    let mut jobs = vec![format(root), own(root, "dependencies", "deny")?];
    if !extent.is_all {
        return Ok(jobs);
    }
    let doc_tests = ["test", "--locked", "--workspace", "--doc"];
    jobs.extend([packages(root)?, image(root)?]);
    if deps::can_install_vm() {
        jobs.push(
            lints::with_compiler(root, own(root, "virtual machine", "vm")?).after(&[TESTS_BUILT, CLIENTS]),
        );
    } else {
        println!("virtual machine: left out, because qemu or Debian's kernel cannot be installed here");
    }
    jobs.extend([
        lints::with_compiler(root, cargo_job(root, Company::Build, "documentation tests", &doc_tests))
            .after(&[TESTS_BUILT]),
        own(root, "lints", "lints")?.after(&[TESTS_BUILT]),
        own(root, "documentation", "documentation")?.after(&[TESTS_BUILT]),
    ]);
    Ok(jobs)
}

/// The check of the format of all files that git tracks: `cargo fmt` does not find the modules that
/// macros declare.
fn format(root: &Path) -> Job {
    let check = "git ls-files -z '*.rs' | xargs -0 rustfmt --edition 2024 --check";
    let mut shell = Command::new("sh");
    shell.current_dir(root).args(["-c", check]).stdin(Stdio::null());
    Job::new("format", Company::Shared, shell, check.replace(" --check", ""))
}

/// Name and expected seconds of a job that is no suite.
fn weight(job: &Job) -> (String, u64) {
    (job.name().to_owned(), parts::seconds(job.name()))
}

/// Name of a job that is no suite, and a program that it needs.
type Use = (&'static str, &'static str);

/// Programs that the job of a name needs.
fn uses(job: &str) -> impl Iterator<Item = Use> {
    let all = [(PACKAGES, deps::INSPECTION), (IMAGE, deps::INSPECTION), (IMAGE, deps::TESTCONTAINERS)];
    all.into_iter().filter(move |(name, _)| *name == job)
}

/// The job that installs what these suites and other jobs need or use. Prints first what is
/// missing.
fn clients(root: &Path, suites: &[Suite], others: &[Use]) -> Result<Job, String> {
    let of_suites = suites.iter().flat_map(|suite| suite.programs().map(|name| (suite.name.as_str(), name)));
    let uses: Vec<(&str, &str)> = of_suites.chain(others.iter().copied()).collect();
    let programs: BTreeSet<&str> = uses.iter().map(|(_, program)| *program).collect();
    deps::announce(root, &programs, |program| {
        uses.iter().filter(|(_, used)| *used == program).map(|(user, _)| *user).collect()
    })?;
    let words: Vec<&OsStr> = ["deps", "--keep-going"].iter().chain(&programs).map(OsStr::new).collect();
    Ok(own_words(root, CLIENTS, &words)?.narrated())
}

/// The tests of foreign clients, against Levada and a real Kafka. `LEVADA_BIN` names a binary to
/// use unchanged.
pub(crate) fn foreign(root: &Path, names: &[String]) -> Result<(), String> {
    deps::install_suites(root)?;
    execute(&mut release_command(root))?;
    let suites = ["run", "--quiet", "--package", SUITES, "--bin", "suites", "--"];
    execute(cargo(root, &suites).args(names))
}

/// Builds the tests; a job for each test binary and for each suite of the part follows from it.
fn tests_build(root: &Path, extent: Extent, suites: Vec<Suite>) -> Job {
    let folder = root.to_owned();
    let follow = move |output: &str| {
        let (folders, units): (Vec<_>, Vec<_>) =
            binaries(output)?.into_iter().partition(black_box::is_folder);
        let units: Vec<Job> = units.iter().map(|binary| unit_tests(binary, extent)).collect();
        let mut jobs = extent.part.take(units, weight);
        jobs.extend(black_box::jobs(&folder, &folders, &suites, extent)?);
        Ok(jobs)
    };
    let build = cargo_job(root, Company::Build, TESTS_BUILT, &BUILD).then(Box::new(follow));
    if extent.is_all { lints::with_compiler(root, build) } else { build }
}

/// The job that runs a binary of unit tests as Cargo would.
fn unit_tests(binary: &TestBinary, extent: Extent) -> Job {
    let TestBinary { package, target, kind, .. } = binary;
    let (name, option) = match kind {
        Kind::Lib => (package.clone(), "--lib".to_owned()),
        Kind::Bin => (format!("{package}: {target}, unit tests"), format!("--bin {target}")),
        Kind::Test => (format!("{package}: {target}"), format!("--test {target}")),
    };
    let again = format!("cargo test --package {package} {option} --");
    Job::new(name, Company::Shared, scaled(command_of(binary), extent), again)
}

/// The command, at the size of the tier unless the user has set another.
fn scaled(mut command: Command, extent: Extent) -> Command {
    if !extent.is_all && std::env::var_os(SCALE).is_none() {
        command.env(SCALE, SHORT_SCALE);
    }
    command
}

/// The factor by which randomised tests change their sizes.
const SCALE: &str = "LEVADA_TEST_SCALE";

/// A test binary as Cargo runs it.
pub(crate) fn command_of(binary: &TestBinary) -> Command {
    let mut command = Command::new(&binary.executable);
    command.current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
    command
}

/// Builds the packages of the binary under test and checks their contents.
fn packages(root: &Path) -> Result<Job, String> {
    let binary = binary(root, "release");
    let task = ["dist".as_ref(), "--binary".as_ref(), binary.as_os_str()];
    Ok(own_words(root, PACKAGES, &task)?.after(&[RELEASE_BUILT, CLIENTS]))
}

/// Makes the image of the binary under test, and starts it as test suites and compose files do.
fn image(root: &Path) -> Result<Job, String> {
    let binary = binary(root, "release");
    let task = ["dist".as_ref(), "--binary".as_ref(), binary.as_os_str(), "--starts".as_ref(), "1".as_ref()];
    let folder = root.to_owned();
    let programs = uses(IMAGE).map(|(_, program)| program);
    let check = move || deps::check_namespaces().and_then(|()| deps::check(&folder, programs));
    let job = own_words(root, IMAGE, &task)?.after(&[RELEASE_BUILT, CLIENTS]);
    Ok(job.if_ready(Box::new(check)))
}

/// The binary under test: `LEVADA_BIN`, or that of a profile's folder.
fn binary(root: &Path, folder: &str) -> PathBuf {
    let given = std::env::var_os("LEVADA_BIN").map(PathBuf::from);
    given.unwrap_or_else(|| deps::target(root).join(folder).join("levada"))
}

pub(crate) fn release_build(root: &Path) -> Job {
    let again = "cargo build --release".to_owned();
    Job::new(RELEASE_BUILT, Company::Build, release_command(root), again)
}

/// Builds the binary under test and the laboratory, unless `LEVADA_BIN` names one.
fn release_command(root: &Path) -> Command {
    match std::env::var_os("LEVADA_BIN") {
        None => cargo(root, &["build", "--locked", "--release"]),
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

fn execute(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}

#[cfg(test)]
mod tests;
