//! Documentation without a separate build: rustdoc reads the artifacts that the build of the tests
//! has made, with the arguments that Cargo gave to the compiler. `cargo doc` would check all
//! dependencies again first.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::lints;

/// Options of the compiler that rustdoc takes in the same form, with a value as the next word.
const KEPT: [&str; 7] =
    ["--crate-name", "--crate-type", "--cfg", "--check-cfg", "-L", "--extern", "--edition"];

/// Documents each library and program of the workspace, private items included, and fails at the
/// end if rustdoc has warned about one. The pages are in `target/checks/documentation`.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let notes = lints::compilations(root);
    let mut failed = Vec::new();
    for name in targets(root)? {
        let status = rustdoc(root, &notes, &name)?.status();
        if !status.map_err(|error| format!("rustdoc: {error}"))?.success() {
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("rustdoc failed for {}", failed.join(", "))) }
}

/// Crate names of the workspace's libraries and programs.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let mut cargo = super::cargo(root, &["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let said = cargo.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Value =
        serde_json::from_slice(&said.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let all = metadata["packages"].as_array().into_iter().flatten();
    let all = all.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let documented = all.filter(|target| matches!(target["kind"][0].as_str(), Some("lib" | "bin")));
    let names: Vec<String> =
        documented.filter_map(|target| Some(target["name"].as_str()?.replace('-', "_"))).collect();
    if names.is_empty() { Err("cargo metadata names no library".to_owned()) } else { Ok(names) }
}

/// Runs rustdoc for a crate, with the noted arguments of its compilation. A library that only its
/// own tests use was compiled with them.
fn rustdoc(root: &Path, notes: &Path, name: &str) -> Result<Command, String> {
    let plain = notes.join(name);
    let stem =
        if extended(&plain, ".arguments").exists() { plain } else { notes.join(format!("{name}.test")) };
    let read = |end: &str| {
        let path = extended(&stem, end);
        let again = "build again in an empty target directory";
        fs::read(&path).map(words).map_err(|error| format!("{}: {error}; {again}", path.display()))
    };
    let mut command = Command::new(lints::beside_cargo("rustdoc"));
    command.current_dir(root).env_clear().envs(read(".environment")?.iter().filter_map(variable));
    let output = super::outputs(root).join("documentation");
    command.args(arguments(read(".arguments")?)).arg("--out-dir").arg(output);
    command.args(["--document-private-items", "-D", "warnings"]).stdin(Stdio::null());
    Ok(command)
}

fn extended(stem: &Path, end: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// Words that end with a zero byte each.
fn words(bytes: Vec<u8>) -> Vec<OsString> {
    let whole = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    whole.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// A variable of the noted environment; Cargo's offer of processors ended with its build.
fn variable(word: &OsString) -> Option<(String, String)> {
    let (name, value) = word.to_str()?.split_once('=')?;
    (!name.ends_with("MAKEFLAGS")).then(|| (name.to_owned(), value.to_owned()))
}

/// The compiler's arguments that rustdoc needs: options of [`KEPT`] and the source file.
fn arguments(compiled: Vec<OsString>) -> Vec<OsString> {
    // The first word is the compiler.
    let mut words = compiled.into_iter().skip(1);
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if KEPT.contains(&text.as_ref()) {
            kept.push(word);
            kept.extend(words.next());
        } else if text.ends_with(".rs") || KEPT.iter().any(|option| text.starts_with(&format!("{option}="))) {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{arguments, words};

    #[test]
    fn rustdoc_takes_source_and_dependencies_only() {
        let compiled = "rustc\0--crate-name\0levada_log\0--edition=2024\0src/lib.rs\0--error-format=json\0\
                        --crate-type\0lib\0--emit=dep-info,link\0-C\0opt-level=1\0--test\0\
                        --warn=clippy::all\0-L\0dependency=deps\0--extern\0bytes=libbytes.rlib\0";
        let kept = arguments(words(compiled.as_bytes().to_vec()));
        let expected = "--crate-name levada_log --edition=2024 src/lib.rs --crate-type lib \
                        -L dependency=deps --extern bytes=libbytes.rlib";
        assert_eq!(kept, expected.split(' ').map(OsString::from).collect::<Vec<_>>());
    }
}
