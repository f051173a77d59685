//! Installs what the black-box tests run: Debian packages, Python virtual environments, packages of
//! Node.js and of Rust, nginx, Prometheus, Java jars, and the tests' own programs in Java and Go.
//!
//! The head of a suite names the programs that it needs; [`program`] has the list. Downloads land
//! in one cache directory outside the repository, each stamped with a hash of the files that list
//! it, so a second run neither installs anything nor needs a network. Compiled clients land in the
//! target directory, stamped in the same way.

mod cross;
mod foreign;
mod make;
mod vm;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

pub(crate) use cross::install_cross;
pub(crate) use foreign::install_suites;
pub(crate) use vm::{can_install_vm, install_newer_kernel, install_vm};

/// The programs that inspect packages.
pub(crate) const INSPECTION: &str = "packages";

/// Testcontainers for Java, and the program that starts the image with it.
pub(crate) const TESTCONTAINERS: &str = "testcontainers";

/// Options of `unshare` for the processes of the container image.
pub(crate) const NAMESPACES: [&str; 7] =
    ["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A command that must work, and the Debian package that contains it.
struct Tool {
    probe: &'static [&'static str],
    package: &'static str,
}

const AB: Tool = Tool { probe: &["ab", "-V"], package: "apache2-utils" };
const ARIA2: Tool = Tool { probe: &["aria2c", "--version"], package: "aria2" };
const CHROMIUM: Tool = Tool { probe: &["chromium", "--version"], package: "chromium" };
const CURL: Tool = Tool { probe: &["curl", "--version"], package: "curl" };
const JAVAC: Tool = Tool { probe: &["javac", "-version"], package: "default-jdk-headless" };
const KCAT: Tool = Tool { probe: &["kcat", "-V"], package: "kcat" };
const MAVEN: Tool = Tool { probe: &["mvn", "--version"], package: "maven" };
const PYTHON: Tool = Tool { probe: &["python3", "--version"], package: "python3" };
const RCLONE: Tool = Tool { probe: &["rclone", "version"], package: "rclone" };
const STRACE: Tool = Tool { probe: &["strace", "-V"], package: "strace" };
const VENV: Tool = Tool { probe: &["python3", "-c", "import ensurepip, venv"], package: "python3-venv" };
const WGET: Tool = Tool { probe: &["wget", "--version"], package: "wget" };
const GO: Tool = Tool { probe: &["go", "version"], package: "" };
const NODE: Tool = Tool { probe: &["node", "--version"], package: "" };
const NPM: Tool = Tool { probe: &["npm", "--version"], package: "" };

/// Tools that inspect packages.
const INSPECTION_TOOLS: [Tool; 5] = [
    Tool { probe: &["dpkg-deb", "--version"], package: "dpkg" },
    Tool { probe: &["dpkg-parsechangelog", "--version"], package: "dpkg-dev" },
    Tool { probe: &["rpm", "--version"], package: "rpm" },
    Tool { probe: &["skopeo", "--version"], package: "skopeo" },
    Tool { probe: &["systemd-analyze", "--version"], package: "systemd" },
];

/// Tools that boot a Debian to try packages in.
const CONTAINER_TOOLS: [Tool; 2] = [
    Tool { probe: &["debootstrap", "--version"], package: "debootstrap" },
    Tool { probe: &["systemd-nspawn", "--version"], package: "systemd-container" },
];

/// A need that the head of a suite may name.
struct Program {
    /// Commands that tests run.
    tools: Vec<Tool>,
    made: Vec<Made>,
}

/// A directory that is filled by other means than a Debian package.
struct Made {
    target: PathBuf,
    /// Files that determine the content.
    lists: Vec<PathBuf>,
    /// Commands that only the installation runs.
    tools: Vec<Tool>,
    make: fn(&[PathBuf], &Path) -> Result<(), String>,
}

/// The jars of the next Kafka.
pub(crate) const NEWER_KAFKA: &str = "newer-kafka";

/// Every name that [`program`] accepts.
const NAMES: [&str; 24] = [
    "ab",
    "aria2c",
    "chromium",
    "curl",
    "go",
    "http",
    "java",
    "kafka-requests",
    "kcat",
    "kubernetes",
    NEWER_KAFKA,
    "nginx",
    "node",
    "packages",
    "prometheus",
    "python",
    "rclone",
    "rust",
    "s3",
    "schemas",
    "strace",
    TESTCONTAINERS,
    "tiers",
    "wget",
];

/// The program with this name. An error names the existing ones.
fn program(root: &Path, name: &str) -> Result<Program, String> {
    let (cache, tests) = (cache()?, root.join("tests"));
    let made = Made::new;
    let venv = |to: &str, list: &str| made(cache.join(to), &[tests.join(list)], vec![VENV], make::python);
    let (tools, made) = match name {
        "ab" => (vec![AB], vec![]),
        "aria2c" => (vec![ARIA2], vec![]),
        "chromium" => (vec![CHROMIUM], vec![]),
        "curl" => (vec![CURL], vec![]),
        "kcat" => (vec![KCAT], vec![]),
        "rclone" => (vec![RCLONE], vec![]),
        "strace" => (vec![STRACE], vec![]),
        "wget" => (vec![WGET], vec![]),
        INSPECTION => (INSPECTION_TOOLS.into(), vec![]),
        "python" => (vec![], vec![venv("python", "requirements.txt")]),
        "http" => (vec![], vec![venv("http", "http/requirements.txt")]),
        "kubernetes" => (vec![], vec![venv("kubernetes", "kubernetes/requirements.txt")]),
        "schemas" => {
            let list = [tests.join("schemas/pom.xml")];
            let registry = made(cache.join("schemas/registry"), &list, vec![MAVEN], make::registry);
            (vec![], vec![venv("schemas/python", "schemas/requirements.txt"), registry])
        }
        "nginx" => (vec![], vec![made(cache.join("nginx"), &[], vec![], make::nginx)]),
        "prometheus" => (vec![], vec![made(cache.join("prometheus"), &[], vec![], make::prometheus)]),
        "java" => {
            let jars = made(cache.join("kafka/libs"), &[tests.join("pom.xml")], vec![MAVEN], make::jars);
            let sources = make::sources(&tests.join("java"), "java")?;
            (vec![JAVAC], vec![jars, made(target(root).join("test-java"), &sources, vec![], make::java)])
        }
        "kafka-requests" => {
            let list = [tests.join("kafka-requests/pom.xml")];
            let libs = made(cache.join("kafka-requests/libs"), &list, vec![MAVEN], make::jars);
            let mut sources = Vec::new();
            for name in ["kafka/server", "levada/requests"] {
                sources.extend(make::sources(&tests.join("kafka-requests").join(name), "java")?);
            }
            let classes = target(root).join("test-kafka-requests");
            (vec![JAVAC], vec![libs, made(classes, &sources, vec![], make::kafka_requests)])
        }
        TESTCONTAINERS => (vec![JAVAC, PYTHON], testcontainers(root)?.into()),
        NEWER_KAFKA | "tiers" => {
            let list = tests.join(name).join("pom.xml");
            let make = if name == NEWER_KAFKA { make::jars } else { make::bare_jars };
            (vec![], vec![made(cache.join(name).join("libs"), &[list], vec![MAVEN], make)])
        }
        "go" => {
            let mut files = make::sources(&tests.join("go/connect_matrix"), "go")?;
            files.extend(["go/go.mod", "go/go.sum"].map(|name| tests.join(name)));
            (vec![], vec![made(target(root).join("test-go"), &files, vec![GO], make::go)])
        }
        "node" => {
            let lists = ["package.json", "package-lock.json"].map(|name| tests.join("javascript").join(name));
            (vec![NODE], vec![made(cache.join("javascript"), &lists, vec![NPM], make::javascript)])
        }
        "rust" => {
            let lists = ["Cargo.toml", "Cargo.lock"].map(|name| tests.join("rust").join(name));
            (vec![], vec![made(cache.join("rust"), &lists, vec![], make::rust)])
        }
        "s3" => {
            let list = tests.join("s3/version.txt");
            (vec![], vec![made(cache.join("s3"), &[list], vec![], make::object_server)])
        }
        _ => return Err(format!("no program is called {name}; there are {}", NAMES.join(", "))),
    };
    Ok(Program { tools, made })
}

/// The jars of Testcontainers, and the program that starts the image with them.
fn testcontainers(root: &Path) -> Result<[Made; 2], String> {
    let folder = root.join("tests/testcontainers");
    let libs = cache()?.join("testcontainers/libs");
    let sources = make::sources(&folder, "java")?;
    let classes = target(root).join("test-testcontainers");
    Ok([
        Made::new(libs, &[folder.join("pom.xml")], vec![MAVEN], make::bare_jars),
        Made::new(classes, &sources, vec![], make::testcontainers),
    ])
}

impl Program {
    /// Tools of Debian's that are missing.
    fn missing(&self) -> impl Iterator<Item = &Tool> {
        let made = self.made.iter().filter(|made| !made.is_current());
        self.tools.iter().chain(made.flat_map(|made| &made.tools)).filter(|tool| !works(tool.probe))
    }

    /// Installs the parts that are in no Debian package.
    fn complete(&self) -> Result<(), String> {
        if let Some(tool) = self.missing().next() {
            return Err(format!("`{}` does not work", tool.probe.join(" ")));
        }
        self.made.iter().try_for_each(|made| stamped(&made.lists, &made.target, made.make))
    }

    /// True if a test can run the program.
    fn is_there(&self) -> bool {
        self.made.iter().all(Made::is_current) && self.missing().next().is_none()
    }

    /// The parts that an installation would add, as text.
    fn parts(&self) -> Vec<String> {
        let packages = self.missing().filter(|tool| !tool.package.is_empty());
        let packages = packages.map(|tool| format!("Debian's {}", tool.package));
        let made = self.made.iter().filter(|made| !made.is_current());
        packages.chain(made.map(|made| made.target.display().to_string())).collect()
    }
}

impl Made {
    fn new(
        target: PathBuf,
        lists: &[PathBuf],
        tools: Vec<Tool>,
        make: fn(&[PathBuf], &Path) -> Result<(), String>,
    ) -> Self {
        Self { target, lists: lists.to_vec(), tools, make }
    }

    fn is_current(&self) -> bool {
        stamp(&self.lists).is_ok_and(|stamp| is_stamped(&self.target, &stamp))
    }
}

/// `cargo xtask deps [--keep-going] [NAME]...`: installs these programs, or all of them. With
/// `--keep-going` a program that cannot be installed is no failure unless `CI` is `true`.
pub(crate) fn run_command(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (keeps_going, names) = match arguments {
        [first, rest @ ..] if first == "--keep-going" => (true, rest),
        all => (false, all),
    };
    let names: BTreeSet<&str> = match names {
        [] if !keeps_going => NAMES.into(),
        some => some.iter().map(String::as_str).collect(),
    };
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    install(root, &names).or_else(|error| {
        if keeps_going && !is_ci {
            println!("{error}");
            return Ok(());
        }
        Err(error)
    })
}

/// Installs these programs; skips those that are present. An error names each that could not be
/// installed, after the others have been.
pub(crate) fn install(root: &Path, names: &BTreeSet<&str>) -> Result<(), String> {
    let cache = cache()?;
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let programs: Vec<(&str, Program)> =
        names.iter().map(|name| Ok((*name, program(root, name)?))).collect::<Result<_, String>>()?;
    let missing: Vec<(&str, Program)> =
        programs.into_iter().filter(|(_, program)| !program.is_there()).collect();
    let debian = packages(missing.iter().flat_map(|(_, program)| program.missing())).err();
    let mut failed: Vec<String> = Vec::new();
    for (index, (name, program)) in missing.iter().enumerate() {
        let parts = program.parts();
        if !parts.is_empty() {
            say(&format!("[{} of {}] {name}: {}", index + 1, missing.len(), parts.join(", ")));
        }
        if let Err(error) = program.complete() {
            failed.push(format!("{name} could not be installed: {error}"));
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(debian.into_iter().chain(failed).collect::<Vec<_>>().join("\n"))
    }
}

/// Prints which of these programs are missing, their parts, and the suites that use them.
pub(crate) fn announce<'a>(
    root: &Path,
    names: &BTreeSet<&'a str>,
    users: impl Fn(&'a str) -> Vec<&'a str>,
) -> Result<(), String> {
    for name in names {
        let program = program(root, name)?;
        if !program.is_there() {
            let parts = program.parts().join(", ");
            println!("to be installed once: {name} ({parts}), for {}", users(name).join(", "));
        }
    }
    Ok(())
}

/// Names the first of these programs that is still missing after the installation.
pub(crate) fn check<'a>(root: &Path, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    /// Results of earlier checks: some of the commands take a second.
    static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    for name in names {
        let known = KNOWN.lock().expect("no panic").get(name).copied();
        let is_there = match known {
            Some(is_there) => is_there,
            None => program(root, name)?.is_there(),
        };
        KNOWN.lock().expect("no panic").insert(name.to_owned(), is_there);
        if !is_there {
            return Err(format!("{name} is not installed: cargo xtask deps {name}"));
        }
    }
    Ok(())
}

/// Returns the reason if the container image cannot be started on this machine.
pub(crate) fn check_namespaces() -> Result<(), String> {
    let probe = [&["unshare"][..], &NAMESPACES, &["true"]].concat();
    let is_root = rustix::process::geteuid().is_root();
    if is_root && works(&probe) {
        Ok(())
    } else {
        Err(format!("`{}` does not work, which needs root", probe.join(" ")))
    }
}

/// Cargo's directory for build results.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Directory of the clients: `$LEVADA_TEST_CACHE`, or `~/.cache/levada-test`.
fn cache() -> Result<PathBuf, String> {
    if let Some(cache) = std::env::var_os("LEVADA_TEST_CACHE") {
        return Ok(cache.into());
    }
    let home = std::env::var_os("HOME").ok_or("HOME is not set: set LEVADA_TEST_CACHE to a directory")?;
    Ok(Path::new(&home).join(".cache/levada-test"))
}

/// Class path of the program that starts the image with Testcontainers.
pub(crate) fn testcontainers_path(root: &Path) -> Result<String, String> {
    let [libs, classes] = testcontainers(root)?;
    Ok(format!("{}/*:{}", libs.target.display(), classes.target.display()))
}

/// Installs the tools that inspect packages.
pub(crate) fn install_inspection() -> Result<(), String> {
    packages(INSPECTION_TOOLS.iter())
}

/// Installs the tools that try packages. Returns the path in the cache of the Debian to try them
/// in.
pub(crate) fn install_container() -> Result<PathBuf, String> {
    packages(CONTAINER_TOOLS.iter())?;
    Ok(cache()?.join("debian"))
}

/// Installs the packages of those tools that do not work.
fn packages<'a>(tools: impl Iterator<Item = &'a Tool>) -> Result<(), String> {
    let missing: Vec<&Tool> = tools.filter(|tool| !tool.package.is_empty() && !works(tool.probe)).collect();
    let names: BTreeSet<&str> = missing.iter().map(|tool| tool.package).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(format!("the tests need some Debian packages: sudo apt-get install {}", names.join(" ")));
    }
    say(&format!("apt-get install {}", names.join(" ")));
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&names);
    run(apt.env("DEBIAN_FRONTEND", "noninteractive"))?;
    match missing.iter().find(|tool| !works(tool.probe)) {
        None => Ok(()),
        Some(tool) => {
            Err(format!("`{}` still fails after {} was installed", tool.probe.join(" "), tool.package))
        }
    }
}

fn works(probe: &[&str]) -> bool {
    let mut command = Command::new(probe[0]);
    command.args(&probe[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs `install` unless the stamp next to `target` shows that it has run for the present content
/// of `lists`.
fn stamped(
    lists: &[PathBuf],
    target: &Path,
    install: impl FnOnce(&[PathBuf], &Path) -> Result<(), String>,
) -> Result<(), String> {
    let stamp = stamp(lists)?;
    if is_stamped(target, &stamp) {
        return Ok(());
    }
    install(lists, target)?;
    let file = target.with_extension("stamp");
    fs::write(&file, stamp).map_err(|error| format!("{}: {error}", file.display()))
}

/// A hash of the content of files.
fn stamp(lists: &[PathBuf]) -> Result<String, String> {
    let mut hasher = DefaultHasher::new();
    for list in lists {
        let content = fs::read(list).map_err(|error| format!("{}: {error}", list.display()))?;
        content.hash(&mut hasher);
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

fn is_stamped(target: &Path, stamp: &str) -> bool {
    target.exists() && fs::read_to_string(target.with_extension("stamp")).is_ok_and(|old| old == stamp)
}

fn remove(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", directory.display()))
        }
        _ => Ok(()),
    }
}

fn say(what: &str) {
    eprintln!("    installing: {what}");
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed: {status}")) }
}

#[cfg(test)]
mod tests;
