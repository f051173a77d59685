//! `levada lab` as a whole: what it leaves behind when it is told to stop.
//!
//! Suite: long; 2 s

use std::fs;
use std::time::Duration;

use levada_tests::process::signal;
use levada_tests::{Tool, await_some};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn interrupted_lab_run_keeps_record_and_removes_files() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let (dir, record) = (scratch.path().join("files"), scratch.path().join("record.jsonl"));
    fs::create_dir(&dir).expect("room");
    let mut tool = Tool::levada();
    tool.args(["lab", "transfer", "--quick", "--rounds", "1000000"]);
    tool.arg("--dir").arg(dir.display().to_string()).arg("--record").arg(record.display().to_string());
    let mut lab = tool.spawn();
    let recorded = || fs::read_to_string(&record).unwrap_or_default();
    await_some("a first timed run", LIMIT, || recorded().contains("\"round\":1,").then_some(()));
    signal(lab.pid(), Signal::INT);
    // Its tables are the last thing that it prints; with them its output ends.
    await_some("the end", LIMIT, || {
        recorded().lines().last().is_some_and(|line| line.contains("\"type\":\"ended\"")).then_some(())
    });
    while !lab.line(LIMIT).contains("COLD, RECEIVER DISCARDS") {}
    await_some("an empty directory", LIMIT, || {
        fs::read_dir(&dir).expect("ours").next().is_none().then_some(())
    });
    let ended: Value = serde_json::from_str(recorded().lines().last().expect("a line")).expect("JSON");
    assert_eq!(ended["interrupted"], true, "{ended}");
}
