//! Several data directories: placement that Kafka's tools see, a set of directories that changes
//! hands between Levada and Kafka, replicas that move between directories, and the failure of one
//! directory in a cluster.
//!
//! Suite: long; 159 s; needs java, python, strace

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use levada_tests::cluster::{CONTROLLER, Cluster, Discovery, LEVADA, LIMIT, Shape, Tools};
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Node, Tool, await_some, not_run, replicas, trace};

const NONE: i16 = 0;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const STORAGE_ERROR: i16 = 56;
const OTHER: i32 = LEVADA + 1;
const SEGMENT: &str = "00000000000000000000.log";

fn more(node: &Node) -> PathBuf {
    node.scratch().join("more")
}

/// The node with two data directories.
fn widened(node: Node) -> Node {
    let both = format!("{},{}", node.data().display(), more(&node).display());
    node.option("log.dirs", &both)
}

/// Partitions of topics with this beginning in a directory.
fn partitions(dir: &Path, topics: &str) -> Vec<String> {
    let names = fs::read_dir(dir).expect("a directory").flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with(topics));
    names.sort();
    names
}

/// The directories with their errors and partitions, as `kafka-log-dirs` shows them.
fn described(said: &str) -> BTreeMap<String, (String, Vec<String>)> {
    let json = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}"));
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let dirs = json["brokers"][0]["logDirs"].as_array().expect("directories").iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_string();
    let one = |dir: &serde_json::Value| {
        let held = dir["partitions"].as_array().expect("partitions").iter();
        let mut held: Vec<String> = held.map(|one| text(&one["partition"])).collect();
        held.sort();
        (text(&dir["logDir"]), (text(&dir["error"]), held))
    };
    dirs.map(one).collect()
}

fn survey(node: &Node) -> Vec<String> {
    let said = Tool::python("inventory.py").args(["survey", &node.bootstrap()]).run();
    said.stdout.lines().map(str::to_string).collect()
}

#[test]
fn directory_set_survives_switching_between_levada_and_kafka() {
    let mut node = widened(Node::of(Kind::Levada).option("offsets.topic.num.partitions", "5"));
    node = node.option("transaction.state.log.num.partitions", "5").option("log.retention.ms", "-1");
    node = node.option("transaction.max.timeout.ms", "3600000");
    node.start();
    Tool::python("inventory.py").args(["fill", &node.bootstrap()]).run();
    for next in [Kind::Kafka, Kind::Levada] {
        let (left, dirs) = (survey(&node), [node.data(), more(&node)]);
        let placed = dirs.each_ref().map(|dir| partitions(dir, "__consumer_offsets-"));
        assert!(placed.iter().all(|held| held.len() == 2 || held.len() == 3), "{placed:?}");
        node.stop();
        for dir in &dirs {
            assert!(dir.join(".kafka_cleanshutdown").exists(), "{} was closed in order", dir.display());
        }
        let both = format!("log.dirs={},{}", dirs[0].display(), dirs[1].display());
        let said = Tool::levada().args(["storage", "check", "-o", &both, "-o", "node.id=1"]).run();
        assert_eq!(said.stdout.matches(": sound: ").count(), 2, "{}", said.stdout);
        node.hand_over(next);
        node.start();
        assert_eq!(survey(&node), left, "under {next:?}");
        assert_eq!(dirs.each_ref().map(|dir| partitions(dir, "__consumer_offsets-")), placed);
        let said = Tool::java("org.apache.kafka.tools.LogDirsCommand")
            .args(["--bootstrap-server", &node.bootstrap(), "--describe"])
            .run();
        let shown = described(&said.stdout);
        for (dir, held) in dirs.iter().zip(&placed) {
            let (error, shown) = &shown[&dir.display().to_string()];
            assert!(error.is_empty() && held.iter().all(|one| shown.contains(one)), "{}", said.stdout);
        }
        Tool::python("inventory.py").args(["go-on", &node.bootstrap()]).run();
    }
    node.stop();
}

struct Stage {
    cluster: Cluster,
    tools: Tools,
    acknowledged: BTreeMap<String, i64>,
}

impl Stage {
    fn set() -> Self {
        let shape = Shape { controllers: 1, kafka: 0, levada: 2, discovery: Discovery::BootstrapServers };
        let mut cluster = Cluster::new(shape).widened();
        for role in [CONTROLLER, LEVADA] {
            cluster = cluster.option(role, "broker.session.timeout.ms", "4000");
        }
        cluster.start();
        let tools = cluster.tools_of_any();
        Self { cluster, tools, acknowledged: BTreeMap::new() }
    }

    fn leader(&mut self, topic: &str) -> Option<i32> {
        let (code, said) = self.tools.outcome(&format!("TopicCommand --describe --topic {topic}"));
        let leader = said.split_once("\tLeader: ")?.1.split(['\t', '\n']).next()?;
        leader.parse().ok().filter(|_| code == 0)
    }

    fn await_in_sync(&mut self, topic: &str) {
        await_some(&format!("both replicas of {topic} in sync"), LIMIT, || {
            let (_, said) = self.tools.outcome(&format!("TopicCommand --describe --topic {topic}"));
            let isr = said.split_once("\tIsr: ")?.1.split(['\t', '\n']).next()?;
            (isr.split(',').count() == 2).then_some(())
        });
    }

    /// Produces to the leader; returns true once the replicas in sync have acknowledged the record.
    fn produce(&mut self, topic: &str, broker: i32) -> i16 {
        let batch = Batch::of(&[&[7; 5_000], b"two"]).encode();
        let mut connection = Connection::open(self.cluster.node(broker).address());
        let error = raw::produce_error(&connection.call(&raw::produce(topic, -1, &batch)));
        if error == NONE {
            *self.acknowledged.entry(topic.to_string()).or_default() += 2;
        }
        error
    }

    /// Topics of one partition, led by the first broker, by the directory in which it has them.
    fn create(&mut self) -> [Vec<String>; 2] {
        for number in 0..4 {
            let topic = format!("t{number}");
            let assignment = format!("{LEVADA}:{OTHER}");
            self.tools
                .run(&format!("TopicCommand --create --topic {topic} --replica-assignment {assignment}"));
            self.await_in_sync(&topic);
            // The image reaches this broker after the tool has its response.
            await_some(&format!("{topic} is served"), LIMIT, || {
                (self.produce(&topic, LEVADA) == NONE).then_some(())
            });
        }
        let node = self.cluster.node(LEVADA);
        [node.data(), more(node)].map(|dir| {
            let held = partitions(&dir, "t");
            assert_eq!(held.len(), 2, "{held:?}");
            held.iter().map(|name| name.trim_end_matches("-0").to_string()).collect()
        })
    }

    /// Starts the first broker again. Of the writes to the log, all but the first of a thread fail.
    fn restart_with_failing_writes(&mut self, topic: &str) {
        let node = self.cluster.node_mut(LEVADA);
        let path = more(node).join(format!("{topic}-0")).join(SEGMENT).display().to_string();
        node.stop();
        let calls = "pwritev,pwrite64,pwritev2";
        let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:error=EIO:when=2+"));
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-P", &path];
        node.wrap(&[&strace[..], &["-e", &trace, "-e", &inject]].concat());
        node.start();
    }

    /// Both replicas are in sync, equal, and have all acknowledged records.
    fn assert_complete(&mut self, topic: &str) {
        self.await_in_sync(topic);
        let acknowledged = self.acknowledged[topic];
        let leader = self.leader(topic).expect("a leader");
        let mut connection = Connection::open(self.cluster.node(leader).address());
        let end = raw::listed_offset(&connection.call(&raw::list_end_offset(topic)));
        assert!(end >= acknowledged, "{topic}: {acknowledged} were acknowledged, {end} are there");
        let [one, other] = [LEVADA, OTHER].map(|id| log_of(self.cluster.node(id), topic));
        let differences = replicas::differences(&[(LEVADA, one.as_path()), (OTHER, other.as_path())]);
        assert!(differences.is_empty(), "{topic}: {differences:?}");
    }

    fn describe(&mut self) -> BTreeMap<String, (String, Vec<String>)> {
        described(&self.tools.run(&format!("LogDirsCommand --describe --broker-list {LEVADA}")))
    }
}

/// True if strace can make the calls of a Levada fail; names the test as skipped otherwise.
fn can_fail() -> bool {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: it takes a Levada");
        return false;
    }
    if !trace::is_allowed() {
        not_run("a log directory that fails: there is no strace that may trace");
        return false;
    }
    true
}

#[test]
fn partitions_of_a_failed_directory_move() {
    if !can_fail() {
        return;
    }
    let mut stage = Stage::set();
    let [kept, lost] = stage.create();
    let assigned = stage.describe();
    assert!(assigned.values().all(|(error, _)| error.is_empty()), "{assigned:?}");
    stage.restart_with_failing_writes(&lost[0]);
    for topic in kept.iter().chain(&lost) {
        stage.await_in_sync(topic);
    }
    for topic in kept.iter().chain(&lost) {
        await_some(&format!("the preferred replica leads {topic}"), LIMIT, || {
            stage.tools.outcome("LeaderElectionCommand --election-type preferred --all-topic-partitions");
            (stage.leader(topic) == Some(LEVADA)).then_some(())
        });
    }
    // Each thread has a first write that succeeds, and the broker may lag behind the election.
    let refused = await_some("a write that fails", LIMIT, || match stage.produce(&lost[0], LEVADA) {
        NONE | NOT_LEADER_OR_FOLLOWER => None,
        other => Some(other),
    });
    assert_eq!(refused, STORAGE_ERROR);

    for topic in &lost {
        await_some(&format!("the other broker leads {topic}"), LIMIT, || {
            (stage.leader(topic) == Some(OTHER)).then_some(())
        });
        await_some(&format!("{topic} takes records again"), LIMIT, || {
            (stage.produce(topic, OTHER) == NONE).then_some(())
        });
    }
    for topic in &kept {
        assert_eq!(stage.leader(topic), Some(LEVADA), "{topic} stays");
        assert_eq!(stage.produce(topic, LEVADA), NONE);
    }
    let failed = more(stage.cluster.node(LEVADA)).display().to_string();
    let shown = stage.describe();
    assert!(shown[&failed].0.contains("KafkaStorageException"), "{shown:?}");
    assert_eq!(shown.values().filter(|(error, _)| error.is_empty()).count(), 1, "{shown:?}");
    let node = stage.cluster.node(LEVADA);
    let (status, body) = node.http("/readyz");
    assert!(status == 503 && body.contains(&failed), "{status} {body}");
    let metrics = node.metrics();
    assert!(metrics.contains(&("levada_log_directories_offline".to_string(), 1.0)), "{metrics:?}");
    let sizes = metrics.iter().filter(|(name, _)| name.starts_with("levada_log_directory_bytes{"));
    let sizes: Vec<_> = sizes.collect();
    assert!(sizes.len() == 1 && sizes[0].1 > 0.0 && !sizes[0].0.contains(&failed), "{sizes:?}");

    let node = stage.cluster.node_mut(LEVADA);
    node.stop();
    node.wrap(&[]);
    node.start();
    for topic in kept.iter().chain(&lost) {
        stage.assert_complete(topic);
    }
    assert_eq!(stage.describe().values().filter(|(error, _)| error.is_empty()).count(), 2);
    stage.cluster.assert_no_errors();
}

#[test]
fn replica_with_deleted_files_yields_leadership() {
    if Kind::under_test() == Kind::Kafka {
        println!("not run: the brokers of this cluster are Levada's");
        return;
    }
    let mut stage = Stage::set();
    stage.create();
    stage.tools.run(
        "ConfigCommand --alter --entity-type topics --entity-name t0 --add-config segment.bytes=1048576",
    );
    fs::remove_dir_all(log_of(stage.cluster.node(LEVADA), "t0")).expect("the directory of the log");
    // The open segment still takes records; the next one cannot be created.
    let refused = await_some("a write that fails", LIMIT, || {
        (0..100).map(|_| stage.produce("t0", LEVADA)).find(|error| *error != NONE)
    });
    assert_eq!(refused, STORAGE_ERROR);
    await_some("the other broker leads", LIMIT, || (stage.leader("t0") == Some(OTHER)).then_some(()));
    await_some("records are taken again", LIMIT, || (stage.produce("t0", OTHER) == NONE).then_some(()));
    assert_eq!(stage.leader("t1"), Some(LEVADA), "its directory works");
    let shown = stage.describe();
    assert!(shown.values().all(|(error, _)| error.is_empty()), "{shown:?}");

    let node = stage.cluster.node_mut(LEVADA);
    node.stop();
    node.start();
    stage.assert_complete("t0");
    stage.cluster.assert_no_errors();
}

/// The directory of a topic's only partition.
fn log_of(node: &Node, topic: &str) -> PathBuf {
    let found = [node.data(), more(node)].map(|dir| dir.join(format!("{topic}-0")));
    found.into_iter().find(|path| path.exists()).expect("the broker has a replica")
}

/// Reassignment of a topic's only partition for kafka-reassign-partitions, in JSON: the first
/// replica gets the directory, the others any.
fn plan(node: &Node, topic: &str, replicas: &[i32], dir: &Path) -> String {
    let dirs: Vec<String> = replicas.iter().map(|_| "any".to_owned()).collect();
    let dirs: Vec<String> = [dir.display().to_string()].into_iter().chain(dirs.into_iter().skip(1)).collect();
    let partition =
        serde_json::json!({"topic": topic, "partition": 0, "replicas": replicas, "log_dirs": dirs});
    let path = node.scratch().join("plan.json");
    let plan = serde_json::json!({"version": 1, "partitions": [partition]});
    fs::write(&path, plan.to_string()).expect("a file of the test's own");
    path.display().to_string()
}

/// The copy of a partition on its way to a directory, as `kafka-log-dirs` shows it: its size and
/// lag.
fn coming(said: &str, to: &Path) -> Option<(i64, i64)> {
    let json = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}"));
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let dirs = json["brokers"][0]["logDirs"].as_array().expect("directories");
    let dir = dirs.iter().find(|dir| dir["logDir"] == to.display().to_string()).expect("the directory");
    let held = dir["partitions"].as_array().expect("partitions");
    let future = held.iter().find(|one| one["isFuture"] == true)?;
    Some((future["size"].as_i64().expect("bytes"), future["offsetLag"].as_i64().expect("offsets")))
}

/// A tool of Kafka's that talks to a node.
fn tool(class: &str, node: &Node, rest: &str) -> String {
    let bootstrap = node.bootstrap();
    let mut tool = Tool::java(class);
    tool.args(["--bootstrap-server", &bootstrap]);
    for word in rest.split(' ') {
        tool.arg(word);
    }
    tool.run().stdout
}

#[test]
fn single_broker_replica_moves_at_throttled_rate() {
    let mut node = widened(Node::of(Kind::under_test()).option("num.partitions", "1"));
    node.start();
    let mut connection = Connection::open(node.address());
    tool("org.apache.kafka.tools.TopicCommand", &node, "--create --topic t --partitions 1");
    let batch = Batch::of(&[&[7; 10_000]]).encode();
    for _ in 0..60 {
        assert_eq!(raw::produce_error(&connection.call(&raw::produce("t", -1, &batch))), NONE);
    }
    let dirs = [node.data(), more(&node)];
    let at = dirs.iter().position(|dir| dir.join("t-0").exists()).expect("the broker has the partition");
    let (from, to) = (&dirs[at], &dirs[1 - at]);
    let plan = plan(&node, "t", &[1], to);
    let (reassign, log_dirs) = (
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "org.apache.kafka.tools.LogDirsCommand",
    );
    let execute = format!("--execute --reassignment-json-file {plan} --replica-alter-log-dirs-throttle");
    let said = tool(reassign, &node, &format!("{execute} 20000"));
    assert!(said.contains("Successfully started moving log directory"), "{said}");
    let (size, lag) = await_some("a part of the copy", LIMIT, || {
        coming(&tool(log_dirs, &node, "--describe"), to).filter(|(size, _)| *size > 0)
    });
    assert!(size < 600_000 && lag > 0 && from.join("t-0").exists(), "{size} bytes, {lag} to go");
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("t", -1, &batch))), NONE);
    tool(reassign, &node, &format!("--additional {execute} 100000000"));
    await_some("the end of the move", LIMIT, || {
        let said =
            tool(reassign, &node, &format!("--verify --preserve-throttles --reassignment-json-file {plan}"));
        said.contains("Reassignment of replica t-0-1 completed successfully").then_some(())
    });
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("t", -1, &batch))), NONE);
    assert_eq!(partitions(to, "t-0"), ["t-0"]);
    await_some("the removal of the former log", LIMIT, || partitions(from, "t-0").is_empty().then_some(()));
    node.stop();
    node.start();
    let mut connection = Connection::open(node.address());
    await_some("the records after a restart", LIMIT, || {
        (raw::listed_offset(&connection.call(&raw::list_end_offset("t"))) == 62).then_some(())
    });
    assert_eq!((partitions(to, "t-0"), partitions(from, "t-0")), (vec!["t-0".to_owned()], vec![]));
    node.stop();
}

#[test]
fn leader_and_follower_change_directories_under_load() {
    if Kind::under_test() == Kind::Kafka {
        println!("not run: the brokers of this cluster are Levada's");
        return;
    }
    let mut stage = Stage::set();
    stage.create();
    for broker in [LEVADA, OTHER] {
        let node = stage.cluster.node(broker);
        let dirs = [node.data(), more(node)];
        let at = dirs.iter().position(|dir| dir.join("t0-0").exists()).expect("the broker has a replica");
        let replicas = if broker == LEVADA { [LEVADA, OTHER] } else { [OTHER, LEVADA] };
        let plan = plan(node, "t0", &replicas, &dirs[1 - at]);
        let said =
            stage.tools.run(&format!("ReassignPartitionsCommand --execute --reassignment-json-file {plan}"));
        assert!(said.contains("Successfully started"), "{said}");
        await_some(&format!("the move of broker {broker}"), LIMIT, || {
            let leader = stage.leader("t0")?;
            stage.produce("t0", leader);
            dirs[1 - at].join("t0-0").exists().then_some(())
        });
        await_some("the tool sees the end", LIMIT, || {
            let verify = format!("ReassignPartitionsCommand --verify --reassignment-json-file {plan}");
            let (_, said) = stage.tools.outcome(&verify);
            said.contains(&format!("Reassignment of replica t0-0-{broker} completed successfully"))
                .then_some(())
        });
        assert_eq!(partitions(&dirs[at], "t0-0"), Vec::<String>::new());
    }
    for broker in [LEVADA, OTHER] {
        let node = stage.cluster.node_mut(broker);
        node.stop();
        node.start();
        stage.await_in_sync("t0");
    }
    stage.assert_complete("t0");
    stage.cluster.assert_no_errors();
}

/// A standalone Levada with two directories and strace at its side, which makes calls on one file
/// fail.
struct Injured {
    node: Node,
    strace: std::process::Child,
}

impl Injured {
    /// Has the calls fail from now on; returns when each thread is traced.
    fn begin(node: Node, calls: &str, file: &Path) -> Self {
        let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:error=EIO"));
        let (pid, file) = (node.pid().to_string(), file.display().to_string());
        let options = ["-f", "-qq", "-o", "/dev/null", "-P", &file, "-e", &trace, "-e", &inject, "-p", &pid];
        let strace = Command::new("strace").args(options).spawn().expect("strace");
        await_some("every thread is traced", LIMIT, || {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
            let traced = |task: &Path| {
                let status = fs::read_to_string(task.join("status")).unwrap_or_default();
                status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
            };
            tasks.flatten().all(|task| traced(&task.path())).then_some(())
        });
        Self { node, strace }
    }

    fn end(mut self) -> Node {
        let _ = self.strace.kill();
        self.strace.wait().expect("strace has ended");
        self.node
    }
}

/// A standalone Levada with topics in both directories, and the topic in the second one.
fn spread() -> Option<(Node, String)> {
    if !can_fail() {
        return None;
    }
    let mut node = widened(Node::new());
    node.start();
    let mut connection = Connection::open(node.address());
    for topic in ["one", "two"] {
        assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), NONE);
    }
    let topic =
        partitions(&more(&node), "").into_iter().find_map(|name| name.strip_suffix("-0").map(String::from));
    Some((node, topic.expect("a topic in the second directory")))
}

#[test]
fn device_failing_during_fetch_takes_directory_offline() {
    let Some((node, topic)) = spread() else { return };
    let mut connection = Connection::open(node.address());
    let batch = Batch::of(&[&[7; 200_000]]).encode();
    for _ in 0..4 {
        assert_eq!(raw::produce_error(&connection.call(&raw::produce(&topic, -1, &batch))), NONE);
    }
    let file = more(&node).join(format!("{topic}-0")).join(SEGMENT);
    let injured = Injured::begin(node, "splice,sendfile", &file);
    let sent = connection.try_call(&raw::fetch(&topic, 0, 1 << 20));
    assert!(sent.is_err(), "an error amid an answer is told by hanging up");
    let failed = more(&injured.node).display().to_string();
    await_some("the directory is offline", LIMIT, || {
        let (status, body) = injured.node.http("/readyz");
        (status == 503 && body.contains(&failed)).then_some(())
    });
    let mut node = injured.end();
    node.assert_running("with one directory");
    node.stop();
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch(&topic, 0, 1 << 20))), NONE);
    node.stop();
}

#[test]
fn failing_metadata_log_device_ends_the_broker() {
    let Some((node, _)) = spread() else { return };
    let mut connection = Connection::open(node.address());
    let file = node.data().join("__cluster_metadata-0").join(SEGMENT);
    let mut injured = Injured::begin(node, "fsync,fdatasync", &file);
    let refused = connection.try_call(&raw::create_topic("three", 1));
    assert!(refused.is_err() || refused.is_ok_and(|refused| raw::topic_error(&refused) != NONE));
    let status = injured.node.wait();
    assert!(!status.success(), "{status}");
    let mut node = injured.end();
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic("four", 1))), NONE);
    node.stop();
}
