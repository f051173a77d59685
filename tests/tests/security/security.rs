//! Authentication and authorization: clients with right and wrong passwords, and a client without
//! permissions that tries everything.
//!
//! Suite: short; 46 s; needs java, python

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use levada_tests::node::Kind;
use levada_tests::{Node, Tool, raw};
use serde_json::Value;

const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";

/// A node whose listener CLIENT authenticates its clients. Clients of PLAINTEXT may do everything.
fn guarded() -> (Node, SocketAddr) {
    guarded_with(&[])
}

/// Like [`guarded`], with more options.
fn guarded_with(options: &[(&str, &str)]) -> (Node, SocketAddr) {
    let users = "user_admin=\"admin-pass\" user_mallory=\"mallory-pass\"";
    let mut node = Node::new()
        .option("node.id", "1")
        .option("auto.create.topics.enable", "true")
        .option("authorizer.class.name", AUTHORIZER)
        .option("super.users", "User:ANONYMOUS;User:admin")
        .option("inter.broker.listener.name", "PLAINTEXT")
        .option("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512")
        .option("listener.name.client.plain.sasl.jaas.config", &format!("{PLAIN} required {users};"))
        .option("listener.name.client.scram-sha-256.sasl.jaas.config", &format!("{SCRAM} required;"))
        .option("listener.name.client.scram-sha-512.sasl.jaas.config", &format!("{SCRAM} required;"));
    for (key, value) in options {
        node = node.option(key, value);
    }
    let client = node.listen("CLIENT", "SASL_PLAINTEXT");
    node.start();
    (node, client)
}

/// A file with the login of Java's tools.
fn properties(node: &Node, mechanism: &str, user: &str, password: &str) -> String {
    let module = if mechanism == "PLAIN" { PLAIN } else { SCRAM };
    let text = format!(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n\
         sasl.jaas.config={module} required username=\"{user}\" password=\"{password}\";\n"
    );
    let path = node.scratch().join(format!("{mechanism}-{user}-{password}.properties"));
    fs::write(&path, text).expect("room for a file");
    path.display().to_string()
}

/// `kafka-configs` sets passwords for bob, for both hashes.
fn set_scram_users(node: &Node) {
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let mut tool = Tool::java("kafka.admin.ConfigCommand");
        tool.args(["--bootstrap-server", &node.bootstrap(), "--alter", "--entity-type", "users"]);
        tool.args(["--entity-name", "bob", "--add-config", &format!("{mechanism}=[password=bob-pass]")]);
        let said = tool.run().stdout;
        assert!(said.contains("Completed updating config for user bob"), "{said}");
    }
}

#[test]
fn kafka_tools_log_in_and_see_permitted_resources() {
    let (mut node, client) = guarded();
    set_scram_users(&node);
    let topics = |rest: &[&str], properties: &str| {
        let mut tool = Tool::java("org.apache.kafka.tools.TopicCommand");
        tool.args(["--bootstrap-server", &client.to_string(), "--command-config", properties]);
        rest.iter().for_each(|word| {
            tool.arg(word);
        });
        tool.outcome()
    };
    let admin = properties(&node, "PLAIN", "admin", "admin-pass");
    for topic in ["hushed", "shown"] {
        let (code, said) = topics(&["--create", "--topic", topic], &admin);
        assert_eq!(code, Some(0), "{} {}", said.stdout, said.stderr);
    }
    let mut acls = Tool::java("org.apache.kafka.tools.AclCommand");
    acls.args(["--bootstrap-server", &client.to_string(), "--command-config", &admin, "--add"]);
    acls.args(["--allow-principal", "User:bob", "--operation", "describe", "--topic", "shown"]);
    let said = acls.run().stdout;
    assert!(said.contains("User:bob") && said.contains("ALLOW"), "{said}");
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let bob = properties(&node, mechanism, "bob", "bob-pass");
        let (code, said) = topics(&["--list"], &bob);
        assert_eq!((code, said.stdout.trim()), (Some(0), "shown"), "{}", said.stderr);
        let (code, said) = topics(&["--create", "--topic", "other"], &bob);
        let told = format!("{}{}", said.stdout, said.stderr);
        assert!(code != Some(0) && told.contains("Authorization failed"), "{told}");
        let wrong = properties(&node, mechanism, "bob", "wrong");
        let (code, said) = topics(&["--list"], &wrong);
        let told = format!("{}{}", said.stdout, said.stderr);
        assert!(code != Some(0) && told.contains("SaslAuthenticationException"), "{told}");
    }
    let mut list = Tool::java("org.apache.kafka.tools.AclCommand");
    list.args(["--bootstrap-server", &client.to_string(), "--command-config", &admin, "--list"]);
    let said = list.run().stdout;
    assert!(said.contains("patternType=LITERAL") && said.contains("principal=User:bob"), "{said}");
    node.stop();
}

#[test]
fn command_line_sets_users_and_acls_and_connects() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: nothing of this is asked of Kafka");
        return;
    }
    let (mut node, client) = guarded();
    let secret = node.scratch().join("password");
    fs::write(&secret, "carol-pass\n").expect("room for a file");
    node.levada(&format!("user set carol --password-file {} --iterations 5000", secret.display())).run();
    let users = node.levada_json("user list");
    let carol = serde_json::json!([{"user": "carol", "mechanism": "scram-sha-512", "iterations": 5000}]);
    assert_eq!(users, carol);
    for topic in ["hushed", "shown-1"] {
        node.levada(&format!("topic create {topic}")).run();
    }
    node.levada("acl add carol --allow read,describe-configs --topic shown- --prefix").run();
    let entries = node.levada_json("acl list --topic shown-1");
    let operations: BTreeSet<&str> =
        entries.as_array().unwrap().iter().map(|one| one["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, BTreeSet::from(["read", "describe-configs"]));
    let carol = properties(&node, "SCRAM-SHA-512", "carol", "carol-pass");
    let ask = |line: &str, properties: &str| {
        let mut tool = Tool::levada();
        line.split(' ').for_each(|word| {
            tool.arg(word);
        });
        tool.args(["--brokers", &client.to_string(), "--command-config", properties]);
        tool.outcome()
    };
    let (code, said) = ask("topic list", &carol);
    assert!(code == Some(0) && said.stdout.contains("shown-1"), "{} {}", said.stdout, said.stderr);
    assert!(!said.stdout.contains("hushed"), "{}", said.stdout);
    let (code, said) = ask("topic create mine", &carol);
    assert!(code == Some(1) && said.stderr.contains("TOPIC_AUTHORIZATION_FAILED"), "{}", said.stderr);
    let wrong = properties(&node, "SCRAM-SHA-512", "carol", "wrong");
    let (code, said) = ask("topic list", &wrong);
    assert!(code == Some(1) && said.stderr.contains("SASL_AUTHENTICATION_FAILED"), "{}", said.stderr);
    let counted = node.metrics();
    let failures = counted.iter().find(|(name, _)| {
        name.starts_with("levada_authentications_total{")
            && name.ends_with("mechanism=\"SCRAM-SHA-512\",result=\"failure\"}")
    });
    assert_eq!(failures.map(|(_, count)| *count), Some(1.0));
    node.levada("acl remove carol").run();
    assert_eq!(node.levada_json("acl list"), serde_json::json!([]));
    node.levada("user delete carol").run();
    let (code, _) = ask("topic list", &carol);
    assert_eq!(code, Some(1), "carol is gone");
    node.stop();
}

#[test]
fn a_cluster_can_begin_with_a_user() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: nothing of this is asked of Kafka");
        return;
    }
    let mut node = Node::new().option("sasl.enabled.mechanisms", "SCRAM-SHA-512");
    let client = node.listen("CLIENT", "SASL_PLAINTEXT").to_string();
    let mut format = Tool::levada();
    format.args(["storage", "format", "-o", &format!("log.dirs={}", node.data().display())]);
    format.args(["--add-scram", "SCRAM-SHA-512=[name=root,password=root-pass]"]).run();
    node.start();
    for (password, code) in [("root-pass", Some(0)), ("wrong", Some(1))] {
        let properties = properties(&node, "SCRAM-SHA-512", "root", password);
        let mut tool = Tool::levada();
        tool.args(["user", "list", "--brokers", &client, "--command-config", &properties]);
        let (found, said) = tool.outcome();
        assert_eq!(found, code, "{}", said.stderr);
        assert!(code != Some(0) || said.stdout.contains("root"), "{}", said.stdout);
    }
    node.stop();
}

#[test]
fn session_ends_without_client_reauthentication() {
    use levada_tests::raw::{self, Connection, Encoder};
    let jaas = format!("{PLAIN} required user_alice=\"alice-pass\";");
    let mut node = Node::new()
        .option("inter.broker.listener.name", "PLAINTEXT")
        .option("sasl.enabled.mechanisms", "PLAIN")
        .option("listener.name.client.plain.sasl.jaas.config", &jaas)
        .option("listener.name.client.plain.connections.max.reauth.ms", "5000");
    let client = node.listen("CLIENT", "SASL_PLAINTEXT");
    node.start();
    let handshake = Encoder::default().i16(17).i16(1).i32(1).string("raw").string("PLAIN").done();
    let token = Encoder::default().i16(36).i16(1).i32(2).string("raw");
    let token = token.bytes(b"\0alice\0alice-pass").done();
    let mut connection = Connection::open(client);
    for _ in 0..3 {
        connection.call(&handshake);
        let answer = connection.call(&token);
        assert_eq!(answer[answer.len() - 8..], 5000_i64.to_be_bytes(), "the session's lifetime");
        // Sooner than a second after the last time, a handshake is refused.
        let shown = std::time::Instant::now();
        while shown.elapsed() < std::time::Duration::from_millis(1_100) {
            connection.call(&raw::metadata("t", false));
        }
    }
    let closed =
        levada_tests::await_some("the end of the session", std::time::Duration::from_secs(20), || {
            connection.try_call(&raw::metadata("t", false)).err()
        });
    assert_eq!(closed.kind(), std::io::ErrorKind::UnexpectedEof, "{closed}");
    node.stop();
}

/// A connection by PLAIN, and the error by which it was answered.
fn login(address: SocketAddr, user: &str, password: &str) -> (levada_tests::raw::Connection, i16) {
    use levada_tests::raw::{Connection, Encoder};
    let mut connection = Connection::open(address);
    connection.call(&Encoder::default().i16(17).i16(1).i32(1).string("raw").string("PLAIN").done());
    let token = format!("\0{user}\0{password}");
    let token = Encoder::default().i16(36).i16(0).i32(2).string("raw").bytes(token.as_bytes()).done();
    let answer = connection.call(&token);
    (connection, i16::from_be_bytes([answer[4], answer[5]]))
}

/// A connection of a user of PLAIN.
fn logged_in(address: SocketAddr, user: &str, password: &str) -> levada_tests::raw::Connection {
    let (connection, error) = login(address, user, password);
    assert_eq!(error, 0, "{user} comes in");
    connection
}

#[test]
fn quotas_apply_to_the_sasl_user() {
    use levada_tests::raw;
    let (mut node, client) = guarded();
    Tool::python("topics.py").args([&node.bootstrap(), "t", "1"]).run();
    let mut quota = Tool::java("kafka.admin.ConfigCommand");
    quota.args(["--bootstrap-server", &node.bootstrap(), "--alter", "--entity-type", "users"]);
    quota.args(["--entity-name", "admin", "--add-config", "producer_byte_rate=1000"]).run();
    let mut acls = Tool::java("org.apache.kafka.tools.AclCommand");
    acls.args(["--bootstrap-server", &node.bootstrap(), "--add", "--allow-principal", "User:mallory"]);
    acls.args(["--operation", "write", "--topic", "t"]).run();
    let batch = raw::Batch::of(&[&[7; 50_000]]).encode();
    // Both have the same client id.
    for (user, password, slowed) in [("admin", "admin-pass", true), ("mallory", "mallory-pass", false)] {
        let mut connection = logged_in(client, user, password);
        let answer = connection.call(&raw::produce("t", 1, &batch));
        assert_eq!(raw::produce_error(&answer), 0, "{user}");
        let throttled_ms = i32::from_be_bytes(answer[answer.len() - 4..].try_into().expect("four bytes"));
        assert_eq!(throttled_ms > 0, slowed, "{user}: {throttled_ms} ms");
    }
    node.stop();
}

#[test]
fn audit_log_is_json_and_off_by_default() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: Kafka writes another log");
        return;
    }
    for (level, expected) in [("info", false), ("info,levada::audit=debug", true)] {
        let users = "user_admin=\"admin-pass\" user_mallory=\"mallory-pass\"";
        let mut node = Node::new()
            .option("authorizer.class.name", AUTHORIZER)
            .option("super.users", "User:ANONYMOUS;User:admin")
            .option("sasl.enabled.mechanisms", "PLAIN")
            .option("listener.name.client.plain.sasl.jaas.config", &format!("{PLAIN} required {users};"));
        let client = node.listen("CLIENT", "SASL_PLAINTEXT");
        node.wrap(&["env", &format!("LEVADA_LOG={level}")]);
        node.start();
        logged_in(client, "admin", "admin-pass").call(&levada_tests::raw::fetch("t", 0, 1));
        logged_in(client, "mallory", "mallory-pass").call(&levada_tests::raw::fetch("t", 0, 1));
        // Lines of one log come in order: when that of another failure is there, everything before
        // is there as well.
        login(client, "mallory", "wrong");
        let last = if expected { r#""user":"mallory""# } else { "connection closed by the broker" };
        levada_tests::await_some(last, std::time::Duration::from_secs(60), || {
            node.talk().contains(last).then_some(())
        });
        let talk = node.talk();
        let lines: Vec<Value> = talk
            .lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect();
        let told = |event: &str, principal: &str, allowed: bool| {
            lines.iter().any(|line| {
                line["target"] == "levada::audit"
                    && line["event"] == event
                    && line["principal"] == principal
                    && line["allowed"] == allowed
            })
        };
        for (event, principal, allowed) in [
            ("authentication", "User:admin", true),
            ("authorization", "User:admin", true),
            ("authorization", "User:mallory", false),
        ] {
            assert_eq!(told(event, principal, allowed), expected, "{level}: {event} of {principal}: {talk}");
        }
        assert_eq!(talk.contains("levada::audit"), expected, "{talk}");
    }
}

/// Fields of lines that the audit log has after the commands of the test below.
fn audited() -> Vec<Vec<(&'static str, Value)>> {
    let text = |text: &str| Value::from(text);
    let acl = "ALLOW READ on TOPIC:LITERAL:clicks for User:alice from *";
    vec![
        vec![
            ("event", text("authentication")),
            ("mechanism", text("none")),
            ("principal", text("User:ANONYMOUS")),
        ],
        vec![("event", text("end")), ("principal", text("User:ANONYMOUS")), ("reason", text("closed"))],
        vec![("key", text("retention.ms")), ("old", Value::Null), ("new", text("1000"))],
        vec![
            ("key", text("retention.ms")),
            ("old", text("1000")),
            ("new", text("2000")),
            ("resource", text("clicks")),
        ],
        vec![("key", text("listener.name.x.ssl.key.password")), ("new", text("(hidden)"))],
        vec![("event", text("change")), ("resource", text("user=alice")), ("new", text("1000"))],
        vec![("event", text("change")), ("key", text("acl")), ("new", text(acl))],
        vec![("event", text("change")), ("key", text("acl")), ("old", text(acl))],
        vec![
            ("event", text("change")),
            ("resource", text("alice")),
            ("key", text("SCRAM-SHA-512")),
            ("old", Value::Null),
            ("new", text("(hidden)")),
        ],
        vec![
            ("event", text("authorization")),
            ("request", text("CreateTopics")),
            ("principal", text("User:eve")),
            ("allowed", Value::from(false)),
            ("operation", text("CREATE")),
            ("resource", text("hers")),
        ],
        vec![
            ("request", text("DeleteTopics")),
            ("principal", text("User:eve")),
            ("allowed", Value::from(false)),
            ("operation", text("DESCRIBE")),
            ("resource", text("clicks")),
        ],
    ]
}

#[test]
fn audit_log_file_records_logins_and_changes() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: Kafka writes another log");
        return;
    }
    let mut node = Node::new();
    let path = node.scratch().join("audit.log");
    let password = node.scratch().join("password");
    fs::write(&password, "a password").expect("a file of the test's own");
    node = node
        .option("levada.audit.log", &path.display().to_string())
        .option("authorizer.class.name", AUTHORIZER)
        .option("super.users", "User:ANONYMOUS")
        .option("sasl.enabled.mechanisms", "PLAIN")
        .option(
            "listener.name.client.plain.sasl.jaas.config",
            &format!("{PLAIN} required user_eve=\"eve\";"),
        );
    let client = node.listen("CLIENT", "SASL_PLAINTEXT");
    node.start();
    for line in [
        "topic create clicks",
        "config set topic clicks retention.ms=1000",
        "config set topic clicks retention.ms=2000",
        "config set broker 1 listener.name.x.ssl.key.password=planted",
        "config set quota user=alice producer_byte_rate=1000",
        "acl add alice --allow read --topic clicks",
        "acl remove alice --allow read --topic clicks",
        &format!("user set alice --password-file {}", password.display()),
    ] {
        node.levada(line).run();
    }
    // Eve may neither create nor delete a topic.
    let mut eve = logged_in(client, "eve", "eve");
    assert_eq!(raw::topic_error(&eve.call(&raw::create_topic("hers", 1))), 29);
    assert_eq!(raw::topic_error(&eve.call(&raw::delete_topic("clicks"))), 29);
    let lines = |path: &Path| -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    };
    let is = |line: &Value, fields: &[(&str, Value)]| fields.iter().all(|(key, value)| line[*key] == *value);
    let told = |path: &Path, fields: &[(&str, Value)]| lines(path).iter().any(|line| is(line, fields));
    let soon = std::time::Duration::from_secs(60);
    for expected in audited() {
        levada_tests::await_some("a line of the audit log", soon, || told(&path, &expected).then_some(()));
    }
    assert!(!fs::read_to_string(&path).expect("the audit log").contains("planted"));
    assert!(!node.talk().contains("levada::audit"), "{}", node.talk());
    // As logrotate does.
    fs::rename(&path, path.with_extension("old")).expect("another name");
    node.levada("topic list").run();
    levada_tests::await_some("the audit log anew", soon, || (!lines(&path).is_empty()).then_some(()));
    node.stop();
}

#[test]
fn user_name_cannot_forge_a_log_line() {
    use levada_tests::raw::{Connection, Encoder};
    if Kind::under_test() == Kind::Kafka {
        println!("left out: it is about Levada's log");
        return;
    }
    let mut node = Node::new().option("sasl.enabled.mechanisms", "SCRAM-SHA-256");
    let client = node.listen("CLIENT", "SASL_PLAINTEXT");
    node.start();
    let mut connection = Connection::open(client);
    let handshake = Encoder::default().i16(17).i16(1).i32(7).string("raw").string("SCRAM-SHA-256").done();
    connection.call(&handshake);
    let first = b"n,a=other,n=eve\n2026-11-23T00:00:00.000000Z ERROR levada_broker: FORGED LINE,r=nonce";
    connection.call(&Encoder::default().i16(36).i16(0).i32(7).string("raw").bytes(first).done());
    levada_tests::await_some("the refusal", std::time::Duration::from_secs(60), || {
        node.talk().contains("FORGED LINE").then_some(())
    });
    let talk = node.talk();
    assert!(!talk.lines().any(|line| line.starts_with("2026-11-23T00:00:00.000000Z")), "{talk}");
    node.stop();
}

#[test]
fn only_authenticated_clients_get_responses() {
    use levada_tests::raw::{self, Connection, Outcome};
    let (mut node, client) = guarded();
    let mut connection = Connection::open(client);
    connection.call(&raw::api_versions(0));
    let mut connection = Connection::open(client);
    connection.send_frame(&raw::metadata("t", false)).expect("sent");
    assert_eq!(connection.outcome(std::time::Duration::from_secs(60)), Outcome::Closed);
    node.stop();
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("answers").join(name)
}

/// The responses to a file of requests, by PLAINTEXT or as a user with a password.
fn ask(address: &str, requests: &str, user: Option<(&str, &str)>) -> String {
    let mut tool = Tool::own_java("Ask");
    tool.args([address, &file(requests).display().to_string()]);
    if let Some((user, password)) = user {
        tool.args([user, password]);
    }
    tool.run().stdout
}

/// Each request's name and the name of its API, as documentation has it.
fn apis(requests: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(file(requests)).expect("the requests");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let api = |line: &str| line.split(' ').nth(1).expect("an API").replace('_', "").to_lowercase();
    lines.map(api).collect()
}

fn served() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/apis.md");
    let page = fs::read_to_string(page).expect("the page of the APIs");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains(" ✓ "));
    let apis = rows.filter(|row| row.split('|').nth(1).is_some_and(|key| key.trim().parse::<i16>().is_ok()));
    apis.map(|row| row.split('|').nth(2).expect("a name").trim().to_lowercase()).collect()
}

/// APIs that the Kafka of the requests does not have, and those of client telemetry, which need no
/// permission (suite `client_telemetry`).
const LEFT_OUT: [&str; 4] = [
    "unregistercontroller",
    "streamsgrouptopologydescriptionupdate",
    "gettelemetrysubscriptions",
    "pushtelemetry",
];

#[test]
fn unauthorized_user_changes_and_learns_nothing() {
    let missing = served().difference(&apis("forbidden.txt")).cloned().collect::<BTreeSet<_>>();
    let missing: Vec<_> = missing.into_iter().filter(|api| !LEFT_OUT.contains(&&**api)).collect();
    assert_eq!(missing, Vec::<String>::new(), "APIs that nobody tries");

    let (mut node, client) = guarded();
    ask(&node.bootstrap(), "forbidden-setup.txt", None);
    let before = ask(&node.bootstrap(), "forbidden-state.txt", None);
    let said = ask(&client.to_string(), "forbidden.txt", Some(("mallory", "mallory-pass")));
    assert_eq!(ask(&node.bootstrap(), "forbidden-state.txt", None), before, "something has changed");

    let requests = fs::read_to_string(file("forbidden.txt")).expect("the requests");
    let asked: BTreeSet<&str> = requests.lines().filter(|line| line.contains("hushed")).collect();
    for answer in said.lines().filter(|answer| answer.contains("hushed")) {
        let (name, _) = answer.split_once(' ').expect("a name and an answer");
        let named = asked.iter().any(|request| request.starts_with(&format!("{name} ")));
        assert!(named, "{name} tells of what was not asked: {answer}");
    }

    compare(&said, "forbidden-4.3.1.txt");
    node.stop();
}

/// Compares answers with those that Kafka gave, apart from those that differ for a reason.
fn compare(said: &str, record: &str) {
    let record = file(record);
    if Kind::under_test() == Kind::Kafka && std::env::var_os("LEVADA_BLESS").is_some() {
        fs::write(&record, said).expect("room for the record");
    }
    let recorded = fs::read_to_string(&record).expect("the record of Kafka's answers");
    let parse = |text: &str| -> Vec<(String, Value)> {
        let line = |line: &str| {
            let (name, answer) = line.split_once(' ').expect("a name and an answer");
            (name.to_string(), serde_json::from_str(answer).expect("JSON"))
        };
        text.lines().map(line).collect()
    };
    let (kafka, here) = (parse(&recorded), parse(said));
    let reasons = fs::read_to_string(file("forbidden-reasons.txt")).expect("the reasons");
    let reasons: BTreeSet<&str> = reasons.lines().filter_map(|line| line.split(' ').next()).collect();
    let differ =
        kafka.iter().zip(&here).filter(|(kafka, here)| kafka != here && !reasons.contains(&*kafka.0));
    let complaints: Vec<_> = differ
        .map(|(kafka, here)| format!("{}\n  Kafka: {}\n  here:  {}", kafka.0, kafka.1, here.1))
        .collect();
    assert!(complaints.is_empty(), "{} answers differ:\n{}", complaints.len(), complaints.join("\n"));
    assert_eq!(kafka.len(), here.len());
}

#[test]
fn internal_topics_need_the_right_to_create() {
    // The answers do not depend on the time between two of them.
    let (mut node, client) = guarded_with(&[
        ("group.streams.initial.rebalance.delay.ms", "0"),
        ("group.streams.min.assignment.interval.ms", "0"),
        ("group.streams.assignment.interval.ms", "0"),
    ]);
    let by_admin = |requests: &str| ask(&node.bootstrap(), requests, None);
    let join = || ask(&client.to_string(), "forbidden-topics.txt", Some(("mallory", "mallory-pass")));
    by_admin("forbidden-topics-setup.txt");
    let (refused, granted) = (join(), by_admin("forbidden-topics-grant.txt"));
    assert!(refused.contains("Unauthorized to CREATE on topics maker-log."), "{refused}");
    let said = [refused, granted, join(), by_admin("forbidden-topics-made.txt")].concat();
    compare(&said, "forbidden-topics-4.3.1.txt");
    node.stop();
}
