//! Key stores as Java makes them, and the secrets that open them. `authentication.rs` tests which
//! clients are accepted over TLS.
//!
//! Suite: short; 17 s; needs java, python

use std::fs;
use std::path::Path;

use levada_tests::node::Kind;
use levada_tests::pki::{java_store, java_trust};
use levada_tests::{Node, Tool};

#[test]
fn java_keystore_is_served_and_replaced_at_runtime() {
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

#[test]
fn command_line_reads_java_stores_and_explains_errors() {
    let mut node = Node::new();
    let store = node.scratch().join("store.p12");
    java_store(&store, "planted-first");
    let address = node.listen("SECURE", "SSL");
    let location = |kind: &str, path: &Path, password: &str| {
        format!(
            "ssl.{kind}.type=PKCS12\nssl.{kind}.location={}\nssl.{kind}.password={password}\n",
            path.display()
        )
    };
    for line in location("keystore", &store, "planted-first").lines() {
        let (key, value) = line.split_once('=').expect("a key and a value");
        node = node.option(&format!("listener.name.secure.{key}"), value);
    }
    node.start();
    let trusted = node.scratch().join("trusted.p12");
    let pem = store.with_extension("pem").display().to_string();
    java_trust(&trusted, "planted-trust", store.with_extension("pem").as_path());

    let config = node.scratch().join("client.properties").display().to_string();
    let check = |lines: &str, code: i32, words: &str| {
        fs::write(&config, format!("security.protocol=SSL\n{lines}")).expect("room for a file");
        let mut tool = Tool::levada();
        let broker = format!("localhost:{}", address.port());
        let (found, said) =
            tool.args(["topic", "list", "--brokers", &broker, "--command-config", &config]).outcome();
        let told = said.stdout + &said.stderr;
        assert_eq!(found, Some(code), "{lines}{told}");
        assert!(told.contains(words) && !told.contains("planted"), "{lines}{told}");
    };
    check(&location("truststore", &trusted, "planted-trust"), 0, "");
    let text = fs::read_to_string(&pem).expect("a certificate");
    let inline = text.lines().collect::<Vec<_>>().join(" ");
    check(&format!("ssl.truststore.certificates={inline}\n"), 0, "");
    check(&location("truststore", &trusted, "planted-wrong"), 2, "is ssl.truststore.password right?");
    check(
        &location("truststore", &trusted, "planted-trust").replace("PKCS12", "PEM"),
        2,
        "set the type to PKCS12",
    );
    check("ssl.truststore.location=/nowhere\n", 2, "cannot read /nowhere");
    check("ssl.endpoint.identification.algorithm=name\n", 2, "must be https, or empty");
    // Without a store, only authorities of this machine are trusted, if there are any.
    check(
        "",
        if has_authorities() { 1 } else { 2 },
        if has_authorities() { "UnknownIssuer" } else { "authorities" },
    );
    node.stop();
}

/// True if this machine trusts any authority by default.
fn has_authorities() -> bool {
    Path::new("/etc/ssl/certs/ca-certificates.crt").exists()
}

/// No public output contains the passwords.
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
