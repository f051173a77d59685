//! The log as an operator and his machines read it: JSON, one line for each event with who caused
//! it, and levels that change while the broker runs.
//!
//! Suite: short; 9 s; needs java, python

use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::pki::{Authority, Flaw};
use levada_tests::raw::lose_transaction;
use levada_tests::{Node, Tool, await_some, paths, process};
use rustix::process::Signal;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// The lines of the log so far, each of which must be an object with these fields.
fn lines(node: &Node) -> Vec<Value> {
    let read = |line: &str| -> Value {
        let read: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["timestamp", "level", "message", "target"] {
            assert!(read[field].is_string(), "{field} in {line}");
        }
        read
    };
    node.talk().lines().map(read).collect()
}

/// Waits for the only event with this message and these fields.
fn event(node: &Node, message: &str, fields: &Value) -> Value {
    let is_wanted = |line: &Value| {
        let fields = fields.as_object().expect("fields");
        line["message"] == message && fields.iter().all(|(name, value)| line[name] == *value)
    };
    let found = || lines(node).into_iter().filter(is_wanted).collect::<Vec<_>>();
    await_some(message, LIMIT, || (!found().is_empty()).then_some(()));
    let mut found = found();
    assert_eq!(found.len(), 1, "{message}: {found:?}");
    found.remove(0)
}

fn configs(node: &Node, words: &[&str]) -> (Option<i32>, String) {
    let mut tool = Tool::java("kafka.admin.ConfigCommand");
    tool.args(["--bootstrap-server", &node.bootstrap()]);
    words.iter().for_each(|word| {
        tool.arg(word);
    });
    let (code, said) = tool.outcome();
    (code, said.stdout + &said.stderr)
}

#[test]
fn json_log_names_the_cause_of_each_event() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    if Node::is_left_out_in_clusters("the directory is formatted, and controllers log changes") {
        return;
    }
    let mut node = Node::new();
    let authority = Authority::new(&node.scratch().join("pki"));
    let store = authority.issue("broker", Flaw::None);
    node.listen("SECURE", "SSL");
    let mut node = node
        .option("levada.log.format", "json")
        .option("authorizer.class.name", AUTHORIZER)
        .option("super.users", "User:ANONYMOUS")
        .option("offsets.topic.num.partitions", "2")
        .option("auto.create.topics.enable", "true")
        .option("transaction.partition.verification.enable", "false")
        .option("listener.name.secure.ssl.keystore.type", "PEM")
        .option("listener.name.secure.ssl.keystore.location", &store.display().to_string());
    node.start();
    event(&node, "new data directory", &json!({}));
    event(&node, "listening", &json!({"address": node.bootstrap()}));
    let ready = event(&node, "ready", &json!({}));
    assert!(ready["took_ms"].is_u64(), "a number, and none in the message: {ready}");
    changes(&node);
    rebalances(&node);

    authority.issue("broker", Flaw::None);
    process::signal(node.pid(), Signal::HUP);
    event(&node, "TLS key and trust stores reloaded", &json!({"listener": "SECURE"}));
    event(&node, "configuration reloaded", &json!({}));
    assert!(!node.talk().contains("planted-secret"));

    node.kill();
    node.launch();
    event(&node, "unclean shutdown detected; checking logs", &json!({}));
    event(&node, "recovery is complete", &json!({}));
    let talk = stopped(&mut node);
    for message in ["stop requested", "stop finished"] {
        assert_eq!(talk.matches(&format!("\"message\":\"{message}\"")).count(), 1, "{talk}");
    }
}

/// The given fields, and those of the client that has caused the event.
fn by(fields: Value) -> Value {
    let mut all = json!({"principal": "User:ANONYMOUS", "host": "127.0.0.1"});
    all.as_object_mut().expect("fields").extend(fields.as_object().expect("fields").clone());
    all
}

/// Changes of every kind that clients make.
fn changes(node: &Node) {
    node.levada("topic create clicks -p 2").run();
    event(node, "topic created", &by(json!({"topic": "clicks", "partitions": 2})));
    node.levada("topic alter clicks -p 3").run();
    event(node, "partitions added", &by(json!({"topic": "clicks", "partitions": 3})));
    node.levada("config set topic clicks retention.ms=1000").run();
    let changed =
        json!({"resource_type": "TOPIC", "resource": "clicks", "key": "retention.ms", "new": "1000"});
    event(node, "configuration changed", &by(changed));
    node.levada("config set topic clicks retention.ms=2000").run();
    let changed = json!({"resource": "clicks", "key": "retention.ms", "old": "1000", "new": "2000"});
    event(node, "configuration changed", &by(changed));
    node.levada("config set quota client-id=batch producer_byte_rate=1000").run();
    let changed = json!({"resource_type": "CLIENT_QUOTA", "resource": "client-id=batch", "new": "1000"});
    event(node, "configuration changed", &by(changed));
    Tool::python("users.py").args([&node.bootstrap(), "ada", "planted-secret"]).run();
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let changed = json!({"user": "ada", "mechanism": mechanism, "removed": false});
        event(node, "credentials changed", &by(changed));
    }
    node.levada("acl add ada --allow read --topic clicks").run();
    let added = event(node, "access control entry added", &by(json!({})));
    assert!(added["entry"].as_str().is_some_and(|entry| entry.contains("User:ada")), "{added}");
    node.levada("acl remove ada").run();
    event(node, "access control entry removed", &by(json!({})));
    node.levada("produce asked-for").stdin(&paths::script("member.py")).run();
    event(node, "topic created", &by(json!({"topic": "asked-for", "automatic": true})));
    node.levada("produce clicks -p 2").stdin(&paths::script("member.py")).run();
    node.levada("topic trim clicks -p 2 --to latest --yes").run();
    event(node, "records deleted", &by(json!({"topic": "clicks", "partition": 2})));
    let mut tool = Tool::python("open_transaction.py");
    assert_eq!(tool.args([&node.bootstrap(), "payments", "clicks"]).spawn().line(LIMIT), "open");
    node.levada("transaction abort payments").run();
    event(node, "open transaction aborted for a new producer", &by(json!({"transactional_id": "payments"})));
    lose_transaction(node.address(), "clicks", (4711, 1_700_000_000_000));
    let hanging = node.levada_json("transaction hanging")[0]["start_offset"].to_string();
    node.levada(&format!("transaction abort --topic clicks -p 0 --start-offset {hanging}")).run();
    let aborted = json!({"topic": "clicks", "partition": 0, "producer_id": 4711});
    event(node, "transaction aborted in a partition", &by(aborted));
    node.levada("topic delete clicks --yes").run();
    event(node, "topic deleted", &by(json!({"topic": "clicks"})));
}

/// A member comes to a group and goes.
fn rebalances(node: &Node) {
    node.levada("topic create views -p 3").run();
    let journal = node.scratch().join("journal").display().to_string();
    let mut member =
        Tool::python("member.py").args([&node.bootstrap(), "readers", "views", &journal]).spawn();
    assert_eq!(member.line(LIMIT), "assigned 3");
    event(node, "topic created", &json!({"topic": "__consumer_offsets", "partitions": 2}));
    event(node, "group coordinators of all partitions serve", &json!({"partitions": 2}));
    event(node, "group rebalanced", &json!({"group": "readers", "generation": 1, "members": 1}));
    member.say("leave");
    member.finish(LIMIT);
    event(node, "group rebalanced", &json!({"group": "readers", "generation": 2, "members": 0}));
    node.levada("group delete readers --yes").run();
    event(node, "group deleted", &by(json!({"group": "readers"})));
}

/// Stops the broker and returns its log until then.
fn stopped(node: &mut Node) -> String {
    process::signal(node.pid(), Signal::TERM);
    await_some("the end", LIMIT, || node.talk().contains("stop finished").then_some(()));
    let talk = node.talk();
    node.wait();
    talk
}

#[test]
fn kafka_configs_shows_and_changes_logger_levels_live() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: Kafka's loggers have other names");
        return;
    }
    let mut node = Node::started();
    let loggers = ["--entity-type", "broker-loggers", "--entity-name", "1"];
    let ask = |words: &[&str]| configs(&node, &[&loggers[..], words].concat());
    let (code, shown) = ask(&["--describe"]);
    assert_eq!(code, Some(0), "{shown}");
    for line in ["root=INFO sensitive=false", "levada_broker.server=INFO sensitive=false"] {
        assert!(shown.contains(line), "{line} is not in {shown}");
    }
    let opened = "connection opened";
    assert!(!node.talk().contains(opened), "{}", node.talk());

    let (code, said) = ask(&["--alter", "--add-config", "levada_broker.server=DEBUG"]);
    assert_eq!(code, Some(0), "{said}");
    let told =
        "log level changed logger=\"levada_broker.server\" level=\"DEBUG\" principal=\"User:ANONYMOUS\"";
    await_some(told, LIMIT, || node.talk().contains(told).then_some(()));
    let (_, shown) = ask(&["--describe"]);
    assert!(shown.contains("levada_broker.server=DEBUG"), "{shown}");
    await_some(opened, LIMIT, || node.talk().contains(opened).then_some(()));

    for (level, complaint) in [
        (
            "levada_broker.server=LOUD",
            "Cannot set the log level of levada_broker.server to LOUD as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        ("kafka.server=INFO", "Invalid broker logger(s): kafka.server"),
    ] {
        let (code, said) = ask(&["--alter", "--add-config", level]);
        assert!(code != Some(0) && said.contains(complaint), "{said}");
    }
    let (code, said) = ask(&["--alter", "--delete-config", "levada_broker.server"]);
    assert_eq!(code, Some(0), "{said}");
    let (_, shown) = ask(&["--describe"]);
    assert!(shown.contains("levada_broker.server=INFO"), "{shown}");
    node.stop();
}
