//! `levada consume` and `levada produce` in daily use: transactions, groups, patterns, ends, JSON,
//! and brokers that stop in between.
//!
//! Suite: short; 25 s; needs java, python

use std::path::PathBuf;
use std::time::Duration;

use levada_tests::{Node, Tool, process};
use rustix::process::Signal;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

/// Produces these lines; returns the output on stderr.
fn produce(node: &Node, line: &str, lines: &str) -> String {
    let said = node.levada(line).stdin(&input(node, lines)).run();
    assert_eq!(said.stdout, "", "{line}");
    said.stderr
}

fn input(node: &Node, lines: &str) -> PathBuf {
    let path = node.scratch().join("input");
    std::fs::write(&path, lines).expect("room");
    path
}

fn consumed(node: &Node, line: &str) -> String {
    node.levada(line).run().stdout
}

/// Fails unless the command ends with this code, prints nothing on stdout and this on stderr.
fn refused(node: &Node, line: &str, code: i32, expected: &str) {
    let (ended, said) = node.levada(line).outcome();
    assert_eq!(ended, Some(code), "{line}: {said:?}");
    assert!(said.stdout.is_empty() && said.stderr.contains(expected), "{line}: {said:?}");
}

#[test]
fn bench_counts_match_the_stored_records() {
    let node = Node::started();
    node.levada("topic create load --partitions 2").run();
    let produced = node.levada_json("bench produce load --records 5000 --record-size 50 --warm-up 0s -z lz4");
    let parameters = &produced["parameters"];
    assert_eq!((&produced["records"], &produced["bytes"]), (&json!(5000), &json!(250_000)), "{produced}");
    assert_eq!((&parameters["record_size"], &parameters["acks"]), (&json!(50), &json!("all")), "{produced}");
    assert!(produced["latency_us"]["acknowledged"]["p99.9"].as_u64() > Some(0), "{produced}");
    let shell = "org.apache.kafka.tools.GetOffsetShell";
    let mut ends = Tool::java(shell);
    let ends = ends.args(["--bootstrap-server", &node.bootstrap(), "--topic", "load"]).run().stdout;
    let held = ends.lines().filter_map(|line| line.rsplit(':').next()?.parse::<u64>().ok()).sum::<u64>();
    assert_eq!(held, 5000, "{ends}");
    let paced = node.levada_json("bench produce load --records 300 --rate 1000 --warm-up 0s --acks 1");
    assert_eq!((&paced["records"], &paced["parameters"]["rate"]), (&json!(300), &json!(1000)), "{paced}");

    // The topic is read again from its start until this number of records has arrived.
    let consumed = node.levada_json("bench consume load --records 20000 --warm-up 0s");
    assert!(consumed["records"].as_u64() >= Some(20_000), "{consumed}");
    assert!(consumed["latency_us"]["fetch"]["count"].as_u64() > Some(0), "{consumed}");

    let timed = node.levada_json("bench latency load --partition 1 --rate 500 --records 100 --warm-up 0s");
    for latency in ["acknowledged", "end_to_end", "send_delay"] {
        assert_eq!(timed["latency_us"][latency]["count"], 100, "{timed}");
    }
    let table = node.levada("bench latency load --rate 500 --records 10 --warm-up 0s").run().stdout;
    assert!(
        table.starts_with("bench latency: topic=load partitions=1 leaders=1 partition=0 rate=500"),
        "{table}"
    );
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");

    node.levada("topic create empty").run();
    for (line, expected) in [
        ("bench consume empty", "levada bench produce empty"),
        ("bench produce nothing", "levada topic create"),
        ("bench latency load --records 1 --record-size 8", "8 is not in 16.."),
        ("bench produce load --records 1 --duration 1s", "cannot be used with"),
    ] {
        let (code, said) = node.levada(line).outcome();
        assert!(code != Some(0) && said.stderr.contains(expected), "{line}: {said:?}");
    }
}

#[test]
fn records_of_aborted_transactions_are_not_printed() {
    let node = Node::started();
    node.levada("topic create ledger --partitions 1").run();
    let mut tool = Tool::python("open_transaction.py");
    let mut producer = tool.args([&node.bootstrap(), "payments", "ledger"]).spawn();
    assert_eq!(producer.line(LIMIT), "open");
    let open = consumed(&node, "consume ledger -e");
    assert_eq!(open, "", "a transaction that is open");
    assert_eq!(consumed(&node, "consume ledger -e --isolation read_uncommitted"), "one\ntwo\n");
    node.levada("transaction abort payments").run();
    produce(&node, "produce ledger", "three\n");
    assert_eq!(consumed(&node, "consume ledger -n 1"), "three\n");
    assert_eq!(consumed(&node, "consume ledger -e"), "three\n");
    assert_eq!(consumed(&node, "consume ledger -e --isolation read_uncommitted"), "one\ntwo\nthree\n");
}

#[test]
fn group_resumes_after_the_last_printed_record() {
    let mut node = Node::started();
    node.levada("topic create clicks --partitions 2").run();
    produce(&node, "produce clicks -p 0", "a\nb\nc\n");
    produce(&node, "produce clicks -p 1", "d\n");
    assert_eq!(consumed(&node, "consume clicks -G readers -n 2").lines().count(), 2);
    let rest = consumed(&node, "consume clicks -G readers -e");
    assert_eq!(rest.lines().count(), 2, "{rest}");
    assert_eq!(consumed(&node, "consume clicks -G readers -e"), "");
    let group = node.levada_json("group describe readers");
    assert_eq!((&group[0]["type"], &group[0]["lag"]), (&json!("consumer"), &json!(0)), "{group}");
    assert_eq!(group[0]["members"], json!([]), "it has left");

    let mut reader = node.levada("consume clicks -G readers").spawn();
    produce(&node, "produce clicks -p 1", "e\n");
    assert_eq!(reader.line(LIMIT), "e");
    process::signal(reader.pid(), Signal::INT);
    assert_eq!(reader.finish(LIMIT), [""; 0]);
    node.restart();
    assert_eq!(consumed(&node, "consume clicks -G readers -e"), "");
    assert_eq!(
        consumed(&node, "consume clicks -G others -o -1 -e").lines().count(),
        2,
        "nothing is committed"
    );
    refused(&node, "consume nothing -G readers", 1, "levada topic list");
    refused(&node, "consume clicks -G readers -p 0", 2, "cannot be used with");
}

#[test]
fn two_members_of_a_group_share_the_partitions() {
    let node = Node::started();
    node.levada("topic create clicks --partitions 2").run();
    let mut members: Vec<_> = (0..2).map(|_| node.levada("consume clicks -G readers").spawn()).collect();
    levada_tests::await_some("a partition for each", LIMIT, || {
        // Before the first member has joined, there is no such group.
        let (code, said) = node.levada("group describe readers --output json").outcome();
        let group: Value = serde_json::from_str(&said.stdout).ok().filter(|_| code == Some(0))?;
        let members = group[0]["members"].as_array().cloned().unwrap_or_default();
        let partitions = members.iter().map(|one| one["partitions"].as_array().map_or(0, Vec::len));
        (partitions.collect::<Vec<_>>() == [1, 1]).then_some(())
    });
    produce(&node, "produce clicks -p 0", "a\n");
    produce(&node, "produce clicks -p 1", "b\n");
    let mut lines: Vec<_> = members.iter_mut().map(|member| member.line(LIMIT)).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a", "b"]);
    for member in members {
        process::signal(member.pid(), Signal::TERM);
        assert_eq!(member.finish(LIMIT), [""; 0]);
    }
}

#[test]
fn group_member_without_partition_exits_at_end() {
    let mut node = Node::new()
        .option("group.consumer.min.heartbeat.interval.ms", "100")
        .option("group.consumer.heartbeat.interval.ms", "200");
    node.start();
    node.levada("topic create clicks --partitions 1").run();
    let mut reader = node.levada("consume clicks -G readers").spawn();
    produce(&node, "produce clicks", "a\n");
    assert_eq!(reader.line(LIMIT), "a");
    for (line, group) in
        [("consume clicks -G readers -e", "readers"), ("consume ^none.* -G others -e", "others")]
    {
        let said = node.levada(line).run();
        assert_eq!(said.stdout, "", "{line}");
        let note = format!("note: group {group} has no partition for this member");
        assert!(said.stderr.contains(&note), "{line}: {}", said.stderr);
    }
    produce(&node, "produce clicks", "b\n");
    assert_eq!(reader.line(LIMIT), "b", "the other member keeps its partition");
    process::signal(reader.pid(), Signal::INT);
    assert_eq!(reader.finish(LIMIT), [""; 0]);
}

#[test]
fn consume_accepts_several_topics_and_patterns() {
    let node = Node::started();
    for topic in ["logs-a", "logs-b", "other", "views"] {
        node.levada(&format!("topic create {topic} --partitions 1")).run();
        produce(&node, &format!("produce {topic}"), &format!("in {topic}\n"));
    }
    let sorted = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(consumed(&node, "consume views other -e")), ["in other", "in views"]);
    let both = ["in logs-a", "in logs-b", "in views"];
    assert_eq!(sorted(consumed(&node, "consume views ^logs-.* -e")), both);
    assert_eq!(sorted(consumed(&node, "consume views ^logs-.* -n 3 -G readers")), both);
    refused(&node, "consume ^nothing.* -e", 1, "no topic matches ^nothing.*");
    refused(&node, "consume ^( -e", 2, "^( is not a regular expression");

    let mut reader = node.levada("consume ^new-.*").spawn();
    node.levada("topic create new-one --partitions 1").run();
    produce(&node, "produce new-one", "found\n");
    assert_eq!(reader.line(LIMIT), "found", "a topic that was created later");
    reader.kill();
}

#[test]
fn consume_supports_end_offsets_times_and_filters() {
    let node = Node::started();
    node.levada("topic create clicks --partitions 1").run();
    let lines = [(1_000, "k1", "one"), (2_000, "k2", "two"), (3_000, "k3", "three"), (4_000, "x4", "four")];
    let lines =
        lines.map(|(ms, key, value)| json!({"timestamp_ms": ms, "key": key, "value": value}).to_string());
    produce(&node, "produce clicks --input json", &format!("{}\n", lines.join("\n")));
    assert_eq!(consumed(&node, "consume clicks --until 2"), "one\ntwo\n");
    assert_eq!(consumed(&node, "consume clicks -o 1 --until @3000"), "two\n");
    assert_eq!(consumed(&node, "consume clicks -o @2000 --until @3001"), "two\nthree\n");
    assert_eq!(consumed(&node, "consume clicks -e --grep ^t"), "two\nthree\n");
    assert_eq!(consumed(&node, "consume clicks -e --grep x"), "four\n", "keys count too");
    assert_eq!(consumed(&node, "consume clicks --grep o -n 2"), "one\ntwo\n");
    refused(&node, "consume clicks --until soon", 2, "expected an offset or @TIME");
    refused(&node, "consume clicks --grep (", 2, "regex parse error");
    refused(&node, "consume clicks -o 99 -e", 1, "clicks/0 does not hold offset 99: it holds 0 to 4");
}

#[test]
fn consume_continues_after_broker_restart() {
    let mut node = Node::started();
    node.levada("topic create clicks --partitions 1").run();
    produce(&node, "produce clicks", "a\nb\n");
    let mut reader = node.levada("consume clicks").spawn();
    assert_eq!((reader.line(LIMIT), reader.line(LIMIT)), ("a".to_owned(), "b".to_owned()));
    for line in ["c", "d"] {
        node.kill();
        node.start();
        produce(&node, "produce clicks", &format!("{line}\n"));
        assert_eq!(reader.line(LIMIT), line);
    }
    reader.kill();
}

#[test]
fn produce_continues_after_restart_without_duplicates() {
    let mut node = Node::started();
    node.levada("topic create clicks --partitions 1").run();
    let mut producer = node.levada("produce clicks").spawn();
    producer.say("a");
    assert_eq!(consumed(&node, "consume clicks -n 1"), "a\n");
    for line in ["b", "c"] {
        node.kill();
        producer.say(line);
        node.start();
    }
    assert_eq!(producer.finish(LIMIT), [""; 0]);
    assert_eq!(consumed(&node, "consume clicks -e"), "a\nb\nc\n");
}

#[test]
fn unacknowledged_records_are_reported_by_line() {
    let mut node = Node::started();
    node.levada("topic create clicks --partitions 1").run();
    let path = node.scratch().join("said");
    let mut producer = std::process::Command::new(levada_tests::paths::binary());
    producer.args(["produce", "clicks", "--timeout", "1s", "--brokers", &node.bootstrap()]);
    let stderr = std::fs::File::create(&path).expect("room");
    let mut producer =
        producer.stdin(std::process::Stdio::piped()).stderr(stderr).spawn().expect("levada produce");
    let mut stdin = producer.stdin.take().expect("stdin was asked for");
    std::io::Write::write_all(&mut stdin, b"a\nb\n").expect("a pipe");
    assert_eq!(consumed(&node, "consume clicks -n 2"), "a\nb\n");
    node.stop();
    std::io::Write::write_all(&mut stdin, b"c\nd\n").expect("a pipe");
    drop(stdin);
    assert_eq!(producer.wait().expect("wait").code(), Some(1));
    let said = std::fs::read_to_string(&path).expect("what it said");
    assert!(said.contains("not acknowledged: 2 records (lines 3 to 4) for clicks/0"), "{said}");
    assert!(said.contains("produced 2 records"), "{said}");
}

#[test]
fn consumed_json_is_reproducible_with_tombstones_and_headers() {
    let node = Node::started();
    for topic in ["from", "to"] {
        node.levada(&format!("topic create {topic} --partitions 2")).run();
    }
    let lines = [
        json!({"key": "k", "value": null, "headers": [{"key": "h", "value": "1"}, {"key": "h", "value": null}]}),
        json!({"key_base64": "/w==", "value": "", "partition": 1, "timestamp_ms": 1_700_000_000_000_i64}),
        json!({"value_base64": "dv8="}),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    produce(&node, "produce from --input json -H source=test", &format!("{lines}\n"));
    let printed = consumed(&node, "consume from -e --output json");
    produce(&node, "produce to --input json", &printed);
    let again = consumed(&node, "consume to -e --output json");
    let sorted = |text: &str| {
        let mut lines: Vec<_> =
            text.lines().map(|line| line.replace("\"topic\":\"from\"", "\"topic\":\"to\"")).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&again), sorted(&printed));
    assert!(printed.contains(r#""value":null"#) && printed.contains(r#""key_base64":"/w==""#), "{printed}");
    let failing = input(&node, "{\"value\":\"good\"}\n{\"key\":\"k\"}\n");
    let (code, said) = node.levada("produce to --input json").stdin(&failing).outcome();
    assert_eq!(code, Some(1));
    assert!(said.stderr.contains("line 2: the value is missing"), "{said:?}");
    assert!(said.stderr.contains("produced 1 record,"), "{said:?}");
}

#[test]
fn key_separator_supports_escapes_and_warns_when_missing() {
    let node = Node::started();
    node.levada("topic create pairs --partitions 1").run();
    produce(&node, "produce pairs -k \\t", "a\t1\n");
    assert_eq!(consumed(&node, "consume pairs -e -f %k=%v\\n"), "a=1\n");
    let said = produce(&node, "produce pairs -k :", "a=1\nb=2\n");
    assert!(said.contains("warning: no line contains the separator \":\""), "{said}");
    let said = produce(&node, "produce pairs -k :", "a:1\nb=2\n");
    assert!(!said.contains("warning"), "{said}");
    refused(&node, "produce pairs -k : --input json", 2, "--key-separator is for lines of text");
}

#[test]
fn sigint_ends_produce_after_complete_lines() {
    let mut node = Node::started();
    node.levada("topic create clicks --partitions 1").run();
    let path = node.scratch().join("said");
    let mut producer = std::process::Command::new(levada_tests::paths::binary());
    producer.args(["produce", "clicks", "--brokers", &node.bootstrap()]);
    let stderr = std::fs::File::create(&path).expect("room");
    let mut producer =
        producer.stdin(std::process::Stdio::piped()).stderr(stderr).spawn().expect("levada produce");
    let mut stdin = producer.stdin.take().expect("stdin was asked for");
    std::io::Write::write_all(&mut stdin, b"a\nb\nhalf").expect("a pipe");
    assert_eq!(consumed(&node, "consume clicks -n 2"), "a\nb\n");
    process::signal(producer.id(), Signal::INT);
    assert_eq!(producer.wait().expect("wait").code(), Some(130));
    let said = std::fs::read_to_string(&path).expect("what it said");
    assert!(said.contains("produced 2 records"), "{said}");
    assert!(said.contains("not sent: line 3, which is incomplete"), "{said}");
    drop(stdin);
    node.stop();
}

#[test]
fn group_consumer_reads_a_recreated_topic() {
    let node = Node::started();
    node.levada("topic create clicks --partitions 1").run();
    produce(&node, "produce clicks", "a\nb\nc\n");
    let mut reader = node.levada("consume clicks -G readers").spawn();
    assert_eq!([reader.line(LIMIT), reader.line(LIMIT), reader.line(LIMIT)], ["a", "b", "c"]);
    node.levada("topic delete clicks").run();
    node.levada("topic create clicks --partitions 1").run();
    produce(&node, "produce clicks", "d\ne\n");
    assert_eq!([reader.line(LIMIT), reader.line(LIMIT)], ["d", "e"]);
    reader.kill();
}
