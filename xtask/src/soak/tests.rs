//! Arguments, and the list of long tests.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{Kind, LONG, MINUTES, TestBinary, parse, targets};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn minutes_and_names_are_understood() {
    let parsed = |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(parsed(""), Ok((MINUTES, Vec::new())));
    assert_eq!(parsed("--minutes 3 fuzz crash"), Ok((3, vec!["fuzz".to_owned(), "crash".to_owned()])));
    for wrong in ["--minutes", "--minutes x", "--minutes 0", "--hours 1"] {
        assert!(parsed(wrong).is_err(), "{wrong}");
    }
}

/// A test under another name would be left out without a word.
#[test]
fn long_tests_exist() {
    let names = LONG.map(|long| long.name());
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{name} is there twice");
    }
    for long in &LONG {
        let folder = match long.package {
            "levada-tests" => "tests".to_owned(),
            other => other.replace("levada-", "crates/"),
        };
        let tests = root().join(folder).join("tests");
        let is_there = long.target.starts_with("levada_")
            || [format!("{}.rs", long.target), format!("{}/main.rs", long.target)]
                .iter()
                .any(|file| tests.join(file).exists());
        assert!(is_there, "{} has no tests called {}", long.package, long.target);
        let (variable, _) = long.setting;
        assert!(
            reads(&root().join("crates"), variable) || reads(&root().join("tests"), variable),
            "nothing reads {variable}"
        );
    }
}

/// True if a Rust file below a folder has this text.
fn reads(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            reads(&path, text)
        } else {
            path.extension().is_some_and(|end| end == "rs")
                && fs::read_to_string(&path).unwrap().contains(text)
        }
    })
}

#[test]
fn fuzz_targets_are_found() {
    assert!(targets(root()).unwrap().contains(&"frames".to_owned()));
}

/// An hour of one test was ended after the half hour that every other test has.
#[test]
fn a_command_may_take_as_long_as_it_is_told_to() {
    let long = LONG.iter().find(|long| long.target == "tail_pipe").unwrap();
    let binary = TestBinary {
        package: long.package.to_owned(),
        target: long.target.to_owned(),
        kind: Kind::Test,
        executable: "tail_pipe".into(),
        folder: root().into(),
    };
    let limit = long.job(&binary, 60).unwrap().times.limit();
    assert!(limit > Duration::from_secs(60 * 60), "{limit:?}");
}
