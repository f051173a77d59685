//! A data directory that changes hands: what Kafka leaves, Levada serves as it is, and the other
//! way round.
//!
//! Suite: long; 132 s; needs java, python

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::{Node, Tool, await_some};
use serde_json::Value;

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";

const LIMIT: Duration = Duration::from_secs(60);

/// Logins by the password of alice, and by a delegation token of hers.
const ALICE: &str = "alice";
const TOKEN: &str = "token";

/// A node whose directory changes hands, and its listener for clients that authenticate.
struct Estate {
    node: Node,
    listener: SocketAddr,
    /// Id of the token of alice.
    token: String,
}

impl Estate {
    /// A filled directory of a running broker.
    fn fill(mut node: Node) -> Self {
        let listener = node.listen("CLIENT", "SASL_PLAINTEXT");
        let users = format!("{PLAIN} required user_alice=\"alice-pass\";");
        node = node
            .option("offsets.topic.num.partitions", "5")
            .option("transaction.state.log.num.partitions", "5")
            .option("log.retention.ms", "-1")
            // Open transactions must still be open when they are looked at.
            .option("transaction.max.timeout.ms", "3600000")
            .option("delegation.token.secret.key", "key of the tokens")
            .option("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256")
            .option("listener.name.client.plain.sasl.jaas.config", &users)
            .option("listener.name.client.scram-sha-256.sasl.jaas.config", &format!("{SCRAM} required;"));
        node.start();
        let mut estate = Self { node, listener, token: String::new() };
        estate.run("fill");
        estate.write_login(ALICE, "PLAIN", &format!("{PLAIN} required username=alice password=alice-pass;"));
        let created = estate.levada(ALICE, "token create --renewer bob --output json");
        let created: Value = serde_json::from_str(&created).expect("JSON");
        let text = |key: &str| created[key].as_str().expect("a text").to_owned();
        let (id, hmac) = (text("id"), text("hmac"));
        let login = format!("{SCRAM} required username=\"{id}\" password=\"{hmac}\" tokenauth=true;");
        estate.write_login(TOKEN, "SCRAM-SHA-256", &login);
        estate.await_change("a token", "[]");
        estate.token = id;
        estate
    }

    fn run(&self, verb: &str) -> String {
        Tool::python("inventory.py").args([verb, &self.node.bootstrap()]).run().stdout
    }

    /// Continues the work of its owners.
    fn go_on(&self) {
        self.run("go-on");
        let before = self.tokens();
        self.levada(ALICE, &format!("token renew {} --for 2d", self.token));
        self.await_change("the renewal", &before);
    }

    /// Tokens of alice, with their times.
    fn tokens(&self) -> String {
        self.levada(ALICE, "token list --output json")
    }

    /// Waits until the broker shows other tokens than before.
    fn await_change(&self, what: &str, before: &str) {
        await_some(what, LIMIT, || (self.tokens().trim() != before.trim()).then_some(()));
    }

    /// Everything that a client can see, line by line.
    fn survey(&self) -> Vec<String> {
        let tokens = self.tokens();
        assert!(tokens.contains(&self.token), "{tokens}");
        let topics = self.levada(TOKEN, "topic list --output json");
        let said = [self.run("survey"), tokens, topics].concat();
        said.lines().map(str::to_string).collect()
    }

    /// Output of a command of the binary by a client that has logged in.
    fn levada(&self, login: &str, line: &str) -> String {
        let mut tool = Tool::levada();
        for word in line.split(' ') {
            tool.arg(word);
        }
        let config = self.properties(login).display().to_string();
        tool.args(["--brokers", &self.listener.to_string(), "--command-config", &config]).run().stdout
    }

    fn write_login(&self, name: &str, mechanism: &str, module: &str) {
        let text = format!(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={module}\n"
        );
        fs::write(self.properties(name), text).expect("room for a file");
    }

    /// Path of the client properties of a login.
    fn properties(&self, login: &str) -> PathBuf {
        self.node.scratch().join(format!("{login}.properties"))
    }
}

/// Fills a directory under the first of `hands`, and has every other one serve it, work on, and
/// pass it on.
fn pass_on(hands: &[Kind]) {
    let mut estate = Estate::fill(Node::of(hands[0]));
    for next in &hands[1..] {
        let left = estate.survey();
        assert!(left.len() > 40, "{left:#?}");
        estate.node.stop();
        check(&estate.node);
        estate.node.hand_over(*next);
        // The directory says how many there are; a successor's configuration may say something
        // else.
        for key in ["offsets.topic.num.partitions", "transaction.state.log.num.partitions"] {
            estate.node = estate.node.option(key, "7");
        }
        estate.node.start();
        let found = estate.survey();
        for (left, found) in left.iter().zip(&found) {
            assert_eq!(left, found, "under {next:?}");
        }
        assert_eq!(left.len(), found.len(), "under {next:?}: {left:#?}\n{found:#?}");
        estate.go_on();
    }
    estate.node.stop();
    check(&estate.node);
}

/// Nothing in it is damaged, whichever broker left it.
fn check(node: &Node) {
    let said = Tool::levada().args(["storage", "check", &node.data().display().to_string()]).run();
    assert!(said.stdout.contains(": sound: "), "{}", said.stdout);
}

#[test]
fn kafka_directory_survives_levada_and_return() {
    pass_on(&[Kind::Kafka, Kind::Levada, Kind::Kafka]);
}

#[test]
fn levada_directory_survives_kafka_and_return() {
    pass_on(&[Kind::Levada, Kind::Kafka, Kind::Levada]);
}

/// The files of the metadata log that end so, in order.
fn metadata_files(node: &Node, end: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(node.data().join("__cluster_metadata-0")).expect("the directory is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    paths.sort();
    paths
}

/// Levada takes snapshots and removes what lies before them; Kafka's tools read them, and Kafka
/// continues from there.
#[test]
fn truncated_metadata_log_survives_kafka_and_return() {
    let node = Node::of(Kind::Levada)
        .option("metadata.log.max.record.bytes.between.snapshots", "500")
        .option("metadata.max.retention.bytes", "500");
    let mut estate = Estate::fill(node);
    await_some("the metadata log to be shortened", LIMIT, || {
        (!metadata_files(&estate.node, ".log")[0].ends_with("00000000000000000000.log")).then_some(())
    });
    let left = estate.survey();
    estate.node.stop();
    check(&estate.node);
    // A broker that runs removes older snapshots.
    let snapshot = metadata_files(&estate.node, ".checkpoint").pop().expect("a snapshot");
    let path = snapshot.display().to_string();
    let said = Tool::java("org.apache.kafka.tools.DumpLogSegments")
        .args(["--cluster-metadata-decoder", "--files", &path])
        .run();
    for part in [
        "SnapshotHeader",
        "SnapshotFooter",
        "FEATURE_LEVEL_RECORD",
        "PARTITION_RECORD",
        "REGISTER_BROKER_RECORD",
    ] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    for next in [Kind::Kafka, Kind::Levada] {
        estate.node.hand_over(next);
        estate.node.start();
        assert_eq!(estate.survey(), left, "under {next:?}");
        estate.node.stop();
        check(&estate.node);
    }
}
