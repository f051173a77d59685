//! Processor time of real processes, and of the kernel's text about them.

use std::process::Command;
use std::time::Duration;

use super::{Child, parse};
use crate::job::Times;

#[test]
fn ticks_are_parsed_despite_special_process_names() {
    let line = "42 (a (b) c) Z 1 42 42 0 -1 4228100 90 200 0 0 7 5 11 13 20 0 1 0 100 0 0";
    assert_eq!(parse(line), Some(36));
    assert_eq!(parse("42 (sh) Z 1 42"), None);
    assert_eq!(parse(""), None);
}

#[test]
fn processor_time_includes_child_processes() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output.txt");
    let mut command = Command::new("sh");
    command.args(["-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; true"]);
    let mut child = Child::new(&mut command, Times::default(), &output);
    assert_eq!(child.execute(), Ok(()));
    assert!(child.used() > Duration::from_millis(20), "{:?}", child.used());
}
