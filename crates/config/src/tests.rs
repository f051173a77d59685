//! Tests of the configuration: precedence, file syntax, errors, a stock file of Kafka's,
//! descriptions.

use std::collections::BTreeMap;
use std::fs;

use super::*;

mod cluster;
mod documentation;
mod foreign_keys;
mod remote_store;
mod security;

/// The entries a stock single-node Kafka 4.3 file sets.
const STOCK: &str = "\
# roles
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
";

fn load(flags: &[&str]) -> Result<BrokerConfig, ConfigErrors> {
    BrokerConfig::load(&Sources::flags(flags.iter().copied()))
}

fn load_file(text: &str) -> Result<BrokerConfig, ConfigErrors> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.properties");
    fs::write(&path, text).unwrap();
    BrokerConfig::load(&Sources { file: Some(path), ..Sources::default() })
}

fn own(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn every_configuration_row_is_valid() {
    for key in BROKER_KEYS.iter().chain(TOPIC_KEYS.iter().map(|topic| &topic.key)) {
        if let Some(default) = key.default {
            assert_eq!(key.normalise(default).as_deref(), Some(default), "{}", key.name);
        }
        assert!(key.doc.ends_with('.') && key.doc.len() > 15, "{}", key.name);
    }
    let names: std::collections::BTreeSet<_> = BROKER_KEYS.iter().map(|key| key.name).collect();
    assert_eq!(names.len(), BROKER_KEYS.len());
    for topic in TOPIC_KEYS {
        assert!(topic.broker.iter().all(|name| broker_key(name).is_some()), "{}", topic.key.name);
        let inherits = topic.broker.iter().any(|name| broker_key(name).unwrap().default.is_some());
        let is_optional = topic.key.name == "internal.segment.bytes";
        assert!(is_optional || topic.key.default.is_some() != inherits, "{} has one default", topic.key.name);
    }
    assert!(foreign::names().all(|name| broker_key(name).is_none()), "no key is both served and foreign");
    assert_eq!(BrokerConfig::default().describe().len(), BROKER_KEYS.len());
}

#[test]
fn defaults_serve_on_loopback() {
    let config = load(&[]).unwrap();
    let listener = Listener {
        name: "PLAINTEXT".to_owned(),
        bind: HostPort { host: "127.0.0.1".to_owned(), port: 9092 },
        advertised: None,
        protocol: Protocol::Plaintext,
    };
    assert_eq!(config.listeners, [listener]);
    assert_eq!(config.http_listen.as_ref().unwrap().to_string(), "127.0.0.1:9644");
    assert_eq!(config.log_dirs, [std::path::PathBuf::from("./levada-data")]);
    assert_eq!(config.offsets.topic_partitions, 50);
    assert_eq!(config.offsets.retention_ms, 7 * 24 * 3_600_000);
    assert_eq!(config.topic_defaults.retention_ms, 168 * 3_600_000);
    assert_eq!(config.topic_defaults.max_message_bytes, 1_048_588);
    assert_eq!(config.topic_defaults.flush_ms, i64::MAX);
}

#[test]
fn flags_win_over_environment_over_file_over_default() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("levada.properties");
    fs::write(&path, "node.id=2\nnum.partitions=2\nbroker.rack=file\n").unwrap();
    let sources = Sources {
        file: Some(path.clone()),
        environment: vec![
            ("LEVADA_NODE_ID".to_owned(), "3".to_owned()),
            ("LEVADA_NUM_PARTITIONS".to_owned(), "3".to_owned()),
            ("LEVADA_HTTP_LISTEN".to_owned(), "127.0.0.1:1".to_owned()),
            ("LEVADA_PORT".to_owned(), "tcp://10.0.0.1:9092".to_owned()),
            ("LEVADA_BROKERS".to_owned(), "x:1".to_owned()),
            ("LEVADA_NUM_PARTITION".to_owned(), "9".to_owned()),
            ("HOME".to_owned(), "/root".to_owned()),
        ],
        flags: vec!["node.id=4".to_owned(), "node.id=5".to_owned()],
        ..Sources::default()
    };
    let config = BrokerConfig::load(&sources).unwrap();
    assert_eq!((config.node_id, config.num_partitions, config.rack.as_deref()), (5, 3, Some("file")));
    assert_eq!(config.http_listen.as_ref().unwrap().port, 1);
    let origins = ["node.id", "num.partitions", "broker.rack", "log.dir"]
        .map(|name| config.settings().origin(name).to_string());
    let expected = [
        "flag -o".to_owned(),
        "environment LEVADA_NUM_PARTITIONS".to_owned(),
        format!("{}:3", path.display()),
        "default".to_owned(),
    ];
    assert_eq!(origins, expected);
    let notes: Vec<_> =
        config.settings().notes().iter().map(|note| (note.key.as_str(), note.text.as_str())).collect();
    assert_eq!(
        notes,
        [
            ("LEVADA_PORT", "no key has this variable"),
            ("LEVADA_NUM_PARTITION", "no key has this variable; did you mean LEVADA_NUM_PARTITIONS?"),
        ]
    );
}

/// Variables that Testcontainers' modules set, and some of compose files.
const OF_TESTCONTAINERS: [(&str, &str); 14] = [
    ("CLUSTER_ID", "4L6g3nShT-eMCtK--X86sw"),
    ("KAFKA_LISTENERS", "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094"),
    ("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://localhost:32768,BROKER://d3f0:9093"),
    ("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
    ("KAFKA_INTER_BROKER_LISTENER_NAME", "BROKER"),
    ("KAFKA_PROCESS_ROLES", "broker,controller"),
    ("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER"),
    ("KAFKA_BROKER_ID", "7"),
    ("KAFKA_NODE_ID", "7"),
    ("KAFKA_CONTROLLER_QUORUM_VOTERS", "7@localhost:9094"),
    ("KAFKA_LOG_FLUSH_INTERVAL_MESSAGES", "9223372036854775807"),
    ("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1"),
    ("KAFKA_LISTENER_NAME_BROKER_MAX_CONNECTIONS", "7"),
    ("LEVADA_NUM_PARTITIONS", "2"),
];

fn kafkas_environment(changes: &[(&str, &str)]) -> Sources {
    let all = OF_TESTCONTAINERS.iter().filter(|(name, _)| changes.iter().all(|(other, _)| other != name));
    let environment = all.chain(changes).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Sources { environment: environment.collect(), kafka_environment: true, ..Sources::default() }
}

#[test]
fn variables_of_kafkas_images_set_keys() {
    let sources = kafkas_environment(&[("KAFKA_NUM_PARTITIONS", "9"), ("KAFKA_HTTP_LISTEN", "0.0.0.0:1")]);
    let config = BrokerConfig::load(&sources).unwrap();
    let listeners: Vec<&str> = config.listeners.iter().map(|listener| listener.name.as_str()).collect();
    assert_eq!(listeners, ["PLAINTEXT", "BROKER"], "the controller's listener is not opened");
    assert_eq!(config.listeners[0].told(1), Some(("localhost".to_owned(), 32768)));
    assert_eq!((config.node_id, config.num_partitions), (7, 2), "Levada's own name takes precedence");
    assert_eq!(config.settings().text("listener.name.broker.max.connections"), Some("7"));
    assert!(config.cluster.is_none(), "a broker of its own");
    let without = Sources { kafka_environment: false, ..sources };
    assert_eq!(BrokerConfig::load(&without).unwrap().node_id, 1, "only on request");
}

#[test]
fn variables_without_a_key_are_noted() {
    let changes = [
        ("KAFKA_HEAP_OPTS", "-Xmx1G"),
        ("KAFKA_ZOOKEEPER_CONNECT", "zookeeper:2181"),
        ("KAFKA_NUM_PARTITION", "9"),
    ];
    let config = BrokerConfig::load(&kafkas_environment(&changes)).unwrap();
    let note = |variable: &str| {
        let notes = config.settings().notes();
        notes.iter().find(|note| note.key == variable).map_or("", |note| note.text.as_str())
    };
    assert_eq!(note("KAFKA_HEAP_OPTS"), "it is for a Java process");
    assert!(note("KAFKA_ZOOKEEPER_CONNECT").starts_with("Kafka 4 no longer has this key: "));
    assert_eq!(note("KAFKA_NUM_PARTITION"), "no such key; did you mean num.partitions?");
}

#[test]
fn unsafe_environment_variables_are_refused() {
    let errors =
        |changes: &[(&str, &str)]| BrokerConfig::load(&kafkas_environment(changes)).unwrap_err().to_string();
    let several = errors(&[("KAFKA_CONTROLLER_QUORUM_VOTERS", "7@a:9094,8@b:9094")]);
    assert!(several.contains("(environment KAFKA_CONTROLLER_QUORUM_VOTERS): there is one node"), "{several}");
    let alone = errors(&[("KAFKA_PROCESS_ROLES", "controller")]);
    assert!(alone.contains("Levada cannot run as a controller only"), "{alone}");
    let java = errors(&[("KAFKA_METRIC_REPORTERS", "io.example.Reporter")]);
    assert!(java.contains("(environment KAFKA_METRIC_REPORTERS): a Java class cannot be loaded"), "{java}");
}

#[test]
fn listener_keys_are_set_by_environment_variables() {
    let jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let variables = [
        ("LEVADA_LISTENERS", "SASL_PLAINTEXT://:0"),
        ("LEVADA_LISTENER_NAME_SASL__PLAINTEXT_SASL_ENABLED_MECHANISMS", "SCRAM-SHA-512"),
        ("LEVADA_LISTENER_NAME_SASL__PLAINTEXT_SCRAM___SHA___512_SASL_JAAS_CONFIG", jaas),
        ("LEVADA_LISTENER_NAME_MY___LISTENER_MAX_CONNECTIONS", "7"),
        ("LEVADA_LISTENER_NAME_IN_NUM_NETWORK_THREADS", "7"),
        ("LEVADA_LISTENER_NAME_SASL_PLAINTEXT_MAX_CONNECTIONS", "7"),
    ];
    let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let config = BrokerConfig::load(&Sources { environment, ..Sources::default() }).unwrap();
    let text = |name| config.settings().text(name);
    assert_eq!(text("listener.name.sasl_plaintext.sasl.enabled.mechanisms"), Some("SCRAM-SHA-512"));
    assert_eq!(text("listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config"), Some(jaas));
    assert_eq!(text("listener.name.my-listener.max.connections"), Some("7"));
    let notes: Vec<_> =
        config.settings().notes().iter().map(|note| (note.key.as_str(), note.text.as_str())).collect();
    assert_eq!(
        notes,
        [
            (
                "LEVADA_LISTENER_NAME_SASL_PLAINTEXT_MAX_CONNECTIONS",
                "no key has this variable; in the name of a listener or mechanism, write _ as __ and - as ___"
            ),
            (
                "listener.name.in.num.network.threads",
                "the broker sets the sizes of threads, queues and buffers itself"
            ),
        ]
    );
}

#[test]
fn a_stock_kafka_file_is_accepted_with_notes() {
    let config = load_file(STOCK).unwrap();
    let addresses: Vec<_> = config
        .listeners
        .iter()
        .map(|one| (one.name.as_str(), one.bind.to_string(), one.advertised.as_ref().unwrap().to_string()))
        .collect();
    assert_eq!(addresses, [("PLAINTEXT", ":9092".to_owned(), "localhost:9092".to_owned())]);
    let noted: Vec<_> = config.settings().notes().iter().map(|note| note.key.as_str()).collect();
    assert_eq!(
        noted,
        [
            "num.network.threads",
            "num.io.threads",
            "socket.send.buffer.bytes",
            "socket.receive.buffer.bytes",
            "controller.quorum.bootstrap.servers",
            "offsets.topic.replication.factor",
            "transaction.state.log.min.isr",
            "transaction.state.log.replication.factor",
        ]
    );
}

#[test]
fn invalid_settings_name_key_origin_and_remedy() {
    fn check(flags: &[&str], expected: &str) {
        assert_eq!(load(flags).unwrap_err().to_string(), expected);
    }
    check(&["num.partition=3"], "unknown key num.partition (flag -o): did you mean num.partitions?");
    check(&["retention.ms=3"], "unknown key retention.ms (flag -o): did you mean log.retention.ms?");
    check(&["gibberish.xyzzy=3"], "unknown key gibberish.xyzzy (flag -o)");
    check(&["num.partitions=0"], "num.partitions=0 (flag -o): must be an integer from 1 to 2147483647");
    check(&["num.partitions=many"], "num.partitions=many (flag -o): must be an integer from 1 to 2147483647");
    check(
        &["log.cleaner.min.cleanable.ratio=2"],
        "log.cleaner.min.cleanable.ratio=2 (flag -o): must be a number from 0 to 1",
    );
    check(
        &["compression.type=lzma"],
        "compression.type=lzma (flag -o): must be one of uncompressed, zstd, lz4, snappy, gzip, producer",
    );
    check(
        &["compression.gzip.level=0"],
        "compression.gzip.level=0 (flag -o): must be -1 or an integer from 1 to 9",
    );
    check(
        &["log.cleanup.policy=delete,shred"],
        "log.cleanup.policy=delete,shred (flag -o): must be a list of compact, delete",
    );
    check(
        &["auto.create.topics.enable=yes"],
        "auto.create.topics.enable=yes (flag -o): must be true or false",
    );
    check(&["verbose"], "flag -o \"verbose\": expected key=value");
    check(
        &["process.roles=controller"],
        "process.roles=controller (flag -o): must be a list that contains broker: Levada cannot run as a controller only",
    );
    check(&["log.dirs=/a,/a"], "log.dirs=/a,/a (flag -o): must be a list of directories, each once");
    check(
        &["levada.http.listen=9644"],
        "levada.http.listen=9644 (flag -o): must be host:port, or empty to turn it off",
    );
    check(
        &["group.min.session.timeout.ms=2000000"],
        "group.min.session.timeout.ms=2000000 (flag -o): must be no more than group.max.session.timeout.ms (1800000)",
    );
    check(
        &["group.consumer.session.timeout.ms=10000"],
        "group.consumer.session.timeout.ms=10000 (flag -o): must be no less than group.consumer.min.session.timeout.ms (45000)",
    );
    check(
        &["authorizer.class.name=kafka.security.authorizer.AclAuthorizer"],
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer (flag -o): must be one of org.apache.kafka.metadata.authorizer.StandardAuthorizer, ",
    );
    check(
        &["create.topic.policy.class.name=a.B"],
        "create.topic.policy.class.name=a.B (flag -o): a Java class cannot be loaded: remove the key",
    );
    check(
        &["node.id=x", "num.partitions=x"],
        "node.id=x (flag -o): must be an integer from 0 to 2147483647\nnum.partitions=x (flag -o): must be an integer from 1 to 2147483647",
    );
    check(
        &["log.cleaner.min.compaction.lag.ms=9", "log.cleaner.max.compaction.lag.ms=8"],
        "min.compaction.lag.ms=9 (flag -o): must be no more than max.compaction.lag.ms (8)",
    );
}

#[test]
fn a_missing_file_is_named() {
    let sources = Sources { file: Some("/nowhere/x.properties".into()), ..Sources::default() };
    let message = BrokerConfig::load(&sources).unwrap_err().to_string();
    assert!(message.starts_with("cannot read the configuration file /nowhere/x.properties: "), "{message}");
}

#[test]
fn http_listen_address_needs_loopback_or_token() {
    for open in ["0.0.0.0:1", ":1", "10.0.0.1:1", "[::]:1", "localhost.example:1"] {
        let listen = format!("levada.http.listen={open}");
        let error = load(&[&listen]).unwrap_err().to_string();
        assert!(error.contains("unless levada.http.token is set"), "{error}");
        assert!(load(&[&listen, "levada.http.token=s3cret"]).is_ok());
    }
    for own in ["localhost:1", "[::1]:1", "127.0.0.2:1"] {
        assert!(load(&[&format!("levada.http.listen={own}")]).is_ok(), "{own}");
    }
}

#[test]
fn listeners_are_refused_unless_they_can_be_served() {
    fn check(flags: &[&str], must_be: &str) {
        let message = load(flags).unwrap_err().to_string();
        assert!(message.ends_with(&format!("(flag -o): must be {must_be}")), "{message}");
    }
    check(&["listeners=localhost:9092"], "a list of NAME://host:port, such as PLAINTEXT://127.0.0.1:9092");
    check(
        &["listeners=PLAINTEXT://::1:9092"],
        "a list of NAME://host:port, such as PLAINTEXT://127.0.0.1:9092",
    );
    check(
        &["listeners=EDGE://:9093"],
        "listeners named in listener.security.protocol.map (add EDGE:PLAINTEXT to it)",
    );
    check(
        &["listeners=PLAINTEXT://:1,PLAINTEXT://:2"],
        "a list with each name once (PLAINTEXT occurs twice)",
    );
    check(&["listeners="], "a list with at least one listener for clients");
    check(&["advertised.listeners=PLAINTEXT://:9092"], "addresses with a host (PLAINTEXT has none)");
    check(
        &["advertised.listeners=EDGE://a:9092"],
        "addresses of listeners in `listeners` (EDGE is not one of them)",
    );
    check(
        &["advertised.listeners=PLAINTEXT://0.0.0.0:9092"],
        "addresses that clients can connect to (0.0.0.0 of PLAINTEXT is every address of a machine)",
    );
    check(
        &[
            "listeners=PLAINTEXT://:1,EDGE://127.0.0.1:1",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EDGE:PLAINTEXT",
        ],
        "a list with each port once, or once for each IP family (PLAINTEXT and EDGE share one)",
    );
    check(
        &["listener.security.protocol.map=PLAINTEXT:TLS"],
        "a list of NAME:PROTOCOL, each protocol PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    );
    check(&["inter.broker.listener.name=INSIDE"], "the name of a listener for clients in `listeners`");
    check(
        &["inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=PLAINTEXT"],
        "unset where security.inter.broker.protocol is set: either names the listener",
    );
    check(&["security.inter.broker.protocol=TLS"], "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL");

    let config =
        load(&["listeners=edge://[::1]:0", "listener.security.protocol.map=EDGE:PLAINTEXT"]).unwrap();
    assert_eq!(config.listeners[0].name, "EDGE");
    let both = "listeners=V4://127.0.0.1:9,V6://[::1]:9";
    let two = load(&[
        both,
        "listener.security.protocol.map=V4:PLAINTEXT,V6:PLAINTEXT",
        "inter.broker.listener.name=v6",
    ]);
    assert_eq!(two.unwrap().listeners.len(), 2);
    assert_eq!(config.listeners[0].bind.to_string(), "[::1]:0");
    assert_eq!(load(&["levada.http.listen="]).unwrap().http_listen, None);
}

#[test]
fn properties_are_read_as_java_reads_them() {
    fn check(text: &str, expected: &[(&str, &str)]) {
        let entries = properties::parse(text).unwrap();
        let pairs: Vec<_> = entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect();
        assert_eq!(pairs, expected, "{text:?}");
    }
    check("", &[]);
    check("# c\n ! c\n\n\t\n", &[]);
    check("a=1\r\nb = 2\r\n", &[("a", "1"), ("b", "2")]);
    check("a:1\nb : 2\nc 3\nd\n", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "")]);
    check("a = b = c", &[("a", "b = c")]);
    check("a= trailing ", &[("a", "trailing ")]);
    check("list = one,\\\n    two,\\\n# three\nb=1", &[("list", "one,two,# three"), ("b", "1")]);
    check("a=x\\\\\nb=1", &[("a", "x\\"), ("b", "1")]);
    check("a\\=b\\:c\\ d=\\tx\\u00e9\\q", &[("a=b:c d", "\txéq")]);
    check("a=1\\", &[("a", "1")]);
    check("a=\\ud83d\\ude00!", &[("a", "😀!")]);
    for half in ["a=\\ud83d", "a=\\ud83dx", "a=\\ud83d\\u0041", "a=\\ude00"] {
        assert!(properties::parse(half).is_err(), "{half}");
    }
    assert_eq!(
        properties::parse("x=1\n\na=\\u12"),
        Err(properties::SyntaxError {
            line: 3,
            reason: "\\u must be followed by four hexadecimal digits of a character"
        })
    );
    assert_eq!(properties::parse("a=1\\\n2\nb=3").unwrap()[1].line, 3);
}

#[test]
fn properties_accept_latin1_bom_and_carriage_returns() {
    fn check(file: &[u8], expected: &[(&str, &str, usize)]) {
        let entries = properties::parse(file).unwrap();
        let rows: Vec<_> =
            entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str(), entry.line)).collect();
        assert_eq!(rows, expected, "{}", file.escape_ascii());
    }
    check(b"# gr\xfc\xdfe\na=\xe9\n", &[("a", "é", 2)]);
    check("a=é\n".as_bytes(), &[("a", "é", 1)]);
    check(b"\xef\xbb\xbf# c\na=1\n", &[("a", "1", 2)]);
    check(b"\xef\xbb\xbfa=1\n", &[("a", "1", 1)]);
    check(b"a=1\rb=2\r\rc=3\r\nd=4", &[("a", "1", 1), ("b", "2", 2), ("c", "3", 4), ("d", "4", 5)]);
    check(b"a=1,\\\r  2\rb=\\\r\n3\r", &[("a", "1,2", 1), ("b", "3", 3)]);
    let utf_16 = properties::parse(b"\xff\xfea\0=\x001\0").unwrap_err();
    assert_eq!((utf_16.line, utf_16.reason), (1, "the byte order mark of UTF-16: save the file as UTF-8"));
}

#[test]
fn internal_segment_bytes_applies_and_shows_when_set() {
    let broker = load(&[]).unwrap();
    let small = own(&[("internal.segment.bytes", "100"), ("segment.bytes", "2000000")]);
    assert_eq!(TopicConfig::resolve(broker.settings(), &small).unwrap().segment_bytes, 100);
    let shown = |own: &BTreeMap<String, String>| {
        broker.describe_topic(own).into_iter().find(|row| row.name == "internal.segment.bytes")
    };
    assert_eq!(shown(&small).unwrap().value.as_deref(), Some("100"));
    assert!(shown(&own(&[])).is_none());
}

#[test]
fn a_topic_inherits_and_overrides() {
    let broker =
        load(&["log.retention.minutes=5", "log.segment.bytes=2000000", "log.roll.jitter.hours=1"]).unwrap();
    let topic = TopicConfig::resolve(
        broker.settings(),
        &own(&[("cleanup.policy", "compact, delete"), ("segment.bytes", "1048576")]),
    )
    .unwrap();
    assert_eq!(
        (topic.retention_ms, topic.segment_bytes, topic.segment_jitter_ms),
        (300_000, 1_048_576, 3_600_000)
    );
    assert_eq!(topic.cleanup_policy, CleanupPolicy { delete: true, compact: true });
    assert_eq!(load(&["log.retention.hours=-1"]).unwrap().topic_defaults.retention_ms, -1);
    assert_eq!(
        load(&["log.retention.ms=7", "log.retention.minutes=5"]).unwrap().topic_defaults.retention_ms,
        7
    );

    let refused = |pairs: &[(&str, &str)]| {
        TopicConfig::resolve(broker.settings(), &own(pairs)).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[("retention.m", "1")]),
        "unknown key retention.m (topic): did you mean retention.ms?"
    );
    assert_eq!(
        refused(&[("retention.ms", "-2")]),
        "retention.ms=-2 (topic): must be an integer from -1 to 9223372036854775807"
    );
    assert_eq!(
        refused(&[("max.compaction.lag.ms", "1"), ("min.compaction.lag.ms", "2")]),
        "min.compaction.lag.ms=2 (topic): must be no more than max.compaction.lag.ms (1)"
    );
}

#[test]
fn negative_retention_bytes_means_no_limit() {
    let broker = load(&["log.retention.bytes=-7"]).unwrap();
    assert_eq!(broker.topic_defaults.retention_bytes, -7);
    let topic = TopicConfig::resolve(broker.settings(), &own(&[("retention.bytes", "-2")])).unwrap();
    assert_eq!(topic.retention_bytes, -2);
    let text = "retention.ms=-2 (topic): must be an integer from -1 to 9223372036854775807";
    let error = TopicConfig::resolve(broker.settings(), &own(&[("retention.ms", "-2")])).unwrap_err();
    assert_eq!(error.to_string(), text);
}

#[test]
fn descriptions_name_sources_and_synonyms_as_kafka_does() {
    fn check(
        broker: &BrokerConfig,
        pairs: &[(&str, &str)],
        name: &str,
        expected: (&str, ConfigSource, &[&str]),
    ) {
        let rows = broker.describe_topic(&own(pairs));
        let row = rows.iter().find(|row| row.name == name).unwrap();
        let synonyms: Vec<String> = row
            .synonyms
            .iter()
            .map(|synonym| {
                format!(
                    "{:?}:{}={}",
                    synonym.source,
                    synonym.name,
                    synonym.value.as_deref().unwrap_or("null")
                )
            })
            .collect();
        assert_eq!((row.value.as_deref().unwrap(), row.source), (expected.0, expected.1), "{name}");
        assert_eq!(synonyms, expected.2, "{name}");
    }
    let plain = BrokerConfig::default();
    let tuned = load(&["log.segment.bytes=2000000", "log.retention.hours=1", "log.roll.ms=9"]).unwrap();
    check(&plain, &[], "retention.ms", ("604800000", ConfigSource::Default, &[]));
    check(
        &plain,
        &[],
        "segment.bytes",
        ("1073741824", ConfigSource::Default, &["Default:log.segment.bytes=1073741824"]),
    );
    check(&plain, &[], "remote.storage.enable", ("false", ConfigSource::Default, &[]));
    check(
        &plain,
        &[("retention.ms", " 5 ")],
        "retention.ms",
        ("5", ConfigSource::Topic, &["Topic:retention.ms=5"]),
    );
    check(&tuned, &[], "retention.ms", ("3600000", ConfigSource::Default, &[]));
    check(
        &tuned,
        &[],
        "segment.ms",
        ("9", ConfigSource::StaticBroker, &["StaticBroker:log.roll.ms=9", "Default:log.roll.hours=168"]),
    );
    check(
        &tuned,
        &[("segment.bytes", "3000000")],
        "segment.bytes",
        (
            "3000000",
            ConfigSource::Topic,
            &[
                "Topic:segment.bytes=3000000",
                "StaticBroker:log.segment.bytes=2000000",
                "Default:log.segment.bytes=1073741824",
            ],
        ),
    );
}

#[test]
fn config_descriptions_keep_full_origin() {
    let tuned = load(&["log.segment.bytes=2000000", "log.retention.hours=1"]).unwrap();
    let rows = tuned.describe_topic(&own(&[]));
    let row = rows.iter().find(|row| row.name == "retention.ms").unwrap();
    assert_eq!(row.origin, Origin::Flag);

    let rows = tuned.describe();
    let row = rows.iter().find(|row| row.name == "log.segment.bytes").unwrap();
    assert_eq!((row.value.as_deref(), row.source), (Some("2000000"), ConfigSource::StaticBroker));
    assert!(!row.read_only);
    assert!(rows.iter().find(|row| row.name == "node.id").unwrap().read_only);
}

#[test]
fn dynamic_layers_override_file_but_not_topic() {
    let fixed = load(&["log.retention.ms=1", "message.max.bytes=1000"]).unwrap();
    let own = own(&[("log.retention.ms", " 3 "), ("node.id", "7"), ("plug.in", "x")]);
    let cluster =
        self::own(&[("log.retention.ms", "2"), ("message.max.bytes", "2000"), ("log.roll.ms", "-9")]);
    let broker = fixed.with_dynamic(&own, &cluster).unwrap();
    assert_eq!((broker.topic_defaults.retention_ms, broker.topic_defaults.max_message_bytes), (3, 2000));
    // Values that the table does not allow count as not set.
    assert_eq!((broker.node_id, broker.topic_defaults.segment_ms), (1, 604_800_000));

    let layers = |rows: Vec<Described>, name: &str| -> Vec<String> {
        let row = rows.into_iter().find(|row| row.name == name).unwrap();
        let show = |one: &Synonym| format!("{:?}:{}", one.source, one.value.as_deref().unwrap_or("null"));
        row.synonyms.iter().map(show).collect()
    };
    assert_eq!(
        layers(broker.describe(), "log.retention.ms"),
        ["DynamicBroker:3", "DynamicCluster:2", "StaticBroker:1", "Default:168"]
    );
    assert_eq!(layers(broker.describe_topic(&self::own(&[])), "retention.ms")[0], "DynamicBroker:3");
    assert_eq!(layers(broker.describe(), "plug.in"), ["DynamicBroker:x"]);
    let cluster: Vec<_> = broker.describe_cluster().into_iter().map(|row| row.name.into_owned()).collect();
    assert_eq!(cluster, ["log.retention.ms", "message.max.bytes"]);
    assert!(broker.describe().iter().find(|row| row.name == "plug.in").unwrap().sensitive);
}

/// Before, one such value took all of them out of force: a start deleted records that were to be
/// kept for ever.
#[test]
fn contradicting_stored_value_leaves_others_in_force() {
    let file = load(&["log.cleaner.max.compaction.lag.ms=1000"]).unwrap();
    let own = own(&[
        ("log.retention.bytes", "7"),
        ("plug.in", "x"),
        ("max.connections.per.ip.overrides", "nonsense"),
    ]);
    let cluster = self::own(&[("log.retention.ms", "-1"), ("log.cleaner.min.compaction.lag.ms", "60000")]);
    assert!(file.with_dynamic(&own, &cluster).is_err());
    let broker = file.with_stored(&own, &cluster).unwrap();
    let topic = &broker.topic_defaults;
    assert_eq!((topic.retention_ms, topic.retention_bytes, topic.min_compaction_lag_ms), (-1, 7, 0));
    assert_eq!(broker.settings().text("plug.in"), Some("x"));
    assert_eq!(broker.max_connections_of, HostLimits::default());

    // The value holds if it goes with the rest, in whatever layer that is.
    let longer = self::own(&[("log.cleaner.max.compaction.lag.ms", "90000"), ("log.retention.bytes", "7")]);
    let mut broken = cluster;
    broken.insert("max.connections.per.ip.overrides".to_owned(), "nonsense".to_owned());
    let broker = file.with_stored(&broken, &longer).unwrap();
    let topic = &broker.topic_defaults;
    assert_eq!((topic.retention_ms, topic.retention_bytes, topic.min_compaction_lag_ms), (-1, 7, 60_000));
}

/// Lookups within a change of the metadata kept all other changes waiting. The lookup of this name
/// fails without the name service.
#[test]
fn stored_host_limit_is_loaded_without_name_lookup() {
    let hosts = own(&[("max.connections.per.ip.overrides", "10.0.0.1:1,no\0host:2")]);
    let file = BrokerConfig::default();
    assert_eq!(file.check_dynamic(true, &hosts), Ok(()));
    let broker = file.with_dynamic(&own(&[]), &hosts).unwrap();
    let limits = &broker.max_connections_of;
    assert_eq!(limits.addresses, [("10.0.0.1".parse().unwrap(), 1)].into());
    assert_eq!(limits.names, [("no\0host".to_owned(), 2)].into());
    let refused = load(&["max.connections.per.ip.overrides=no\0host:2"]).unwrap_err().to_string();
    assert!(refused.contains("max.connections.per.ip.overrides"), "{refused}");
}

#[test]
fn dynamic_config_errors_match_kafka() {
    fn check(whole_cluster: bool, pairs: &[(&str, &str)], expected: Result<(), &str>) {
        let checked = BrokerConfig::default().check_dynamic(whole_cluster, &own(pairs));
        assert_eq!(checked, expected.map_err(str::to_owned), "{pairs:?}");
    }
    check(false, &[("log.retention.ms", "5"), ("num.io.threads", "4"), ("plug.in", "x")], Ok(()));
    check(true, &[("node.id", "5")], Err("Cannot update these configs dynamically: [node.id]"));
    check(
        false,
        &[("log.retention.hours", "5")],
        Err("Cannot update these configs dynamically: [log.retention.hours]"),
    );
    check(
        false,
        &[("num.partitions", "5")],
        Err("Cannot update these configs dynamically: [num.partitions]"),
    );
    for (name, value, demand) in [
        ("log.retention.ms", "x", "Not a number of type LONG"),
        ("message.max.bytes", "99999999999", "Not a number of type INT"),
        ("log.segment.bytes", "3", "Value must be at least 1048576"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("log.preallocate", "maybe", "Expected value to be either true or false"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "-1.0", "Value must be at least 0"),
        ("log.message.timestamp.type", "Now", "String must be one of: CreateTime, LogAppendTime"),
    ] {
        let expected = format!("Invalid value {value} for configuration {name}: {demand}");
        check(false, &[(name, value)], Err(&expected));
    }
    let ratio =
        "Invalid value 2.0 for configuration log.cleaner.min.cleanable.ratio: Value must be no more than 1";
    check(false, &[("log.cleaner.min.cleanable.ratio", "2")], Err(ratio));
    let shred =
        "Invalid value shred for configuration log.cleanup.policy: String must be one of: compact, delete";
    check(false, &[("log.cleanup.policy", "delete,shred")], Err(shred));
    let empty = "Configuration 'log.cleanup.policy' values must not be empty.";
    check(false, &[("log.cleanup.policy", "delete,")], Err(empty));
    check(false, &[("log.cleanup.policy", ",shred")], Err(empty));
    let shred =
        "Invalid value shred for configuration log.cleanup.policy: String must be one of: compact, delete";
    check(false, &[("log.cleanup.policy", "shred,")], Err(shred));
    let suites = "Configuration 'ssl.cipher.suites' values must not be empty.";
    check(false, &[("listener.name.plaintext.ssl.cipher.suites", "x,")], Err(suites));
    for policy in ["delete, compact", "delete,delete", ""] {
        check(false, &[("log.cleanup.policy", policy)], Ok(()));
    }
    for (name, value, why) in [
        ("num.io.threads", "17", "not be greater than double the current value 8"),
        ("num.io.threads", "3", "be at least half the current value 8"),
        ("num.network.threads", "7", "not be greater than double the current value 3"),
        ("num.replica.fetchers", "3", "not be greater than double the current value 1"),
        ("background.threads", "21", "not be greater than double the current value 10"),
    ] {
        let expected = format!(
            "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation \
             failed for {name}={value}, value should {why} for configuration Invalid dynamic configuration"
        );
        check(false, &[(name, value)], Err(&expected));
        check(true, &[(name, value)], Err(&expected));
    }
    check(false, &[("num.io.threads", "16"), ("num.recovery.threads.per.data.dir", "64")], Ok(()));
    let cleaners = "Invalid value org.apache.kafka.common.config.ConfigException: Log cleaner threads cannot be \
                    increased to more than double the current value 1 for configuration Invalid dynamic configuration";
    check(false, &[("log.cleaner.threads", "3")], Err(cleaners));
    check(false, &[("log.cleaner.threads", "2")], Ok(()));
}

#[test]
fn cleaner_threads_need_memory_for_keys() {
    let check = |memory| {
        let pairs = [("log.cleaner.threads", "2"), ("log.cleaner.dedupe.buffer.size", memory)];
        BrokerConfig::default().check_dynamic(false, &own(&pairs))
    };
    assert_eq!(check("2097154"), Ok(()));
    let refusal = check("2097152").unwrap_err();
    assert!(refusal.contains("more than 1 MiB for each of the log.cleaner.threads (2)"), "{refusal}");
}

#[test]
fn share_auto_offset_reset_is_validated_like_kafka() {
    let broker = BrokerConfig::default();
    let group = |name: &str, value: &str| check_group(&broker, &own(&[(name, value)])).err();
    let durations = ["P1D", "PT0S", "p1dt2h3m4.5s", "PT2H-1M", "-PT-5S", "PT1,S", "P1DT2M"];
    let durations = durations.map(|duration| format!("by_duration:{duration}"));
    for start in durations.iter().map(String::as_str).chain(["earliest", "latest"]) {
        assert_eq!(group("share.auto.offset.reset", start), None, "{start}");
    }
    let durations = [
        "",
        "P",
        "PT",
        "P1DT",
        "PT-5S",
        "PT-0.5S",
        "-PT0.5S",
        "-P1D",
        "P1Y",
        "PT99999999999999999999S",
        "1D",
    ];
    let durations = durations.map(|duration| format!("by_duration:{duration}"));
    for start in durations.iter().map(String::as_str).chain(["zz", "none", "by_duration", "Latest", ""]) {
        let expected = format!(
            "Invalid value {start} for configuration share.auto.offset.reset: Invalid value `{start}` for configuration \
             share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format \
             'by_duration:<PnDTnHnMn.nS>'."
        );
        assert_eq!(group("share.auto.offset.reset", start).unwrap(), expected);
    }
}

#[test]
fn group_and_subscription_setting_errors_match_kafka() {
    let broker = BrokerConfig::default();
    let group = |name: &str, value: &str| check_group(&broker, &own(&[(name, value)])).err();
    assert_eq!(group("consumer.session.timeout.ms", "50000"), None);
    assert_eq!(
        group("consumer.session.timeout.ms", "5").unwrap(),
        "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"
    );
    assert_eq!(
        group("share.heartbeat.interval.ms", "99999").unwrap(),
        "share.heartbeat.interval.ms must be less than or equal to group.share.max.heartbeat.interval.ms"
    );
    assert_eq!(group("retention.ms", "5").unwrap(), "Unknown group config name: retention.ms");
    let wide =
        ["group.consumer.min.session.timeout.ms=1000", "group.consumer.max.heartbeat.interval.ms=60000"];
    let wide = BrokerConfig::load(&Sources::flags(wide)).unwrap();
    let both = own(&[("consumer.session.timeout.ms", "20000"), ("consumer.heartbeat.interval.ms", "20000")]);
    let expected = "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms";
    assert_eq!(check_group(&wide, &both).unwrap_err(), expected);
    let short = own(&[("consumer.session.timeout.ms", "20000")]);
    assert_eq!(check_group(&wide, &short), Ok(()));
    assert_eq!(wide.own_session_timeout_ms(&short), Some(20_000));
    assert_eq!(broker.own_session_timeout_ms(&short), Some(45_000), "the bounds are closer now");
    assert_eq!(broker.own_heartbeat_interval_ms(&short), None);
    let share = own(&[
        ("share.session.timeout.ms", "50000"),
        ("share.heartbeat.interval.ms", "6000"),
        ("share.assignment.interval.ms", "0"),
    ]);
    assert_eq!(check_group(&broker, &share), Ok(()));
    let shown = [
        broker.own_share_session_timeout_ms(&share),
        broker.own_share_heartbeat_interval_ms(&share),
        broker.own_share_assignment_interval_ms(&share),
        broker.own_share_assignment_interval_ms(&short),
    ];
    assert_eq!(shown, [Some(50_000), Some(6_000), Some(0), None]);
    let slow = own(&[("consumer.assignment.interval.ms", "2000")]);
    let intervals = [&slow, &share].map(|own| broker.own_consumer_assignment_interval_ms(own));
    assert_eq!(intervals, [Some(2_000), None]);
    let subscription = |name: &str, value: &str| match check_client_metrics(&own(&[(name, value)])) {
        Ok(()) => None,
        Err(Wrong::Request(message)) => Some((42, message)),
        Err(Wrong::Config(message)) => Some((40, message)),
    };
    assert_eq!(subscription("match", "client_id=a,client_source_port=.*"), None);
    assert_eq!(subscription("match", "xx").unwrap(), (40, "Illegal client matching pattern: xx".to_owned()));
    for pattern in
        ["client_id=[", "client_id=(a", "client_id=a)", "client_id=*", "client_id=a\\", "client_id=a{x"]
    {
        let refused = subscription("match", pattern).unwrap();
        assert_eq!(refused, (40, format!("Illegal client matching pattern: {pattern}")));
    }
    for pattern in ["client_id=a++", r"client_id=(?!a)b\Z", r"client_id=(a)\1\Q[\E"] {
        assert_eq!(subscription("match", pattern), None, "{pattern} is one of Java's");
    }
    let empty = "Configuration 'metrics' values must not be empty.";
    assert_eq!(subscription("metrics", "a.,").unwrap(), (40, empty.to_owned()));
    let interval = "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)";
    assert_eq!(subscription("interval.ms", "1").unwrap(), (42, interval.to_owned()));
    assert_eq!(subscription("foo", "1").unwrap().0, 42);
}

#[test]
fn client_metrics_have_kafkas_values_unless_set() {
    let none = ClientMetrics { metrics: Vec::new(), interval_ms: 300_000, patterns: Vec::new() };
    assert_eq!(ClientMetrics::of(&own(&[])), none);
    let all = [
        ("metrics", "org.apache.kafka.producer., *"),
        ("interval.ms", " 5000"),
        ("match", "client_id = a.* ,client_source_port=1"),
    ];
    assert!(check_client_metrics(&own(&all)).is_ok());
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let set = ClientMetrics {
        metrics: ["org.apache.kafka.producer.", "*"].map(str::to_owned).into(),
        interval_ms: 5000,
        patterns: vec![pair("client_id", "a.*"), pair("client_source_port", "1")],
    };
    assert_eq!(ClientMetrics::of(&own(&all)), set);
}

#[test]
fn share_groups_have_kafkas_settings_unless_set() {
    let broker = BrokerConfig::default();
    let kafka = ShareGroupSettings {
        record_lock_duration_ms: 30_000,
        delivery_count_limit: 5,
        partition_max_record_locks: 2_000,
        start: ShareStart::Latest,
        committed_only: false,
        renew_enabled: true,
        dead_letter_topic: None,
        dead_letter_copies: false,
    };
    assert_eq!(broker.share_group(&own(&[])), kafka);
    let all = [
        ("share.record.lock.duration.ms", "15000"),
        ("share.delivery.count.limit", "2"),
        ("share.partition.max.record.locks", "4000"),
        ("share.auto.offset.reset", " earliest"),
        ("share.isolation.level", "read_committed"),
        ("share.renew.acknowledge.enable", "FALSE"),
        ("errors.deadletterqueue.topic.name", " dlq.orders "),
        ("errors.deadletterqueue.copy.record.enable", "True"),
    ];
    assert_eq!(check_group(&broker, &own(&all)), Ok(()));
    let set = ShareGroupSettings {
        record_lock_duration_ms: 15_000,
        delivery_count_limit: 2,
        partition_max_record_locks: 4_000,
        start: ShareStart::Earliest,
        committed_only: true,
        renew_enabled: false,
        dead_letter_topic: Some("dlq.orders".into()),
        dead_letter_copies: true,
    };
    assert_eq!(broker.share_group(&own(&all)), set);
    let closer = own(&[("share.delivery.count.limit", "60"), ("share.record.lock.duration.ms", "5")]);
    let shown = broker.share_group(&closer);
    assert_eq!((shown.delivery_count_limit, shown.record_lock_duration_ms), (10, 15_000), "bounds hold");
    let starts = [("PT1H", 3_600_000), ("P1DT0.0015S", 86_400_001), ("-PT-2S", 2_000), ("PT0S", 0)];
    for (duration, ms) in starts {
        let set = own(&[("share.auto.offset.reset", &format!("by_duration:{duration}"))]);
        assert_eq!(check_group(&broker, &set), Ok(()), "{duration}");
        assert_eq!(broker.share_group(&set).start, ShareStart::Since(ms), "{duration}");
    }
}

#[test]
fn names_of_dead_letter_topics_are_checked() {
    let broker = BrokerConfig::default();
    let topic = |name| own(&[("errors.deadletterqueue.topic.name", name)]);
    for name in ["", "  ", "dlq.orders", "orders", "_orders", "no topic/name"] {
        assert_eq!(check_group(&broker, &topic(name)), Ok(()), "{name:?}: the prefix holds where it is used");
    }
    let refused = "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'";
    for name in ["__", "__consumer_offsets", " __dlq"] {
        assert_eq!(check_group(&broker, &topic(name)), Err(refused.to_owned()), "{name:?}");
    }
    let empty = broker.share_group(&topic(" "));
    assert_eq!((empty.dead_letter_topic, empty.dead_letter_copies), (None, false));
    let copies = own(&[("errors.deadletterqueue.copy.record.enable", "maybe")]);
    assert!(check_group(&broker, &copies).unwrap_err().contains("copy.record.enable"));
    let dead_letters = load(&["errors.deadletterqueue.auto.create.topics.enable=true"]).unwrap().dead_letters;
    assert_eq!((dead_letters.creates_topics, &*dead_letters.prefix), (true, "dlq."));
}

#[test]
fn later_keys_are_shown_if_set() {
    let key = "errors.deadletterqueue.group.enable";
    let broker = load(&["errors.deadletterqueue.topic.name.prefix="]).unwrap();
    let names = |rows: Vec<Described>| {
        let names = rows.into_iter().map(|row| row.name.into_owned());
        names.filter(|name| name.contains("deadletterqueue")).collect::<Vec<_>>()
    };
    assert_eq!(names(broker.describe_as_kafka()), ["errors.deadletterqueue.topic.name.prefix"]);
    assert_eq!(names(broker.describe_topic(&own(&[]))), [""; 0]);
    assert_eq!(names(broker.describe_topic(&own(&[(key, "true")]))), [key]);
    assert_eq!(names(broker.describe_group(&own(&[]))), [""; 0]);
    let copies = "errors.deadletterqueue.copy.record.enable";
    assert_eq!(names(broker.describe_group(&own(&[(copies, "true")]))), [copies]);
    let topic = TopicConfig::resolve(broker.settings(), &own(&[(key, "true")])).unwrap();
    assert!(topic.takes_dead_letters);
    assert_eq!(broker.dead_letters.prefix, "");
}

#[test]
fn group_assignment_interval_lists_broker_and_group_values() {
    let row = |broker: &BrokerConfig, values: &[(&str, &str)]| {
        let rows = broker.describe_group(&own(values));
        let row = rows.into_iter().find(|row| row.name == "consumer.assignment.interval.ms").unwrap();
        let synonyms = row.synonyms.into_iter().map(|one| (one.value.unwrap(), one.source));
        (row.value.unwrap(), row.source, synonyms.collect::<Vec<_>>())
    };
    let text = |value: &str, source| (value.to_owned(), source);
    let default = text("1000", ConfigSource::Default);
    let plain = row(&BrokerConfig::default(), &[]);
    assert_eq!(plain, ("1000".to_owned(), ConfigSource::Default, vec![default.clone()]));

    let set = load(&["group.consumer.assignment.interval.ms=500"]).unwrap();
    let of_broker = text("500", ConfigSource::StaticBroker);
    let shown = row(&set, &[]);
    assert_eq!(
        shown,
        ("500".to_owned(), ConfigSource::StaticBroker, vec![of_broker.clone(), default.clone()])
    );
    let shown = row(&set, &[("consumer.assignment.interval.ms", "700")]);
    let of_group = text("700", ConfigSource::Group);
    assert_eq!(shown, ("700".to_owned(), ConfigSource::Group, vec![of_group, of_broker, default]));
}

#[test]
fn listener_keys_override_general_keys() {
    let config = load(&[
        "ssl.keystore.location=/all.pem",
        "listener.name.EDGE.ssl.keystore.location=/edge.pem",
        "listener.name.edge.ssl.keystore.password=planted",
        "listener.name.edge.message.max.bytes=3",
    ])
    .unwrap();
    let location = |listener| config.settings().listener_text(listener, "ssl.keystore.location");
    assert_eq!((location("EDGE"), location("OTHER")), (Some("/edge.pem"), Some("/all.pem")));
    assert_eq!(config.settings().own_listener_text("OTHER", "ssl.keystore.location"), None);
    let notes: Vec<_> = config.settings().notes().iter().map(|note| note.key.as_str()).collect();
    assert_eq!(notes, ["listener.name.edge.message.max.bytes"]);
    let rows = config.describe();
    let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
    assert!(row("listener.name.edge.ssl.keystore.password").sensitive);
    let open = row("listener.name.edge.ssl.keystore.location");
    // Kafka says so of every key with a prefix, and of none that may change with one.
    assert_eq!((open.sensitive, open.read_only, open.value.as_deref()), (false, true, Some("/edge.pem")));
    assert!(!row("ssl.keystore.location").read_only);
    let unknown = load(&["listener.name.edge.ssl.keystore.place=x"]).unwrap_err().to_string();
    assert!(unknown.starts_with("unknown key listener.name.edge.ssl.keystore.place (flag -o)"), "{unknown}");
}

#[test]
fn listener_keys_change_per_broker_with_prefix() {
    fn check(whole_cluster: bool, name: &str, expected: Result<(), &str>) {
        let checked = BrokerConfig::default().check_dynamic(whole_cluster, &own(&[(name, "x")]));
        assert_eq!(checked, expected.map_err(str::to_owned), "{name}");
    }
    check(false, "listener.name.edge.ssl.keystore.location", Ok(()));
    check(
        false,
        "ssl.keystore.location",
        Err(
            "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.location]",
        ),
    );
    check(
        true,
        "listener.name.edge.ssl.keystore.location",
        Err(
            "Cannot update these configs at default cluster level, broker id must be specified: [listener.name.edge.ssl.keystore.location]",
        ),
    );
    check(
        false,
        "listener.name.edge.ssl.principal.mapping.rules",
        Err("Cannot update these configs dynamically: [listener.name.edge.ssl.principal.mapping.rules]"),
    );
}
