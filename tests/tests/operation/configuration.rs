//! The broker's keys: Kafka's own table, the keys that a broker lists, and keys that turn a feature
//! off.
//!
//! Suite: short; 3 s; needs java
//! Soak: controllers 3

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use levada_tests::node::Kind;
use levada_tests::{Node, Tool};

/// Keys of Kafka's authorizer, which no table of Kafka's has.
const OF_AUTHORIZER: [&str; 2] = ["allow.everyone.if.no.acl.found", "super.users"];

fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/config/src/kafka-4.3.1.tsv")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn kafka_key_table_matches_its_jars() {
    let printed = Tool::own_java("Keys").run().stdout;
    if std::env::var_os("LEVADA_BLESS").is_some() {
        fs::write(table(), &printed).expect("room for the table");
    }
    let kept = read(&table());
    let differing = printed.lines().zip(kept.lines()).find(|(printed, kept)| printed != kept);
    assert_eq!(differing, None, "LEVADA_BLESS=1 writes the table anew");
    assert_eq!(printed.lines().count(), kept.lines().count());
}

#[test]
fn broker_config_keys_are_listed_as_by_kafka() {
    let node = Node::started();
    let mut tool = Tool::java("kafka.admin.ConfigCommand");
    tool.args(["--bootstrap-server", &node.bootstrap(), "--describe", "--all"]);
    let said = tool.args(["--entity-type", "brokers", "--entity-name", "1"]).run();
    let listed: BTreeSet<&str> =
        said.stdout.lines().filter_map(|line| line.strip_prefix("  ")?.split('=').next()).collect();
    let text = read(&table());
    let expected: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("broker\t")?.split('\t').next()).collect();
    let missing: Vec<_> = expected.difference(&listed).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let is_own = |name: &&&str| {
        // Kafka passes keys of this prefix to the manager of the metadata of remote segments.
        let is_passed_on = name.starts_with("rlmm.config.");
        // Confluent's clients have the keys of a schema registry, Kafka's broker has none.
        let is_registrys = name.starts_with("schema.registry.");
        let is_levadas = name.starts_with("levada.") || OF_AUTHORIZER.contains(name);
        let is_levadas = is_levadas || is_passed_on || is_registrys;
        Kind::under_test() == Kind::Levada && is_levadas
    };
    let strange: Vec<_> = listed.difference(&expected).filter(|name| !is_own(name)).collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert!(said.stdout.contains("  num.io.threads=8 sensitive=false"), "{}", said.stdout);
}

#[test]
fn disabled_consumer_protocol_refuses_consumer_groups() {
    let mut node = Node::new().option("group.coordinator.rebalance.protocols", "classic");
    node.start();
    let requests = node.scratch().join("requests.txt");
    fs::write(
        &requests,
        "beat CONSUMER_GROUP_HEARTBEAT 1 {\"groupId\":\"g\",\"memberId\":\"abc\",\"memberEpoch\":0,\"instanceId\":null,\
         \"rackId\":null,\"rebalanceTimeoutMs\":60000,\"subscribedTopicNames\":[\"t\"],\"subscribedTopicRegex\":null,\
         \"serverAssignor\":null,\"topicPartitions\":[]}\n\
         describe CONSUMER_GROUP_DESCRIBE 1 {\"groupIds\":[\"g\"],\"includeAuthorizedOperations\":false}\n",
    )
    .expect("room for the requests");
    let said = Tool::own_java("Ask").args([&node.bootstrap(), &requests.display().to_string()]).run().stdout;
    let answers: Vec<&str> = said.lines().collect();
    assert_eq!(answers.len(), 2, "{said}");
    for answer in answers {
        assert!(answer.contains("\"errorCode\":35"), "UNSUPPORTED_VERSION: {answer}");
    }
}

#[test]
fn unknown_keys_are_fatal_unless_lenient() {
    let serve = |lenient: &[&str]| {
        let mut tool = Tool::levada();
        tool.args(["config", "show", "--changed", "-o", "own.plug.in=planted", "-o", "node.id=7"]);
        tool.args(["-o", "other.plug.in=planted"]);
        for word in lenient {
            tool.arg(word);
        }
        tool.outcome()
    };
    let (code, said) = serve(&[]);
    assert_eq!(code, Some(2), "{}", said.stderr);
    for key in ["own", "other"] {
        assert!(said.stderr.contains(&format!("error: unknown key {key}.plug.in")), "{}", said.stderr);
    }
    let (code, said) = serve(&["--lenient"]);
    assert_eq!(code, Some(0), "{}", said.stderr);
    assert!(said.stderr.contains("own.plug.in (flag -o) has no effect: no such key"), "{}", said.stderr);
    assert!(said.stdout.contains("node.id") && !said.stdout.contains("planted"), "{}", said.stdout);
}
