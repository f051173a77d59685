//! TLS listeners, and clients with right and wrong certificates on either side: who gets in, and what those who do not are told.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use levada_tests::node::Kind;
use levada_tests::pki::{Authority, Flaw};
use levada_tests::{Node, Tool};

const SERVERS: [(&str, Flaw); 5] = [
    ("GOOD", Flaw::None),
    ("EXPIRED", Flaw::Expired),
    ("EARLY", Flaw::NotYetValid),
    ("SELF", Flaw::SelfSigned),
    ("OTHER", Flaw::OtherName),
];

const CLIENTS: [(&str, Flaw); 4] = [
    ("good", Flaw::None),
    ("expired", Flaw::Expired),
    ("early", Flaw::NotYetValid),
    ("self", Flaw::SelfSigned),
];

/// A node with a listener for each certificate, and one that asks clients for theirs.
struct Estate {
    node: Node,
    authority: Authority,
    addresses: BTreeMap<&'static str, SocketAddr>,
}

impl Estate {
    fn new() -> Estate {
        let mut node = Node::new();
        let authority = Authority::new(&node.scratch().join("pki"));
        let mut addresses = BTreeMap::new();
        for (name, flaw) in SERVERS.into_iter().chain([("MUTUAL", Flaw::None)]) {
            addresses.insert(name, node.listen(name, "SSL"));
            let prefix = format!("listener.name.{}", name.to_lowercase());
            let store = authority.issue(name, flaw).display().to_string();
            node = node
                .option(&format!("{prefix}.ssl.keystore.type"), "PEM")
                .option(&format!("{prefix}.ssl.keystore.location"), &store);
        }
        let trusted = authority.certificate().display().to_string();
        node = node
            .option("listener.name.mutual.ssl.client.auth", "required")
            .option("listener.name.mutual.ssl.truststore.type", "PEM")
            .option("listener.name.mutual.ssl.truststore.location", &trusted);
        node.start();
        Tool::python("topics.py").args([&node.bootstrap(), "secure", "1"]).run();
        Estate { node, authority, addresses }
    }

    /// Every combination by name: where to connect, and with which certificate. What is right begins with `good`.
    fn cases(&self) -> Vec<(String, SocketAddr, Option<PathBuf>)> {
        let servers = SERVERS.map(|(name, _)| {
            let prefix = if name == "GOOD" { "good" } else { "bad" };
            (format!("{prefix}-server-{}", name.to_lowercase()), self.addresses[name], None)
        });
        let mutual = self.addresses["MUTUAL"];
        let clients = CLIENTS.map(|(name, flaw)| {
            let prefix = if flaw == Flaw::None { "good" } else { "bad" };
            (format!("{prefix}-client-{name}"), mutual, Some(self.authority.issue(name, flaw)))
        });
        let missing = [("bad-client-none".to_string(), mutual, None)];
        servers.into_iter().chain(clients).chain(missing).collect()
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.node.scratch().join(name);
        fs::create_dir_all(&path).expect("a directory");
        path
    }
}

/// Lines of `case outcome`: the good cases are `ok`, the others `refused`.
fn assert_outcomes(said: &str, refused: &str, count: usize) {
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), count, "{said}");
    for line in lines {
        let expected = if line.starts_with("good") { "ok" } else { refused };
        assert_eq!(line.split_once(' ').expect("a name and an outcome").1, expected, "{said}");
    }
}

fn java(estate: &Estate, versions: &str) {
    let directory = estate.directory(&format!("java-{versions}"));
    let cases = estate.cases();
    for (name, address, certificate) in &cases {
        let mut lines = format!(
            "bootstrap.servers=localhost:{}\nsecurity.protocol=SSL\nssl.enabled.protocols={versions}\nssl.truststore.type=PEM\nssl.truststore.location={}\n",
            address.port(),
            estate.authority.certificate().display()
        );
        if let Some(path) = certificate {
            lines += &format!("ssl.keystore.type=PEM\nssl.keystore.location={}\n", path.display());
        }
        fs::write(directory.join(name).with_extension("properties"), lines).expect("a file");
    }
    let said = Tool::own_java("Secure").arg(directory.display().to_string()).run();
    assert_outcomes(&said.stdout, "SslAuthenticationException", cases.len());
}

fn python(estate: &Estate, client: &str) {
    let directory = estate.directory(client);
    let mut cases = estate.cases();
    // It does not tell why it cannot connect, and tries for half a minute.
    let few = ["good-server-good", "good-client-good", "bad-client-none"];
    cases.retain(|(name, ..)| client != "kafka_python" || few.contains(&&**name));
    for (name, address, certificate) in &cases {
        let mut case = serde_json::json!({
            "bootstrap": format!("localhost:{}", address.port()),
            "ca": estate.authority.certificate(),
        });
        if let Some(path) = certificate {
            case["certificate"] = path.display().to_string().into();
        }
        fs::write(directory.join(name).with_extension("json"), case.to_string()).expect("a file");
    }
    let said = Tool::python("secure.py").args([client, &directory.display().to_string()]).run();
    assert_outcomes(&said.stdout, "refused", cases.len());
}

#[test]
fn java_clients_get_in_or_are_told_why_not() {
    let mut estate = Estate::new();
    java(&estate, "TLSv1.3");
    java(&estate, "TLSv1.2");
    estate.node.assert_running("after the handshakes");
}

#[test]
fn librdkafka_gets_in_or_is_told_why_not() {
    let mut estate = Estate::new();
    python(&estate, "confluent");
    estate.node.assert_running("after the handshakes");
}

#[test]
fn kafka_python_gets_in_or_is_refused() {
    let mut estate = Estate::new();
    python(&estate, "kafka_python");
    estate.node.assert_running("after the handshakes");
}

/// A PKCS12 store as Java makes it; its certificate goes beside it as `.pem`.
fn java_store(path: &Path, password: &str) {
    let keytool = |words: &[&str]| {
        let mut command = std::process::Command::new("keytool");
        command.args(words).args(["-keystore", &path.display().to_string(), "-storepass", password]);
        let output =
            command.args(["-alias", "broker", "-storetype", "PKCS12"]).output().expect("keytool runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        output.stdout
    };
    // Again and again: a store is not overwritten.
    let _ = fs::remove_file(path);
    let subject = ["-dname", "CN=broker", "-ext", "san=dns:localhost,ip:127.0.0.1", "-keyalg", "EC"];
    keytool(&[&["-genkeypair", "-validity", "30"], &subject[..]].concat());
    fs::write(path.with_extension("pem"), keytool(&["-exportcert", "-rfc"])).expect("a file");
}

#[test]
fn a_java_key_store_is_served_and_replaced_while_the_broker_runs() {
    let mut node = Node::new();
    let [store, next] = ["store.p12", "next.p12"].map(|name| node.scratch().join(name));
    java_store(&store, "planted-first");
    java_store(&next, "planted-second");
    let address = node.listen("SECURE", "SSL");
    node = node
        .option("listener.name.secure.ssl.keystore.type", "PKCS12")
        .option("listener.name.secure.ssl.keystore.location", &store.display().to_string())
        .option("listener.name.secure.ssl.keystore.password", "planted-first")
        .option("listener.name.secure.ssl.key.password", "planted-first");
    node.start();
    Tool::python("topics.py").args([&node.bootstrap(), "secure", "1"]).run();
    let directory = node.scratch().join("cases");
    fs::create_dir_all(&directory).expect("a directory");
    let connects = |trusted: &Path| {
        let trusted = trusted.with_extension("pem").display().to_string();
        let lines = format!(
            "bootstrap.servers=localhost:{}\nsecurity.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={trusted}\n",
            address.port()
        );
        fs::write(directory.join("case.properties"), lines).expect("a file");
        Tool::own_java("Secure").arg(directory.display().to_string()).run().stdout
    };
    assert_eq!(connects(&store), "case ok\n");

    let change = |pairs: &str| {
        let mut tool = Tool::java("kafka.admin.ConfigCommand");
        tool.args([
            "--bootstrap-server",
            &node.bootstrap(),
            "--entity-type",
            "brokers",
            "--entity-name",
            "1",
        ]);
        tool.args(["--alter", "--add-config", pairs]).outcome()
    };
    let prefix = "listener.name.secure.ssl";
    let location = format!("{prefix}.keystore.location={}", next.display());
    let (code, said) = change(&format!("{location},{prefix}.keystore.password=wrong"));
    assert_ne!(code, Some(0), "{said:?}");
    assert!(said.stderr.contains("InvalidRequestException"), "{said:?}");
    assert_eq!(connects(&store), "case ok\n");
    let all =
        format!("{location},{prefix}.keystore.password=planted-second,{prefix}.key.password=planted-second");
    let (code, said) = change(&all);
    assert_eq!(code, Some(0), "{said:?}");
    assert_eq!(connects(&next), "case ok\n");
    assert_eq!(connects(&store), "case SslAuthenticationException\n");
    no_secret_is_told(&node);
    node.stop();
}

/// Nothing that anybody may ask for has the passwords in it.
fn no_secret_is_told(node: &Node) {
    let mut describe = Tool::java("kafka.admin.ConfigCommand");
    describe.args([
        "--bootstrap-server",
        &node.bootstrap(),
        "--entity-type",
        "brokers",
        "--entity-name",
        "1",
    ]);
    let described = describe.args(["--describe", "--all"]).run().stdout;
    assert!(
        described.contains("listener.name.secure.ssl.keystore.password=null sensitive=true"),
        "{described}"
    );
    let mut told = vec![("DescribeConfigs", described), ("the log", node.talk())];
    if node.kind() == Kind::Levada {
        told.push(("/metrics", node.http("/metrics").1));
        let set = "listener.name.secure.ssl.keystore.password=planted-first";
        let shown = Tool::levada().args(["config", "show", "--changed", "-o", set]).run();
        assert!(shown.stdout.contains("(hidden)"), "{}", shown.stdout);
        told.push(("config show", shown.stdout + &shown.stderr));
        let (_, wrong) = Tool::levada().args(["serve", "-o", set, "-o", "num.partitions=0"]).outcome();
        told.push(("an error", wrong.stdout + &wrong.stderr));
    }
    for (place, text) in told {
        assert!(!text.contains("planted"), "{place}: {text}");
    }
}
