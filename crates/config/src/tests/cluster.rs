//! Cluster mode: the keys that select it, and what is missing or contradictory.

use std::path::Path;

use levada_security::sasl::Mechanism;

use super::*;

const MEMBER: [&str; 5] = [
    "process.roles=broker",
    "node.id=77",
    "controller.quorum.bootstrap.servers=c1:9093,[::1]:9094",
    "controller.listener.names=Controller,OTHER",
    "listeners=PLAINTEXT://127.0.0.1:9092",
];

fn member(flags: &[&str]) -> Result<ClusterConfig, String> {
    let flags: Vec<&str> = MEMBER.iter().chain(flags).copied().collect();
    load(&flags).map(|config| config.cluster.expect("cluster mode")).map_err(|error| error.to_string())
}

fn check(flags: &[&str], expected: &str) {
    assert_eq!(member(flags).map(drop), Err(expected.to_owned()));
}

#[test]
fn the_role_broker_alone_selects_the_cluster() {
    let config = member(&[]).unwrap();
    assert_eq!(
        (config.controllers.name.as_str(), config.controllers.protocol),
        ("CONTROLLER", Protocol::Plaintext)
    );
    assert_eq!(config.quorum.target().address.to_string(), "c1:9093");
    assert_eq!((config.times.heartbeat_ms, config.times.session_ms), (2000, 9000));
    assert!(config.controllers.login.is_none() && config.controllers.tls().unwrap().is_none());
    for alone in [&[][..], &["process.roles=controller,broker"], &["process.roles=broker,controller"]] {
        assert!(load(alone).unwrap().cluster.is_none(), "{alone:?}");
    }
}

#[test]
fn cluster_keys_on_standalone_broker_are_noted() {
    let config =
        load(&["broker.session.timeout.ms=5000", "controller.quorum.voters=1@localhost:9093"]).unwrap();
    let notes: Vec<_> =
        config.settings().notes().iter().map(|note| (note.key.as_str(), &*note.text)).collect();
    let reason = "the broker is its own controller";
    assert_eq!(notes, [("broker.session.timeout.ms", reason), ("controller.quorum.voters", reason)]);
    assert!(load(&MEMBER).unwrap().settings().notes().is_empty());
}

#[test]
fn several_controllers_need_the_role_of_a_broker() {
    let error = load(&["controller.quorum.voters=1@a:1,2@b:2"]).unwrap_err().to_string();
    assert!(
        error.starts_with("controller.quorum.voters=1@a:1,2@b:2 (flag -o): there is one node"),
        "{error}"
    );
    assert!(error.ends_with("to join a cluster, set process.roles=broker"), "{error}");
    assert!(member(&["controller.quorum.voters=1@a:1,2@b:2"]).is_ok());
}

#[test]
fn missing_cluster_keys_are_reported_with_next_step() {
    let missing = load(&["process.roles=broker"]).unwrap_err().to_string();
    let lines: Vec<&str> = missing.lines().collect();
    assert_eq!(lines.len(), 3, "{missing}");
    assert_eq!(lines[0], "node.id=1 (default): must be set to an id that no other node of the cluster has");
    assert!(
        lines[1].starts_with(
            "controller.quorum.bootstrap.servers= (default): must be a list of the controllers' addresses"
        ),
        "{missing}"
    );
    assert_eq!(
        lines[2],
        "controller.listener.names= (default): must be set to the name of the controllers' listener, such as CONTROLLER"
    );
}

#[test]
fn contradictory_cluster_settings_are_named() {
    check(
        &["controller.quorum.voters=77@a:1"],
        "node.id=77 (flag -o): must be another id: controller.quorum.voters has a controller of id 77",
    );
    check(
        &["controller.quorum.bootstrap.servers=c1"],
        "controller.quorum.bootstrap.servers=c1 (flag -o): must be a list of host:port, joined by commas (\"c1\" is not)",
    );
    check(
        &["listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"],
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093 (flag -o): must be without CONTROLLER: \
         controllers alone have the listeners of controller.listener.names",
    );
    check(
        &["listener.security.protocol.map=PLAINTEXT:PLAINTEXT"],
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT (flag -o): must be a list with the protocol of CONTROLLER, \
         such as CONTROLLER:SASL_SSL",
    );
    check(
        &["broker.heartbeat.interval.ms=9000"],
        "broker.heartbeat.interval.ms=9000 (flag -o): must be at least 1 and less than broker.session.timeout.ms (9000)",
    );
    check(
        &["listeners=PLAINTEXT://0.0.0.0:9092"],
        "advertised.listeners= (default): must be a list with an address for PLAINTEXT, which other nodes can connect \
         to: 0.0.0.0 is every address of this machine",
    );
    assert!(
        member(&["listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners=PLAINTEXT://b:9092"]).is_ok()
    );
}

#[test]
fn directories_can_be_cordoned_in_a_cluster_only() {
    let cordoned = |named: &str, dir: &str| {
        let keys = ["log.dirs=/data,/more", &format!("cordoned.log.dirs={named}")];
        member(&keys).unwrap().cordoned.has(Path::new(dir))
    };
    assert!(!cordoned("", "/data"));
    for named in ["*", "/data", "/data,*"] {
        assert!(cordoned(named, "/data"));
        assert_eq!(cordoned(named, "/more"), named.contains('*'));
    }
    check(
        &["log.dirs=/data", "cordoned.log.dirs=/other"],
        "cordoned.log.dirs=/other (flag -o): must be a list of directories of log.dirs, or *",
    );
    let alone = load(&["cordoned.log.dirs=*"]).unwrap_err().to_string();
    assert!(alone.starts_with("cordoned.log.dirs=* (flag -o): must be empty"), "{alone}");
}

#[test]
fn credentials_for_controllers_are_those_of_the_listener() {
    const MAP: &str = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT";
    const SCRAM: &str =
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"b\" password=\"p\";";
    check(
        &[MAP],
        "sasl.mechanism.controller.protocol=GSSAPI (default): must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
    );
    let scram = "sasl.mechanism.controller.protocol=SCRAM-SHA-512";
    let own = format!("listener.name.controller.scram-sha-512.sasl.jaas.config={SCRAM}");
    for key in [
        &own,
        &format!("listener.name.controller.sasl.jaas.config={SCRAM}"),
        &format!("sasl.jaas.config={SCRAM}"),
    ] {
        let login = member(&[MAP, scram, key]).unwrap().controllers.login.unwrap();
        assert_eq!((login.mechanism().name(), login.user()), ("SCRAM-SHA-512", "b"));
    }
    let login = member(&[MAP, scram, &own, "sasl.jaas.config=planted"]).unwrap().controllers.login.unwrap();
    assert!(matches!(login.mechanism(), Mechanism::Scram(_)));
    let refused = |flags: &[&str]| member(flags).map(drop).unwrap_err();
    let missing = refused(&[MAP, scram]);
    assert!(
        missing.starts_with(
            "listener.name.controller.scram-sha-512.sasl.jaas.config=(hidden) (default): must be like org.apache"
        ),
        "{missing}"
    );
    let other =
        refused(&[MAP, "sasl.mechanism.controller.protocol=PLAIN", &format!("sasl.jaas.config={SCRAM}")]);
    assert!(other.ends_with(": the login module is not that of the mechanism"), "{other}");
    assert!(!other.contains("\"p\""), "{other}");
}

#[test]
fn inter_broker_listener_must_name_a_listener() {
    let config = member(&[]).unwrap();
    assert_eq!((config.brokers.name.as_str(), config.brokers.protocol), ("PLAINTEXT", Protocol::Plaintext));
    let two = "listeners=INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093";
    let map = "listener.security.protocol.map=INSIDE:SASL_PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT";
    let error = member(&[two, map]).unwrap_err();
    assert!(
        error.contains("inter.broker.listener.name") && error.contains("PLAINTEXT is not one of them"),
        "{error}"
    );
    let named = "inter.broker.listener.name=INSIDE";
    let error = member(&[two, map, named, "sasl.enabled.mechanisms=PLAIN"]).unwrap_err();
    assert!(error.contains("sasl.mechanism.inter.broker.protocol=GSSAPI"), "{error}");
    let login = [
        two,
        map,
        named,
        "sasl.enabled.mechanisms=PLAIN",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        "listener.name.inside.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
         required username=\"broker\" password=\"secret\";",
    ];
    let config = member(&login).unwrap();
    assert_eq!((config.brokers.name.as_str(), config.brokers.login.unwrap().user()), ("INSIDE", "broker"));
}

#[test]
fn replica_timeouts_must_cover_fetch_max_wait() {
    let limits = member(&["num.replica.fetchers=3", "replica.fetch.wait.max.ms=700"]).unwrap().replication;
    assert_eq!((limits.fetchers, limits.max_wait_ms, limits.partition_max_bytes), (3, 700, 1 << 20));
    for key in ["replica.lag.time.max.ms", "replica.socket.timeout.ms"] {
        let error = member(&[&format!("{key}=100")]).unwrap_err();
        assert!(error.contains("at least replica.fetch.wait.max.ms (500)"), "{error}");
    }
}

#[test]
fn delegation_tokens_have_a_secret_key_and_lifetimes() {
    let key = "delegation.token.secret.key=s3cret";
    for role in [&[][..], &MEMBER] {
        let security = |flags: &[&str]| {
            let flags: Vec<&str> = role.iter().chain(flags).copied().collect();
            load(&flags).unwrap().security
        };
        assert!(security(&[key]).token_secret_key.unwrap().is("s3cret"));
        assert!(security(&[]).token_secret_key.is_none());
        assert!(security(&["delegation.token.secret.key="]).token_secret_key.is_none());
        let TokenTimes { max_lifetime_ms, expiry_ms, check_interval_ms } = security(&[]).token_times;
        assert_eq!((max_lifetime_ms, expiry_ms, check_interval_ms), (604_800_000, 86_400_000, 3_600_000));
        let shorter = security(&["delegation.token.expiry.time.ms=7"]).token_times;
        assert_eq!((shorter.max_lifetime_ms, shorter.expiry_ms), (604_800_000, 7));
        let flags: Vec<&str> = role.iter().chain(&[key]).copied().collect();
        let config = load(&flags).unwrap();
        let rows = config.describe_as_kafka();
        let row = rows.iter().find(|row| row.name == "delegation.token.secret.key").unwrap();
        assert!(row.sensitive && row.read_only && row.kind == ConfigType::Password);
        assert!(!format!("{config:?}").contains("s3cret"));
    }
    assert!(load(&["delegation.token.max.lifetime.ms=0"]).is_err());
}
