//! Test binaries that Cargo has built, read from its messages.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The kind of target whose tests a binary holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unit tests of a library.
    Lib,
    /// Unit tests of a program.
    Bin,
    /// A file of a package's `tests`.
    Test,
}

/// A test binary and the directory in which Cargo would run it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestBinary {
    pub(crate) package: String,
    pub(crate) target: String,
    pub(crate) kind: Kind,
    /// The folder of the package's manifest.
    pub(crate) folder: PathBuf,
    pub(crate) executable: PathBuf,
}

/// Reads the output of `cargo test --no-run --message-format=json`; an error if it names no test
/// binary.
pub(crate) fn binaries(output: &str) -> Result<Vec<TestBinary>, String> {
    let messages = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found: Vec<TestBinary> = messages.filter_map(|message| binary(&message)).collect();
    if found.is_empty() { Err("cargo names no test binary".to_owned()) } else { Ok(found) }
}

fn binary(message: &Value) -> Option<TestBinary> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let executable = message["executable"].as_str().filter(|_| is_test)?;
    let target = &message["target"];
    let kind = match target["kind"][0].as_str()? {
        "test" => Kind::Test,
        "bin" => Kind::Bin,
        _ => Kind::Lib,
    };
    Some(TestBinary {
        package: package(message["package_id"].as_str()?)?.to_owned(),
        target: target["name"].as_str()?.to_owned(),
        kind,
        folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        executable: executable.into(),
    })
}

/// `path+file:///levada/crates/io#levada-io@0.1.0` → `levada-io`; where the folder has the
/// package's name, Cargo leaves it out after the `#`.
fn package(id: &str) -> Option<&str> {
    let (place, version) = id.rsplit_once('#')?;
    match version.split_once('@') {
        Some((name, _)) => Some(name),
        None => place.rsplit('/').next(),
    }
}

#[cfg(test)]
mod tests;
