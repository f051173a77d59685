//! Tests of `levada cp`: what it makes, what it refuses, and what it leaves behind.

use super::*;

fn args(source: &Path, destination: &Path) -> Args {
    Args {
        source: source.to_owned(),
        destination: destination.to_owned(),
        force: false,
        path: None,
        format: FormatArgs { format: Format::Table },
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn refused(args: &Args, words: &str) {
    match run(args, &mut Vec::new()) {
        Err(Failure::Failed { what, .. }) => assert!(what.contains(words), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn copy_preserves_permissions_and_reports_path() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, vec![7; 300_000]).unwrap();
    fs::set_permissions(&from, fs::Permissions::from_mode(0o640)).unwrap();
    let mut text = Vec::new();
    run(&args(&from, &to), &mut text).unwrap();
    assert_eq!(fs::read(&to).unwrap(), vec![7; 300_000]);
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o640);
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("PATH") && text.contains(" 300000\n"), "{text}");
    assert_eq!(names(dir.path()), ["from", "to"]);

    let mut json = Vec::new();
    let asked = Args {
        path: Some(CopyPath::ReadWrite),
        format: FormatArgs { format: Format::Json },
        force: true,
        ..args(&from, &to)
    };
    run(&asked, &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["paths"], serde_json::json!([{ "path": "read_write", "bytes": 300_000 }]));
    assert_eq!(json["hole_bytes"], 0);
}

#[test]
fn copy_into_directory_keeps_the_file_name() {
    let dir = tempfile::tempdir().unwrap();
    let (from, into) = (dir.path().join("from"), dir.path().join("into"));
    fs::write(&from, "bytes").unwrap();
    fs::create_dir(&into).unwrap();
    run(&args(&from, &into), &mut Vec::new()).unwrap();
    assert_eq!(fs::read_to_string(into.join("from")).unwrap(), "bytes");
}

#[test]
fn existing_file_is_replaced_only_with_option() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, "new").unwrap();
    fs::write(&to, "old and longer").unwrap();
    refused(&args(&from, &to), "to exists");
    assert_eq!(fs::read_to_string(&to).unwrap(), "old and longer");
    run(&Args { force: true, ..args(&from, &to) }, &mut Vec::new()).unwrap();
    assert_eq!(fs::read_to_string(&to).unwrap(), "new");
    assert_eq!(names(dir.path()), ["from", "to"]);
}

#[test]
fn copy_does_not_replace_concurrently_created_file() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let draft = TemporaryCopy::beside(&to).unwrap();
    fs::write(&to, "somebody else's").unwrap();
    assert_eq!(draft.keep(0o600, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&to).unwrap(), "somebody else's");
    assert_eq!(names(dir.path()), ["to"]);
}

#[test]
fn failed_copy_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, "bytes").unwrap();
    // /proc and a file on disk never share blocks.
    refused(
        &Args { path: Some(CopyPath::Reflink), ..args(Path::new("/proc/self/exe"), &to) },
        "reflink cannot copy",
    );
    refused(&args(&dir.path().join("missing"), &to), "cannot read");
    refused(&args(dir.path(), &to), "is a directory");
    refused(&args(&from, &dir.path().join("no/such/to")), "cannot create");
    refused(&Args { force: true, ..args(&from, &from) }, "are the same file");
    assert_eq!(names(dir.path()), ["from"]);
}

#[test]
fn a_missing_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::write(&from, "x").unwrap();
    let missing = dir.path().join("nosuch/");
    refused(&args(&from, &missing), &format!("there is no directory {}", missing.display()));
    assert_eq!(names(dir.path()), ["from"]);
}
