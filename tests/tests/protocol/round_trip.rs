//! Records of any client are read back by any client, byte for byte: keys, values, headers,
//! timestamps, in all compression types.
//!
//! Suite: short; 119 s; needs java, kcat, python
//! Soak: controllers 3

use std::path::Path;
use std::time::Instant;

use levada_tests::corpus::{self, Corpus, Nulls};
use levada_tests::{Node, Tool};

const PARTITIONS: usize = 3;
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

fn create(node: &Node, topic: &str, partitions: usize) {
    Tool::python("topics.py").args([&node.bootstrap(), topic, &partitions.to_string()]).run();
}

fn produce(node: &Node, client: &str, topic: &str, corpus: &Corpus) {
    let start = Instant::now();
    let mut tool = Tool::python(client);
    tool.args(["produce", &node.bootstrap(), topic, &PARTITIONS.to_string()]);
    tool.arg(corpus.path.display().to_string()).arg(corpus.records.to_string()).run();
    println!("{client} wrote {} records to {topic} in {:.1?}", corpus.records, start.elapsed());
}

fn consume(node: &Node, client: &str, topic: &str, corpus: &Corpus) {
    let start = Instant::now();
    let mut tool = Tool::python(client);
    tool.args(["consume", &node.bootstrap(), topic, &PARTITIONS.to_string(), &corpus.records.to_string()]);
    let digests: Vec<String> = tool.run().stdout.lines().map(str::to_string).collect();
    assert_eq!(digests, corpus.digests, "{client} read something else from {topic}");
    println!("{client} read {} records from {topic} in {:.1?}", corpus.records, start.elapsed());
}

/// Clients in pure Python manage a few MB a second, so they get less.
fn round_trip(writer: &str, megabytes: u64, nulls: Nulls, readers: &[&str]) {
    // Small segments, so that reading crosses many of them.
    let mut node = Node::new().option("log.segment.bytes", "16777216");
    node.start();
    let corpus = Corpus::generate(&node.scratch().join("corpus"), megabytes << 20, PARTITIONS, nulls);
    create(&node, "corpus", PARTITIONS);
    produce(&node, writer, "corpus", &corpus);
    for reader in readers {
        consume(&node, reader, "corpus", &corpus);
    }
    performance_consumer(&node, "corpus", corpus.records);
    node.assert_running("after the round trip");
    node.restart();
    consume(&node, "client_confluent.py", "corpus", &corpus);
    node.stop();
}

/// Kafka's own consumer decompresses and counts every record.
fn performance_consumer(node: &Node, topic: &str, records: u64) {
    let count = records.to_string();
    let mut consumer = Tool::java("org.apache.kafka.tools.ConsumerPerformance");
    consumer.args(["--bootstrap-server", &node.bootstrap(), "--topic", topic, "--num-records", &count]);
    let said = consumer.args(["--timeout", "30000"]).run();
    let row = said.stdout.lines().last().expect("a row of figures");
    println!("{row}");
    let columns: Vec<&str> = row.split(", ").collect();
    assert_eq!(columns.get(4), Some(&count.as_str()), "records consumed: {}", said.stdout);
}

#[test]
fn confluent_kafka_round_trips_a_large_file() {
    round_trip("client_confluent.py", 300, Nulls::Anywhere, &["client_confluent.py"]);
}

#[test]
fn kafka_python_round_trips_records() {
    round_trip(
        "client_kafka_python.py",
        24,
        Nulls::OneSide,
        &["client_kafka_python.py", "client_aiokafka.py"],
    );
}

#[test]
fn aiokafka_round_trips_records() {
    round_trip("client_aiokafka.py", 48, Nulls::OneSide, &["client_aiokafka.py", "client_kafka_python.py"]);
}

/// Cuts a file of lines into as many files as there are codecs.
fn cut(lines: &Path, node: &Node) -> Vec<std::path::PathBuf> {
    let text = std::fs::read_to_string(lines).expect("lines");
    let all: Vec<&str> = text.lines().collect();
    let part = |(index, lines): (usize, &[&str])| {
        let path = node.scratch().join(format!("part-{index}"));
        std::fs::write(&path, lines.join("\n") + "\n").expect("room for a part");
        path
    };
    all.chunks(all.len().div_ceil(CODECS.len())).enumerate().map(part).collect()
}

#[test]
fn java_console_tools_round_trip_records() {
    let mut node = Node::started();
    let lines = node.scratch().join("lines");
    corpus::write_lines(&lines, 40_000);
    let server = node.bootstrap();
    let mut topics = Tool::java("org.apache.kafka.tools.TopicCommand");
    topics.args(["--bootstrap-server", &server, "--create", "--topic", "console", "--partitions", "1"]).run();
    for (codec, part) in CODECS.iter().zip(cut(&lines, &node)) {
        let mut producer = Tool::java("org.apache.kafka.tools.ConsoleProducer");
        producer.args(["--bootstrap-server", &server, "--topic", "console", "--compression-codec", codec]);
        producer.args(["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]);
        let said = producer.args(["--batch-size", "65536"]).stdin(&part).run();
        assert!(!said.stderr.contains("ERROR"), "{}", said.stderr);
    }
    let back = node.scratch().join("back");
    let mut consumer = Tool::java("org.apache.kafka.tools.consumer.ConsoleConsumer");
    consumer.args(["--bootstrap-server", &server, "--topic", "console", "--from-beginning"]);
    consumer.args(["--max-messages", "40000", "--timeout-ms", "30000"]);
    consumer.args(["--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"]);
    consumer.stdout(&back).run();
    assert_eq!(corpus::digest(&back), corpus::digest(&lines));
    node.assert_running("after the console tools");
    node.stop();
}

#[test]
fn kcat_round_trips_records() {
    let mut node = Node::started();
    let lines = node.scratch().join("lines");
    corpus::write_lines(&lines, 40_000);
    let server = node.bootstrap();
    create(&node, "kcat", 1);
    for (codec, part) in CODECS.iter().zip(cut(&lines, &node)) {
        // The first tab ends the key, so here the headers' column is the key.
        let mut kcat = Tool::kcat();
        kcat.args(["-P", "-b", &server, "-t", "kcat", "-p", "0", "-K", "\t", "-z", codec, "-H", "by=kcat"]);
        kcat.stdin(&part).run();
    }
    let back = node.scratch().join("back");
    let mut kcat = Tool::kcat();
    kcat.args(["-C", "-b", &server, "-t", "kcat", "-o", "beginning", "-e", "-q", "-X", "check.crcs=true"]);
    kcat.args(["-f", "%h;%k\t%s\n"]).stdout(&back).run();
    let expected: String = std::fs::read_to_string(&lines)
        .expect("lines")
        .lines()
        .map(|line| format!("by=kcat;{line}\n"))
        .collect();
    let wanted = node.scratch().join("wanted");
    std::fs::write(&wanted, expected).expect("room");
    assert_eq!(corpus::digest(&back), corpus::digest(&wanted));
    let listing = Tool::kcat().args(["-L", "-b", &server, "-t", "kcat"]).run();
    assert!(listing.stdout.contains("topic \"kcat\" with 1 partitions"), "{}", listing.stdout);
    node.assert_running("after kcat");
    node.stop();
}

#[test]
fn java_performance_tools_round_trip_records() {
    let mut node = Node::started();
    let server = node.bootstrap();
    let mut topics = Tool::java("org.apache.kafka.tools.TopicCommand");
    topics.args(["--bootstrap-server", &server, "--create", "--topic", "perf", "--partitions", "4"]).run();
    let mut producer = Tool::java("org.apache.kafka.tools.ProducerPerformance");
    producer.args(["--bootstrap-server", &server, "--topic", "perf", "--num-records", "200000"]);
    producer.args(["--record-size", "1000", "--throughput", "-1", "--command-property", "linger.ms=5"]);
    let said = producer.run();
    assert!(said.stdout.contains("200000 records sent"), "{}", said.stdout);
    println!("{}", said.stdout.lines().last().unwrap_or_default());

    performance_consumer(&node, "perf", 200_000);
    node.assert_running("after the performance tools");
    node.stop();
}

#[test]
fn java_topic_tool_manages_topics() {
    let mut node = Node::started();
    let server = node.bootstrap();
    let topics = |arguments: &[&str]| {
        let mut tool = Tool::java("org.apache.kafka.tools.TopicCommand");
        tool.args(["--bootstrap-server", &server]);
        for argument in arguments {
            tool.arg(argument);
        }
        tool.outcome()
    };
    let run = |arguments: &[&str]| {
        let (code, said) = topics(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said:?}");
        said.stdout
    };
    let created =
        run(&["--create", "--topic", "made", "--partitions", "3", "--config", "segment.bytes=1048576"]);
    assert!(created.contains("Created topic made."), "{created}");
    let (code, said) = topics(&["--create", "--topic", "made"]);
    assert!(code == Some(1) && format!("{said:?}").contains("already exists"), "{said:?}");
    assert_eq!(run(&["--list"]).trim(), "made");
    let described = run(&["--describe", "--topic", "made"]);
    assert!(
        described.contains("PartitionCount: 3") && described.contains("segment.bytes=1048576"),
        "{described}"
    );
    assert_eq!(described.matches("Leader: 1").count(), 3, "{described}");
    run(&["--alter", "--topic", "made", "--partitions", "5"]);
    node.restart();
    assert!(run(&["--describe", "--topic", "made"]).contains("PartitionCount: 5"));
    run(&["--delete", "--topic", "made"]);
    assert_eq!(run(&["--list"]).trim(), "");
    node.stop();
}
