//! Jobs of the shell's, run as those of a suite are.

use std::fs;
use std::path::{Path, PathBuf};
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
fn failed_job_fails_run_after_all_others() {
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

/// A job that fails in its first run only, if it has two.
fn disturbed(name: &str, company: Company, folder: &Path) -> Job {
    let mark = folder.join(name);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("echo run; [ -e {0} ] || {{ touch {0}; false; }}", mark.display())]);
    Job::new(name, company, command, String::new())
}

#[test]
fn only_a_failed_measurement_is_repeated_once() {
    let folder = folder("measurement");
    assert_eq!(run(vec![disturbed("alone", Company::Alone, &folder)], 1, &folder), Ok(()));
    assert_eq!(fs::read_to_string(folder.join("alone.first.txt")).unwrap(), "run\n");
    assert_eq!(fs::read_to_string(folder.join("alone.txt")).unwrap(), "run\n");
    assert_eq!(run(vec![disturbed("shared", Company::Shared, &folder)], 1, &folder), Err(String::new()));
    let fails = Job::new("fails", Company::Alone, Command::new("false"), String::new());
    assert_eq!(run(vec![fails], 1, &folder), Err(String::new()));
    fs::remove_dir_all(folder).unwrap();
}

/// With `CI=true`, as in CI itself, nothing may be left out.
#[test]
fn unready_job_is_skipped_and_not_started() {
    let folder = folder("ready");
    let checked = |name: &str, outcome: Result<(), String>| {
        job(name, "echo ran").expecting(1).if_ready(Box::new(move || outcome))
    };
    let jobs = vec![checked("there", Ok(())), checked("missing", Err("java is not installed".to_owned()))];
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert_eq!(run(jobs, 1, &folder).is_err(), is_ci);
    assert!(folder.join("there.txt").exists() && !folder.join("missing.txt").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn job_log_names_are_valid_file_names() {
    assert_eq!(file_name("black box: round_trip"), "black_box__round_trip.txt");
}
