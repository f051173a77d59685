//! `levada lab files`: every experiment runs as small as it gets, and what the servers sent is
//! compared with their files. No figure is judged.
//!
//! Suite: long; 23 s; uses nginx

use levada_tests::{lab, paths};

const SYSTEMS: [&str; 3] = ["levada", "nginx", "floor"];

#[test]
fn every_experiment_on_file_servers_is_sound() {
    let scratch = tempfile::tempdir().expect("a directory");
    let nginx = paths::nginx().map(|path| format!("--nginx={}", path.display()));
    let arguments: Vec<&str> = nginx.iter().map(String::as_str).collect();
    let summaries = lab::run(scratch.path(), "files", &arguments);
    assert_eq!(summaries.len(), 4);
    for summary in &summaries {
        let measured = lab::measured(summary, &SYSTEMS);
        assert!(measured.contains("levada"), "{}", summary["name"]);
        assert_eq!(measured.contains("nginx"), nginx.is_some(), "{}", summary["name"]);
    }
    if nginx.is_none() {
        println!("skipped: nginx, which cannot be unpacked here");
    }
    let left = std::fs::read_dir(scratch.path()).expect("the directory").count();
    assert_eq!(left, 1, "only the record stays");
}
