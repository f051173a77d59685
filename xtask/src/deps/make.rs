//! Installation of programs that are in no Debian package, each into a separate directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{remove, run, say};

/// Unpacks nginx of Debian.
pub(super) fn nginx(_: &[PathBuf], target: &Path) -> Result<(), String> {
    unpacked(target, "nginx nginx-common", "usr/sbin/nginx -v")
}

/// Unpacks Prometheus of Debian.
pub(super) fn prometheus(_: &[PathBuf], target: &Path) -> Result<(), String> {
    unpacked(target, "prometheus", "usr/bin/promtool --version")
}

/// Unpacks Debian packages without installing them, which would start their services. `probe` is a
/// command that then works there.
fn unpacked(target: &Path, packages: &str, probe: &str) -> Result<(), String> {
    let fresh = target.with_extension("new");
    remove(&fresh)?;
    fs::create_dir(&fresh).map_err(|error| format!("{}: {error}", fresh.display()))?;
    let script = format!(
        "set -e; get() {{ apt-get download -qq {packages}; }}; get || {{ apt-get update -qq; get; }}; \
        for package in *.deb; do dpkg-deb -x \"$package\" .; done; rm ./*.deb; {probe}"
    );
    run(Command::new("sh").args(["-c", &script]).current_dir(&fresh))?;
    remove(target)?;
    fs::rename(&fresh, target).map_err(|error| format!("{}: {error}", target.display()))
}

/// Builds the tests' own Go programs, and the tools that `go.mod` lists.
pub(super) fn go(files: &[PathBuf], target: &Path) -> Result<(), String> {
    let module = files.last().and_then(|file| file.parent()).expect("go.sum comes last");
    remove(target)?;
    fs::create_dir_all(target).map_err(|error| format!("{}: {error}", target.display()))?;
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(target.join("")).args(["./...", "tool"]);
    run(build.current_dir(module))
}

/// Installs packages of Node.js.
pub(super) fn javascript(lists: &[PathBuf], target: &Path) -> Result<(), String> {
    copies(lists, target)?;
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    run(npm.current_dir(target))
}

/// Compiles the crates that the quick start in Rust uses, so that its test only compiles the
/// program.
pub(super) fn rust(lists: &[PathBuf], target: &Path) -> Result<(), String> {
    let module = target.join("module");
    copies(lists, &module)?;
    let source = module.join("src/main.rs");
    let written = fs::create_dir(module.join("src")).and_then(|()| fs::write(&source, "fn main() {}"));
    written.map_err(|error| format!("{}: {error}", source.display()))?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--locked", "--quiet", "--target-dir"]).arg(target.join("target"));
    run(cargo.current_dir(module))
}

/// Compiles a server of the protocol of S3, in the version that the list names.
pub(super) fn object_server(lists: &[PathBuf], target: &Path) -> Result<(), String> {
    let text = fs::read_to_string(&lists[0]).map_err(|error| format!("{}: {error}", lists[0].display()))?;
    let version = text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    remove(target)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["install", "--quiet", "--locked", "--profile", "dev", "--features", "binary"]);
    cargo
        .args([&format!("s3s-fs@{version}"), "--root"])
        .arg(target)
        .arg("--target-dir")
        .arg(target.join("build"));
    run(cargo.current_dir(target.parent().unwrap_or(target)))?;
    remove(&target.join("build"))
}

/// Installs a virtual environment.
pub(super) fn python(lists: &[PathBuf], target: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(target))?;
    let mut pip = Command::new(target.join("bin/pip"));
    run(pip.args(["install", "--disable-pip-version-check", "--no-input", "--quiet", "-r"]).args(lists))
}

/// Copies Kafka's jars, and archives the classes of its broker and tools.
pub(super) fn jars(lists: &[PathBuf], target: &Path) -> Result<(), String> {
    bare_jars(lists, target)?;
    class_archive(target);
    Ok(())
}

/// Unpacks the archives of a list of Maven's.
pub(super) fn registry(lists: &[PathBuf], target: &Path) -> Result<(), String> {
    let fresh = target.with_extension("new");
    remove(&fresh)?;
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--no-transfer-progress", "-f"]).args(lists);
    maven.args(["dependency:unpack-dependencies", "-DincludeScope=runtime"]);
    run(maven.arg(format!("-DoutputDirectory={}", fresh.display())))?;
    remove(target)?;
    fs::rename(&fresh, target).map_err(|error| format!("{}: {error}", target.display()))
}

/// Copies jars next to their final path and swaps them in, so that a broken download leaves none.
pub(super) fn bare_jars(lists: &[PathBuf], target: &Path) -> Result<(), String> {
    let fresh = target.with_extension("new");
    remove(&fresh)?;
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--no-transfer-progress", "-f"]).args(lists);
    maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    run(maven.arg(format!("-DoutputDirectory={}", fresh.display())))?;
    remove(target)?;
    fs::rename(&fresh, target).map_err(|error| format!("{}: {error}", target.display()))
}

/// Archives the classes of Kafka's broker and tools, so that each JVM of the tests starts in about
/// half the processor time. Without the archive the tests run as well.
fn class_archive(libs: &Path) {
    let archive = libs.with_file_name("classes.jsa");
    say(&format!("an archive of Kafka's classes into {}", archive.display()));
    let script = include_str!("class_archive.sh");
    if let Err(error) = run(Command::new("sh").args(["-c", script, "sh"]).args([libs, &archive])) {
        say(&format!("no archive of Kafka's classes: {error}"));
    }
}

/// Compiles the tests' Java programs.
pub(super) fn java(sources: &[PathBuf], target: &Path) -> Result<(), String> {
    compiled(sources, &super::cache()?.join("kafka/libs"), target)
}

/// Compiles the classes that replace Kafka's in Kafka's own tests.
pub(super) fn kafka_requests(sources: &[PathBuf], target: &Path) -> Result<(), String> {
    compiled(sources, &super::cache()?.join("kafka-requests/libs"), target)
}

/// Compiles the program that starts the image with Testcontainers.
pub(super) fn testcontainers(sources: &[PathBuf], target: &Path) -> Result<(), String> {
    compiled(sources, &super::cache()?.join("testcontainers/libs"), target)
}

fn compiled(sources: &[PathBuf], libs: &Path, target: &Path) -> Result<(), String> {
    remove(target)?;
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:all,-classfile", "-Werror", "-proc:none", "-cp"]).arg(libs.join("*"));
    run(javac.arg("-d").arg(target).args(sources))
}

/// Copies files into a directory that then contains nothing else.
fn copies(files: &[PathBuf], target: &Path) -> Result<(), String> {
    remove(target)?;
    fs::create_dir_all(target).map_err(|error| format!("{}: {error}", target.display()))?;
    for file in files {
        let name = file.file_name().expect("a file has a name");
        fs::copy(file, target.join(name)).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// The files of a folder that end so, in order.
pub(super) fn sources(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    paths.sort();
    Ok(paths)
}
