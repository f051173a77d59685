//! Mistakes that people make, and the next step that the answer names: transcripts of the command
//! line.
//!
//! Suite: short; 3 s; needs python

use std::fs;
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::{Node, Tool, paths, transcript};

const LIMIT: Duration = Duration::from_secs(60);
const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";

fn properties(node: &Node, user: &str, password: &str) {
    let text = format!(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n\
         sasl.jaas.config={PLAIN} required username=\"{user}\" password=\"{password}\";\n"
    );
    fs::write(node.scratch().join(format!("{user}-{password}.properties")), text).expect("room");
}

/// Without the right to listen on small ports, independent of the user of the tests.
fn without_small_ports() -> String {
    let is_root = rustix::process::geteuid().is_root();
    if is_root { "setpriv --bounding-set -net_bind_service" } else { "nice -n 0" }.to_owned()
}

#[test]
fn errors_name_the_next_step() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: words of Levada's alone");
        return;
    }
    let mut node = Node::new();
    node.start();
    properties(&node, "alice", "secret");
    let variables = [
        ("BROKER", node.bootstrap()),
        ("HTTP", node.http_address().to_string()),
        ("UNPRIVILEGED", without_small_ports()),
    ];
    transcript::replay_shell(&node, "mistakes", &variables);
    node.stop();
}

#[test]
fn refusal_names_the_acl_that_would_allow() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: words of Levada's alone");
        return;
    }
    let users = "user_admin=\"admin-pass\" user_mallory=\"mallory-pass\"";
    let mut node = Node::new()
        .option("authorizer.class.name", AUTHORIZER)
        .option("super.users", "User:ANONYMOUS;User:admin")
        .option("inter.broker.listener.name", "PLAINTEXT")
        .option("sasl.enabled.mechanisms", "PLAIN")
        .option("listener.name.client.plain.sasl.jaas.config", &format!("{PLAIN} required {users};"));
    let client = node.listen("CLIENT", "SASL_PLAINTEXT");
    node.start();
    properties(&node, "mallory", "mallory-pass");
    properties(&node, "mallory", "wrong");
    let plain = fs::read_to_string(node.scratch().join("mallory-wrong.properties")).expect("just written");
    let scram = plain.replace("=PLAIN\n", "=SCRAM-SHA-256\n");
    fs::write(node.scratch().join("scram.properties"), scram).expect("room");
    let variables = [("CLIENT", client.to_string()), ("BROKER", node.bootstrap())];
    transcript::replay_shell(&node, "refusals", &variables);
    node.stop();
}

#[test]
fn clusters_have_names_with_their_logins() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: words of Levada's alone");
        return;
    }
    let users = "user_admin=\"admin-pass\"";
    let mut node = Node::new()
        .option("authorizer.class.name", AUTHORIZER)
        .option("super.users", "User:ANONYMOUS;User:admin")
        .option("inter.broker.listener.name", "PLAINTEXT")
        .option("sasl.enabled.mechanisms", "PLAIN")
        .option("listener.name.client.plain.sasl.jaas.config", &format!("{PLAIN} required {users};"));
    let client = node.listen("CLIENT", "SASL_PLAINTEXT");
    node.start();
    properties(&node, "admin", "admin-pass");
    let config = node.scratch().join("config").display().to_string();
    let variables =
        [("CLIENT", client.to_string()), ("BROKER", node.bootstrap()), ("XDG_CONFIG_HOME", config)];
    transcript::replay_shell(&node, "profiles", &variables);
    node.stop();
}

/// Runs a command on a terminal, types these lines, and returns the exit code and the output.
fn typed(node: &Node, lines: &str, line: &str) -> (Option<i32>, String) {
    let mut tool = Tool::python("typed.py");
    tool.args([lines, &paths::binary().display().to_string()]);
    for word in line.split(' ') {
        tool.arg(word);
    }
    let (code, said) = tool.args(["--brokers", &node.bootstrap()]).outcome();
    (code, said.stdout)
}

#[test]
fn password_prompt_asks_for_confirmation() {
    let node = Node::started();
    let (code, shown) = typed(&node, "secret,sceret", "user set alice");
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("the two passwords differ"), "{shown}");
    assert!(!shown.contains("secret"), "what is typed stays invisible: {shown}");
    let (code, shown) = typed(&node, "secret,secret", "user set alice");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(node.levada_json("user list")[0]["user"], "alice");
}

#[test]
fn deletions_ask_for_confirmation_on_terminals() {
    let node = Node::started();
    node.levada("topic create clicks").run();
    let (code, shown) = typed(&node, "", "topic delete clicks");
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("delete clicks with all records? [y/N]"), "{shown}");
    assert!(shown.contains("nothing was deleted"), "{shown}");
    assert_eq!(node.levada_json("topic list")[0]["name"], "clicks");
    let (code, shown) = typed(&node, "y", "topic delete clicks");
    assert_eq!(code, Some(0), "{shown}");
    node.levada("topic create clicks").run();
    let (code, shown) = typed(&node, "", "topic delete clicks --yes");
    assert_eq!((code, shown.contains('?')), (Some(0), false), "{shown}");
}

#[test]
fn acl_and_transaction_removals_require_terminal_confirmation() {
    let mut node =
        Node::new().option("authorizer.class.name", AUTHORIZER).option("super.users", "User:ANONYMOUS");
    node.start();
    node.levada("topic create ledger --partitions 1").run();
    typed(&node, "secret,secret", "user set alice");
    node.levada("acl add alice --allow read --topic ledger").run();
    let mut tool = Tool::python("open_transaction.py");
    let mut producer = tool.args([&node.bootstrap(), "payments", "ledger"]).spawn();
    assert_eq!(producer.line(LIMIT), "open");
    let remove = "acl remove alice --allow read --topic ledger";
    let entry = "remove ALLOW READ on TOPIC:LITERAL:ledger for User:alice from *";
    for (line, question, refusal) in [
        ("user delete alice", "delete the password of alice for scram-sha-512", "nothing was deleted"),
        (remove, entry, "nothing was removed"),
        ("acl remove alice", "remove all entries of User:alice", "nothing was removed"),
        (
            "transaction abort payments",
            "abort the transaction of payments and fence its producer",
            "nothing was aborted",
        ),
    ] {
        let (code, shown) = typed(&node, "", line);
        assert_eq!(code, Some(1), "{line}: {shown}");
        assert!(shown.contains(&format!("{question}? [y/N]")) && shown.contains(refusal), "{line}: {shown}");
    }
    assert_eq!(node.levada_json("user list")[0]["user"], "alice");
    assert_eq!(node.levada_json("acl list")[0]["principal"], "User:alice");
    assert_eq!(node.levada_json("transaction describe payments")[0]["state"], "Ongoing");
    for line in ["user delete alice", "acl remove alice", "transaction abort payments"] {
        let (code, shown) = typed(&node, "y", line);
        assert_eq!(code, Some(0), "{line}: {shown}");
    }
    for line in ["user list", "acl list"] {
        assert_eq!(node.levada_json(line).as_array().map(Vec::len), Some(0), "{line}");
    }
    let (code, shown) = typed(&node, "", "acl remove alice --yes");
    assert_eq!((code, shown.contains("no such entry exists")), (Some(1), true), "{shown}");
    assert!(!shown.contains('?'), "{shown}");
    producer.kill();
}

#[test]
fn profile_deletion_requires_terminal_confirmation() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let settings = format!("XDG_CONFIG_HOME={}", home.path().display());
    let run = |lines: &str, words: &[&str]| {
        let mut tool = Tool::python("typed.py");
        tool.args([lines, "env", &settings, &paths::binary().display().to_string(), "profile"]);
        words.iter().for_each(|word| {
            tool.arg(word);
        });
        let (code, said) = tool.outcome();
        (code, said.stdout)
    };
    let (code, shown) = run("", &["create", "prod", "--brokers", "127.0.0.1:1"]);
    assert_eq!(code, Some(0), "{shown}");
    let (code, shown) = run("n", &["delete", "prod"]);
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("delete profile prod? [y/N]") && shown.contains("nothing was deleted"), "{shown}");
    let (code, shown) = run("y", &["delete", "prod"]);
    assert_eq!(code, Some(0), "{shown}");
    let (code, shown) = run("", &["delete", "prod"]);
    assert_eq!((code, shown.contains("[y/N]")), (Some(1), false), "a profile that does not exist: {shown}");
}
