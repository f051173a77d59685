//! Kafka Connect, distributed, carries the lines of a file into a topic and on into another file,
//! while its worker and the broker are killed.
//!
//! Suite: long; 30 s; needs java, kcat
//! Soak: scale 5, repeated
//! Soak: controllers 3

use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use levada_testing::{scaled, seed};
use levada_tests::node::free_port;
use levada_tests::tool::Conversation;
use levada_tests::{Node, Tool, await_some, http};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

const CRASHES: usize = 4;
const LIMIT: Duration = Duration::from_secs(120);

struct Scene {
    node: Node,
    random: StdRng,
    address: SocketAddr,
    /// None between its death and its successor's start.
    worker: Option<Conversation>,
    source: File,
    written: usize,
}

impl Scene {
    fn set(random: StdRng) -> Self {
        let mut node = Node::new()
            .option("group.initial.rebalance.delay.ms", "0")
            .option("group.min.session.timeout.ms", "1000");
        node.start();
        let address = free_port();
        fs::write(worker_file(&node), worker_properties(&node, address)).expect("a file");
        let source = File::create(node.scratch().join("source")).expect("a file");
        let worker = Some(start(&node));
        let mut scene = Self { node, random, address, worker, source, written: 0 };
        let file = |name: &str| scene.node.scratch().join(name).display().to_string();
        let settings = [
            (
                "source",
                json!({"connector.class": "FileStreamSource", "file": file("source"), "topic": "carried"}),
            ),
            ("sink", json!({"connector.class": "FileStreamSink", "file": file("sink"), "topics": "carried"})),
        ];
        for (name, settings) in settings {
            scene.demand("PUT", &format!("/connectors/{name}/config"), &settings.to_string());
        }
        scene.write(50);
        scene
    }

    /// Repeats the request until the worker accepts it: it refuses while it moves its work.
    fn demand(&self, method: &str, path: &str, body: &str) {
        await_some(&format!("{method} {path}"), LIMIT, || {
            let (status, _) = http::call(self.address, method, path, body).ok()?;
            (status < 300).then_some(())
        });
    }

    fn write(&mut self, lines: usize) {
        let lines: String = (self.written..self.written + lines).map(token).collect();
        self.source.write_all(lines.as_bytes()).expect("room");
        self.written += lines.lines().count();
    }

    fn sunk(&self) -> String {
        fs::read_to_string(self.node.scratch().join("sink")).unwrap_or_default()
    }

    /// Waits until the newest line has arrived, writes more, and does not wait for those.
    fn go_on(&mut self) {
        let (newest, begun) = (token(self.written - 1), Instant::now());
        await_some("the newest line", LIMIT, || self.sunk().contains(newest.trim_end()).then_some(()));
        // A worker that waits for a time limit of its own shows here.
        println!("the newest line arrived after {:.1} s", begun.elapsed().as_secs_f64());
        self.write(200);
        std::thread::sleep(Duration::from_micros(self.random.random_range(0..300_000)));
    }

    fn crash(&mut self) {
        let (broker, worker) = [(true, false), (false, true), (true, true)][self.random.random_range(0..3)];
        println!("kill broker: {broker}, worker: {worker}");
        if broker {
            self.node.kill();
        }
        if worker {
            self.worker.take().expect("it runs").kill();
        }
        if broker {
            self.node.start();
        }
        if worker {
            self.worker = Some(start(&self.node));
        }
        self.restart_failed();
    }

    /// A task that failed while the broker was down stays failed until a request restarts it.
    fn restart_failed(&self) {
        for name in ["source", "sink"] {
            await_some("a running task", LIMIT, || {
                let (_, body) =
                    http::call(self.address, "GET", &format!("/connectors/{name}/status"), "").ok()?;
                let status: Value = serde_json::from_str(&body).ok()?;
                let states: Vec<&str> =
                    status["tasks"].as_array()?.iter().filter_map(|task| task["state"].as_str()).collect();
                if states.contains(&"FAILED") {
                    println!("{name} failed: {body}");
                    let path = format!("/connectors/{name}/restart?includeTasks=true&onlyFailed=true");
                    http::call(self.address, "POST", &path, "").ok()?;
                }
                (states == ["RUNNING"]).then_some(())
            });
        }
    }
}

/// A line that is not part of any other.
fn token(number: usize) -> String {
    format!("<line {number}>\n")
}

fn worker_file(node: &Node) -> PathBuf {
    node.scratch().join("worker.properties")
}

fn worker_properties(node: &Node, address: SocketAddr) -> String {
    let text = "org.apache.kafka.connect.storage.StringConverter";
    let mut lines = vec![
        format!("bootstrap.servers={}", node.bootstrap()),
        format!("listeners=http://{address}"),
        format!("key.converter={text}"),
        format!("value.converter={text}"),
    ];
    let settings = [
        "group.id=carriers",
        "exactly.once.source.support=enabled",
        "plugin.discovery=service_load",
        "config.storage.topic=carriers-config",
        "offset.storage.topic=carriers-offsets",
        "status.storage.topic=carriers-status",
        "config.storage.replication.factor=1",
        "offset.storage.replication.factor=1",
        "status.storage.replication.factor=1",
        "offset.storage.partitions=3",
        "status.storage.partitions=3",
        "offset.flush.interval.ms=300",
        "session.timeout.ms=2000",
        "heartbeat.interval.ms=300",
        "consumer.session.timeout.ms=2000",
        "consumer.heartbeat.interval.ms=300",
        "scheduled.rebalance.max.delay.ms=0",
    ];
    lines.extend(settings.map(String::from));
    lines.join("\n") + "\n"
}

fn start(node: &Node) -> Conversation {
    let mut tool = Tool::own_java("org.apache.kafka.connect.cli.ConnectDistributed");
    tool.arg(worker_file(node).display().to_string()).spawn()
}

/// The lines that readers of committed records see in the topic, in order.
fn carried(node: &Node) -> String {
    let mut kcat = Tool::kcat();
    kcat.args(["-C", "-b", &node.bootstrap(), "-t", "carried", "-e", "-q", "-f", "%s\\n"]);
    kcat.args(["-X", "isolation.level=read_committed"]).run().stdout
}

#[test]
fn connect_keeps_delivery_guarantees_across_crashes() {
    let mut scene = Scene::set(StdRng::seed_from_u64(seed()));
    for _ in 0..scaled(CRASHES) {
        scene.go_on();
        scene.crash();
    }
    let all: Vec<String> = (0..scene.written).map(token).collect();
    await_some("every line", LIMIT, || {
        let sunk = scene.sunk();
        all.iter().all(|line| sunk.contains(line.trim_end())).then_some(())
    });
    let carried = carried(&scene.node);
    let (expected, found): (Vec<_>, Vec<_>) =
        (all.iter().map(|line| line.trim_end()).collect(), carried.lines().collect());
    println!(
        "{} lines, {} in the topic, {} in the sink",
        all.len(),
        found.len(),
        scene.sunk().lines().count()
    );
    assert!(expected == found, "other lines are in the topic: {carried}");
    drop(scene.worker);
    scene.node.stop();
}
