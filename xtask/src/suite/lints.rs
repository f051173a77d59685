//! Lints without a separate build: `cargo xtask test --all` builds the tests with the compiler of
//! Clippy, which warns while it compiles, and the job "lints" has Cargo repeat these warnings.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::deps;
use crate::job::Job;

/// Variable that names the compiler of the workspace's packages; `cargo clippy` sets it too.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// The script that compiles with Clippy's compiler. Cargo includes its path in the names of all
/// artifacts.
const COMPILER: &str = "xtask/src/suite/compiler.sh";

/// The job, whose Cargo takes Clippy's compiler.
pub(super) fn with_compiler(root: &Path, job: Job) -> Job {
    variables(root).into_iter().fold(job, |job, (name, value)| job.setting(name, value))
}

/// The variables that make Cargo compile with Clippy's compiler.
fn variables(root: &Path) -> [(&'static str, OsString); 3] {
    [
        (WRAPPER, root.join(COMPILER).into()),
        ("CLIPPY_DRIVER", beside_cargo("clippy-driver")),
        ("LEVADA_COMPILATIONS", compilations(root).into()),
    ]
}

/// The folder in which the compiler notes its arguments.
pub(super) fn compilations(root: &Path) -> PathBuf {
    deps::target(root).join("compilations")
}

/// A program of the toolchain whose Cargo runs this program.
pub(super) fn beside_cargo(name: &str) -> OsString {
    let beside = std::env::var_os("CARGO").map(|cargo| PathBuf::from(cargo).with_file_name(name));
    beside.filter(|path| path.exists()).map_or(name.into(), PathBuf::into_os_string)
}

/// Builds the tests, which costs nothing when they are built, and fails if the compiler has warned.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let mut build = super::cargo(root, &["build", "--locked", "--workspace", "--bins", "--tests"]);
    build.arg("--message-format=json").envs(variables(root)).stderr(Stdio::inherit());
    let built = build.output().map_err(|error| format!("cargo: {error}"))?;
    let warnings = warnings(&String::from_utf8_lossy(&built.stdout));
    warnings.iter().for_each(|warning| println!("{warning}"));
    match warnings.len() {
        0 if built.status.success() => Ok(()),
        0 => Err(format!("cargo build: {}", built.status)),
        count => Err(format!("{count} lints: the first is\n{}", warnings.first().expect("one"))),
    }
}

/// The warnings, each once: a library is compiled with its tests and without.
fn warnings(output: &str) -> BTreeSet<String> {
    let messages = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let said = messages.filter(|message| message["reason"] == "compiler-message");
    // Summaries such as "3 warnings emitted" have no place in a file.
    let placed =
        said.filter(|message| message["message"]["spans"].as_array().is_some_and(|spans| !spans.is_empty()));
    placed.filter_map(|message| message["message"]["rendered"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::warnings;

    #[test]
    fn library_and_test_warning_counts_once() {
        let warning =
            r#"{"reason":"compiler-message","message":{"rendered":"warning: unused","spans":[{}]}}"#;
        let summary =
            r#"{"reason":"compiler-message","message":{"rendered":"1 warning emitted","spans":[]}}"#;
        let artifact = r#"{"reason":"compiler-artifact"}"#;
        let output = [warning, artifact, warning, summary].join("\n");
        assert_eq!(warnings(&output).into_iter().collect::<Vec<_>>(), ["warning: unused"]);
        assert!(warnings(artifact).is_empty());
    }
}
