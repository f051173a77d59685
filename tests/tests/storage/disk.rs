//! Kafka's own dump tool reads the files of a stopped Levada without a complaint.
//!
//! Suite: short; 10 s; needs java, python

use std::fs;
use std::path::{Path, PathBuf};

use levada_tests::corpus::{Corpus, Nulls};
use levada_tests::{Node, Tool};

/// Words by which the tool complains while it exits well.
const COMPLAINTS: [&str; 8] = [
    "isvalid: false",
    "Mismatches in",
    "Non-consecutive",
    "non-consecutive",
    "rror",
    "Exception",
    "corrupt",
    "out of order",
];

/// Dumps files of one kind in one go.
fn dump(files: &[PathBuf], options: &[&str]) -> String {
    assert!(!files.is_empty(), "nothing to dump with {options:?}");
    let list: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let mut tool = Tool::java("org.apache.kafka.tools.DumpLogSegments");
    for option in options {
        tool.arg(option);
    }
    let said = tool.args(["--files", &list.join(",")]).run();
    let complaints = complaints(&said.stderr);
    assert!(complaints.is_empty(), "{options:?}: {complaints:?}");
    for line in said.stdout.lines() {
        // Text of a record is not a complaint.
        let own = line.split("payload:").next().unwrap_or_default();
        assert!(!COMPLAINTS.iter().any(|words| own.contains(words)), "{options:?}: {line}");
    }
    for file in &list {
        assert!(said.stdout.contains(file.as_str()), "{file} was not dumped");
    }
    said.stdout
}

/// The tool's stderr, without its remark on every segment but a log's first: that it
/// expected offset 0 there.
fn complaints(stderr: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut lines = stderr.lines().filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        let first = line.strip_prefix("Non-consecutive offsets in ").and_then(|path| {
            let base = Path::new(path).file_stem()?.to_str()?.parse::<u64>().ok()?;
            Some(format!("  -1 is followed by {base}"))
        });
        match first {
            None => complaints.push(line.to_string()),
            Some(expected) => {
                complaints.extend(lines.next().filter(|line| *line != expected).map(str::to_string))
            }
        }
    }
    complaints
}

/// Files of this ending in the folders of these topics.
fn files(data: &Path, topics: &[&str], ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in fs::read_dir(data).expect("a data directory").flatten().map(|entry| entry.path()) {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        if topics.iter().any(|topic| name.rsplit_once('-').is_some_and(|(of, _)| of == *topic)) {
            let inside =
                fs::read_dir(&folder).expect("a partition's folder").flatten().map(|entry| entry.path());
            found.extend(inside.filter(|path| path.extension().is_some_and(|found| found == ending)));
        }
    }
    found.sort();
    found
}

#[test]
fn kafkas_dump_tool_reads_everything() {
    let mut node =
        Node::new().option("log.segment.bytes", "4194304").option("offsets.topic.num.partitions", "4");
    node.start();
    let corpus = Corpus::generate(&node.scratch().join("corpus"), 40 << 20, 2, Nulls::Anywhere);
    Tool::python("topics.py").args([&node.bootstrap(), "dumped", "2"]).run();
    let mut produce = Tool::python("client_confluent.py");
    produce.args(["produce", &node.bootstrap(), "dumped", "2", &corpus.path.display().to_string()]);
    produce.arg(corpus.records.to_string()).run();
    let mut member = Tool::python("member.py");
    member.args([&node.bootstrap(), "dumpers", "dumped", &node.scratch().join("read").display().to_string()]);
    let mut member = member.spawn();
    while !member.line(std::time::Duration::from_secs(60)).starts_with("read ") {}
    member.say("leave");
    member.finish(std::time::Duration::from_secs(60));
    node.stop();

    let data = node.data();
    let logs = files(&data, &["dumped"], "log");
    assert!(logs.len() > 4, "segments were rolled: {logs:?}");
    let dumped = dump(&logs, &["--deep-iteration"]);
    let records = dumped.lines().filter(|line| line.starts_with("| offset:")).count();
    assert_eq!(records as u64, corpus.records);
    for codec in ["NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"] {
        assert!(dumped.contains(&format!("compresscodec: {}", codec.to_lowercase())), "no batch in {codec}");
    }
    let user = ["dumped", "__consumer_offsets"];
    let indexes = files(&data, &user, "index");
    dump(&indexes, &["--index-sanity-check"]);
    dump(&indexes, &["--verify-index-only"]);
    dump(&files(&data, &user, "timeindex"), &["--index-sanity-check"]);
    dump(&files(&data, &user, "timeindex"), &["--verify-index-only"]);
    dump(&files(&data, &["dumped"], "snapshot"), &[]);

    let offsets = dump(&files(&data, &["__consumer_offsets"], "log"), &["--offsets-decoder"]);
    assert!(offsets.contains("\"group\":\"dumpers\",\"topic\":\"dumped\""), "{offsets}");
    let metadata = dump(&files(&data, &["__cluster_metadata"], "log"), &["--cluster-metadata-decoder"]);
    for record in ["\"type\":\"TOPIC_RECORD\"", "\"type\":\"PARTITION_RECORD\"", "\"name\":\"dumped\""] {
        assert!(metadata.contains(record), "{record} is missing:\n{metadata}");
    }
    let snapshots = files(&data, &["__cluster_metadata"], "checkpoint");
    if !snapshots.is_empty() {
        dump(&snapshots, &["--cluster-metadata-decoder"]);
    }
}
