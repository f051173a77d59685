//! A report about applications that stand still: their threads and last lines, their groups as each
//! broker shows them, transactions, and the leaders, replicas and offsets of all partitions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde_json::Value;

use super::work::{Instance, Kind};
use crate::Tool;

/// Longest run of a program that the report needs.
const LIMIT: Duration = Duration::from_secs(30);
/// Number of frames of a stack that are shown.
const FRAMES: usize = 14;
/// Parts of the names of threads whose stacks are shown.
const THREADS: [&str; 4] = ["StreamThread-", "StateUpdater-", "consumer_background", "producer-network"];

/// Prints the report. The thread may be panicking.
pub(super) fn print(bootstrap: &str, instances: &mut [Instance]) {
    // A panic in a thread that panics would end the process.
    std::thread::scope(|scope| {
        let printed = scope.spawn(|| {
            instances.iter_mut().for_each(print_instance);
            print_cluster(bootstrap);
        });
        drop(printed.join());
    });
}

fn print_instance(instance: &mut Instance) {
    let pid = instance.process.pid();
    let threads = catch_unwind(AssertUnwindSafe(|| instance.threads())).ok().flatten();
    let threads = threads.unwrap_or_else(|| "no answer about its threads".to_owned());
    eprintln!("---- an instance of {:?}, process {pid}: {threads}", instance.kind);
    instance.lines.iter().for_each(|line| eprintln!("{line}"));
    let stacks = said(&mut Tool::stacks(pid));
    for stack in stacks.split("\n\n").filter(|stack| THREADS.iter().any(|name| stack.contains(name))) {
        stack.lines().take(FRAMES).for_each(|line| eprintln!("{line}"));
    }
}

fn print_cluster(bootstrap: &str) {
    for broker in bootstrap.split(',') {
        for kind in Kind::ALL {
            print_levada(&["group", "describe", kind.group()], broker);
        }
    }
    print_levada(&["transaction", "list"], bootstrap);
    print_levada(&["transaction", "hanging"], bootstrap);
    print_levada(&["partition", "list", "--all"], bootstrap);
    let mut list = Tool::levada();
    list.args(["transaction", "list", "--output", "json", "-b", bootstrap]);
    let transactions: Value = serde_json::from_str(&said(&mut list)).unwrap_or_default();
    for one in transactions.as_array().into_iter().flatten() {
        let is_open = matches!(one["state"].as_str(), Some("Ongoing" | "PrepareCommit" | "PrepareAbort"));
        if let Some(id) = one["id"].as_str().filter(|_| is_open) {
            print_levada(&["transaction", "describe", id], bootstrap);
        }
    }
    print_offsets(bootstrap);
}

fn print_levada(command: &[&str], bootstrap: &str) {
    let mut levada = Tool::levada();
    for word in command {
        levada.arg(word);
    }
    levada.args(["-b", bootstrap]);
    eprintln!("---- levada {} -b {bootstrap}\n{}", command.join(" "), said(&mut levada));
}

/// The high watermark and the last stable offset of each partition.
fn print_offsets(bootstrap: &str) {
    let mut list = Tool::levada();
    list.args(["topic", "list", "--internal", "--output", "json", "-b", bootstrap]);
    let topics: Value = serde_json::from_str(&said(&mut list)).unwrap_or_default();
    for level in ["read_uncommitted", "read_committed"] {
        let mut kcat = Tool::kcat();
        kcat.args(["-Q", "-b", bootstrap, "-X", &format!("isolation.level={level}")]);
        for topic in topics.as_array().into_iter().flatten() {
            let (name, count) = (topic["name"].as_str(), topic["partitions"].as_i64());
            for index in 0..count.unwrap_or(0) {
                kcat.args(["-t", &format!("{}:{index}:-1", name.unwrap_or_default())]);
            }
        }
        eprintln!("---- ends of partitions, {level}\n{}", said(&mut kcat));
    }
}

/// Output of a program; its failure is a part of the report.
fn said(tool: &mut Tool) -> String {
    let outcome = catch_unwind(AssertUnwindSafe(|| tool.within(LIMIT).outcome().1));
    outcome.map_or_else(|_| "did not end".to_owned(), |said| said.stdout + &said.stderr)
}
