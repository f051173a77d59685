//! Jobs of the shell's, run as those of a suite are.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{file_name, run};
use crate::job::{Company, Job};

fn job(name: &str, script: &str) -> Job {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Job::new(name, Company::Shared, command, format!("sh -c '{script}'"))
}

/// A folder of this test's own for outputs.
fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("levada-xtask-{name}-{}", std::process::id()))
}

#[test]
fn a_failure_fails_the_run_after_everything_else_has_run() {
    let folder = folder("failure");
    let jobs = vec![
        job("one", "echo 'test result: ok. 1 passed; 0 failed'; exit 3"),
        job("two", "echo done; echo aside >&2"),
    ];
    assert_eq!(run(jobs, 1, &folder), Err(String::new()));
    assert_eq!(fs::read_to_string(folder.join("two.txt")).unwrap(), "done\naside\n");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn jobs_follow_from_a_jobs_output() {
    let folder = folder("follow");
    let first = job("first", "echo second")
        .then(Box::new(|output| Ok(output.lines().map(|name| job(name, "echo third")).collect())));
    assert_eq!(run(vec![first], 1, &folder), Ok(()));
    assert_eq!(fs::read_to_string(folder.join("second.txt")).unwrap(), "third\n");
    let refused = job("refused", "true").then(Box::new(|_| Err("no test binaries".to_owned())));
    assert_eq!(run(vec![refused], 1, &folder), Err(String::new()));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_lasting_job_runs_again_until_it_fails() {
    let folder = folder("lasting");
    let script = format!("echo again; [ $(wc -l < {}) -lt 3 ]", folder.join("lasting.txt").display());
    let lasting = job("lasting", &script).lasting(Duration::from_secs(60));
    assert_eq!(run(vec![lasting], 1, &folder), Err(String::new()));
    assert_eq!(fs::read_to_string(folder.join("lasting.txt")).unwrap(), "again\n".repeat(3));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn names_are_those_of_files() {
    assert_eq!(file_name("black box: round_trip"), "black_box__round_trip.txt");
}
