//! Data directories that have lost segments, and an acknowledged deletion before a crash.
//!
//! Suite: short; 5 s; share faults

use std::fs;
use std::path::PathBuf;

use levada_tests::Node;
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};

const NONE: i16 = 0;
const RECORDS: i64 = 40;

/// A broker with a topic of several segments.
fn node() -> Node {
    let mut node = Node::new().option("log.segment.bytes", "1048576").option("log.retention.ms", "-1");
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic("t", 1))), NONE);
    (0..RECORDS).for_each(|_| produce(&node));
    node
}

fn produce(node: &Node) {
    let batch = Batch::of(&[&[7; 100_000]]).encode();
    let answer = Connection::open(node.address()).call(&raw::produce("t", 1, &batch));
    assert_eq!(raw::produce_error(&answer), NONE);
}

fn end(node: &Node) -> i64 {
    raw::listed_offset(&Connection::open(node.address()).call(&raw::list_end_offset("t")))
}

fn segments(node: &Node) -> Vec<PathBuf> {
    let entries = fs::read_dir(node.data().join("t-0")).expect("the directory of the partition");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut logs: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
    logs.sort();
    assert!(logs.len() > 3, "{logs:?}");
    logs
}

#[test]
fn start_reports_missing_segments_and_reuses_no_offset() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: Kafka begins at the first offset again");
    }
    type Harm = fn(&[PathBuf]);
    let harms: [(Harm, bool); 7] = [
        (|all| fs::remove_dir_all(all[0].parent().expect("a directory")).expect("a directory"), true),
        (|all| all.iter().for_each(|path| fs::remove_file(path).expect("a segment")), true),
        (|all| fs::remove_file(&all[all.len() - 1]).expect("a segment"), true),
        (|all| fs::write(&all[all.len() - 1], b"").expect("a segment"), true),
        (|all| fs::remove_file(&all[0]).expect("a segment"), false),
        (|all| fs::remove_file(&all[1]).expect("a segment"), false),
        (|all| fs::write(&all[1], b"").expect("a segment"), false),
    ];
    for (harm, is_at_the_end) in harms {
        let mut node = node();
        node.stop();
        harm(&segments(&node));
        node.start();
        assert_eq!(end(&node), RECORDS);
        let talk = node.talk();
        let is_warning =
            |line: &str| line.contains("t-0") && (line.contains("WARN") || line.contains("ERROR"));
        assert!(talk.lines().any(is_warning), "{talk}");
        let (status, ready) = node.http("/readyz");
        assert_eq!((status, ready.contains("records of t-0 are lost")), (200, is_at_the_end), "{ready}");
        assert!(is_at_the_end || ready.contains("t-0 lacks the segments that begin at offsets"), "{ready}");
        produce(&node);
        assert_eq!(end(&node), RECORDS + 1);
    }
}

#[test]
fn trimmed_records_stay_deleted_after_crash() {
    let mut node = node();
    node.levada("topic trim t --to 5 --yes").run();
    node.kill();
    node.start();
    let answer = Connection::open(node.address()).call(&raw::fetch("t", 3, 1 << 20));
    assert_ne!(raw::fetch_error(&answer), NONE, "offset 3 was deleted");
    let said = node.levada("offsets t").run();
    assert!(
        said.stdout.lines().any(|line| line.split_whitespace().any(|word| word == "5")),
        "{}",
        said.stdout
    );
}
