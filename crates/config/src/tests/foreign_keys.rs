//! Keys of Kafka's without an effect here, and unknown keys.

use super::*;

fn refused(flag: &str) -> String {
    load(&[flag]).map(drop).expect_err(flag).to_string()
}

#[test]
fn security_classes_that_would_be_ignored_are_refused() {
    for key in [
        "principal.builder.class",
        "listener.name.edge.principal.builder.class",
        "sasl.server.callback.handler.class",
        "listener.name.edge.scram-sha-256.sasl.server.callback.handler.class",
        "sasl.oauthbearer.jwt.validator.class",
        "listener.name.edge.oauthbearer.sasl.oauthbearer.jwt.validator.class",
        "ssl.engine.factory.class",
        "ssl.trustmanager.algorithm",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.protocol",
        "security.providers",
        "metric.reporters",
        "kafka.metrics.reporters",
        "group.consumer.assignors",
        "quota.window.num",
        "quota.window.size.seconds",
    ] {
        let value = if key.starts_with("quota.") { "3" } else { "org.example.Own" };
        let error = refused(&format!("{key}={value}"));
        assert!(error.starts_with(&format!("{key}={value} (flag -o): ")), "{error}");
        assert!(error.contains("remove the key"), "{error}");
    }
    let refusal = refused("transaction.two.phase.commit.enable=true");
    assert!(refusal.contains("remove the key or set it to false"), "{refusal}");
    assert!(load(&["transaction.two.phase.commit.enable=false"]).is_ok());
    let together = refused("listener.name.edge.sasl.server.max.receive.size=3");
    assert!(
        together.ends_with("the key applies to all listeners together: set it without the prefix"),
        "{together}"
    );
}

#[test]
fn classes_matching_builtin_behaviour_are_accepted() {
    for flag in [
        "principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "listener.name.edge.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
        "metric.reporters=org.apache.kafka.common.metrics.JmxReporter",
        "metric.reporters=",
        "ssl.trustmanager.algorithm=PKIX",
        "group.consumer.regex.refresh.interval.ms=20000",
    ] {
        let config = load(&[flag]).unwrap_or_else(|error| panic!("{flag}: {error}"));
        let key = flag.split('=').next().unwrap();
        assert_eq!(config.settings().notes()[0].key, key);
    }
}

#[test]
fn values_of_ineffective_keys_are_checked_and_shown() {
    let error = refused("num.io.threads=none");
    assert_eq!(error, "num.io.threads=none (flag -o): must be an integer from 1 to 2147483647");
    let config =
        load(&["num.io.threads= 4", "sasl.oauthbearer.client.credentials.client.secret=planted"]).unwrap();
    let rows = config.describe_as_kafka();
    let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
    let threads = row("num.io.threads");
    assert_eq!((threads.value.as_deref(), threads.source), (Some("4"), ConfigSource::StaticBroker));
    assert_eq!(threads.synonyms.len(), 2);
    assert!(row("sasl.oauthbearer.client.credentials.client.secret").sensitive);
    // Output for an operator leaves out keys that neither have an effect nor are set.
    let own: Vec<_> = config.describe().into_iter().map(|row| row.name).collect();
    assert!(own.contains(&"num.io.threads".into()) && !own.contains(&"num.network.threads".into()));
}

#[test]
fn multi_node_cluster_file_is_refused() {
    let voters = refused("controller.quorum.voters=1@a:9093,2@b:9093");
    assert!(voters.contains("name that one alone, or remove the key"), "{voters}");
    assert!(load(&["controller.quorum.voters=1@a:9093"]).is_ok());
    let metadata = refused("metadata.log.dir=/elsewhere");
    assert!(metadata.contains("move the directory __cluster_metadata-0 there"), "{metadata}");
    assert!(load(&["metadata.log.dir=/data", "log.dirs=/data"]).is_ok());
    let classic = refused("group.coordinator.rebalance.protocols=consumer");
    assert!(classic.contains("a list with classic in it"), "{classic}");
}

#[test]
fn broker_id_is_accepted_for_node_id() {
    let config = load(&["broker.id=5"]).unwrap();
    assert_eq!(config.node_id, 5);
    let config = load(&["node.id=5"]).unwrap();
    assert_eq!(config.settings().text("broker.id"), Some("5"));
    let error = refused_both(&["node.id=5", "broker.id=6"]);
    assert_eq!(error, "broker.id=6 (flag -o): must be the same as node.id (5), or unset");
}

#[test]
fn keys_removed_in_kafka_4_name_next_step() {
    fn check(key: &str, expected: &str) {
        let flag = format!("{key}=planted");
        assert_eq!(refused(&flag), format!("{key} (flag -o): Kafka 4 no longer has this key: {expected}"));
        let lenient = Sources { lenient: true, ..Sources::flags([flag]) };
        let config = BrokerConfig::load(&lenient).unwrap();
        assert_eq!(config.settings().notes()[0].text, format!("Kafka 4 no longer has this key: {expected}"));
    }
    check(
        "zookeeper.connect",
        "remove the key; migrate a cluster that uses ZooKeeper to KRaft with Kafka 3.9 before its brokers are replaced",
    );
    check("log.message.format.version", "remove the key; new records always have format 2");
    check("delegation.token.master.key", "rename the key to delegation.token.secret.key");
    check("password.encoder.secret", "remove the key; passwords are no longer stored in ZooKeeper");
    for name in removed::names() {
        assert!(kafka::kafka_key(name).is_none() && broker_key(name).is_none(), "{name} is a key of Kafka 4");
    }
}

fn refused_both(flags: &[&str]) -> String {
    load(flags).map(drop).unwrap_err().to_string()
}

#[test]
fn lenient_mode_reports_and_ignores_unknown_keys() {
    let flags =
        ["confluent.license=planted", "listener.name.edge.own.key=x", "num.partition=3", "log.dir=/data"];
    let error = refused_both(&flags);
    assert_eq!(error.lines().count(), 3, "{error}");
    let lenient = Sources { lenient: true, ..Sources::flags(flags) };
    let config = BrokerConfig::load(&lenient).unwrap();
    let notes: Vec<_> =
        config.settings().notes().iter().map(|note| format!("{}: {}", note.key, note.text)).collect();
    let expected = [
        "confluent.license: no such key",
        "listener.name.edge.own.key: no such key",
        "num.partition: no such key; did you mean num.partitions?",
    ];
    assert_eq!(notes, expected);
    assert_eq!(config.num_partitions, 1);
    let rows = config.describe_as_kafka();
    let row = rows.iter().find(|row| row.name == "confluent.license").unwrap();
    assert_eq!((row.sensitive, row.read_only, row.kind), (true, true, ConfigType::Unknown));
    // All other keys stay as strict as before.
    let wrong = Sources { lenient: true, ..Sources::flags(["num.partitions=0", "metric.reporters=a.B"]) };
    assert_eq!(BrokerConfig::load(&wrong).unwrap_err().0.len(), 2);
}

#[test]
fn ineffective_dynamic_keys_are_checked_kept_and_shown() {
    let rates = own(&[("leader.replication.throttled.rate", "100")]);
    let broker = BrokerConfig::default();
    assert_eq!(broker.check_dynamic(false, &rates), Ok(()));
    let broker = broker.with_dynamic(&rates, &own(&[("num.io.threads", "6")])).unwrap();
    let rows = broker.describe_as_kafka();
    let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
    let rate = row("leader.replication.throttled.rate");
    assert_eq!((rate.value.as_deref(), rate.sensitive, rate.read_only), (Some("100"), false, false));
    assert_eq!((rate.kind, rate.synonyms.len()), (ConfigType::Long, 1));
    assert_eq!(row("num.io.threads").source, ConfigSource::DynamicCluster);
    let prefixed = own(&[("listener.name.plaintext.num.network.threads", "2")]);
    let broker = broker.with_dynamic(&prefixed, &own(&[])).unwrap();
    let rows = broker.describe_as_kafka();
    let row = rows.iter().find(|row| row.name == "listener.name.plaintext.num.network.threads").unwrap();
    let synonyms: Vec<_> =
        row.synonyms.iter().map(|one| (&*one.name, one.value.as_deref().unwrap())).collect();
    assert_eq!(
        synonyms,
        [("listener.name.plaintext.num.network.threads", "2"), ("num.network.threads", "3")]
    );
}

#[test]
fn authorizer_keys_are_shown_without_values_when_set() {
    let names = |config: &BrokerConfig| {
        let rows = config.describe_as_kafka();
        let rows =
            rows.iter().filter(|row| ["super.users", "allow.everyone.if.no.acl.found"].contains(&&*row.name));
        rows.map(|row| (row.name.to_string(), row.sensitive, row.read_only, row.kind)).collect::<Vec<_>>()
    };
    assert_eq!(names(&BrokerConfig::default()), []);
    let config = BrokerConfig::load(&Sources::flags(["super.users=User:alice"])).unwrap();
    assert_eq!(names(&config), [("super.users".to_owned(), true, true, ConfigType::Unknown)]);
    let own = config.describe();
    let own = own.iter().find(|row| row.name == "super.users").unwrap();
    assert_eq!((own.value.as_deref(), own.sensitive), (Some("User:alice"), false), "on the machine itself");
}

#[test]
fn changes_of_ineffective_keys_are_refused_like_kafka() {
    fn check(whole_cluster: bool, name: &str, value: &str, expected: &str) {
        let checked = BrokerConfig::default().check_dynamic(whole_cluster, &own(&[(name, value)]));
        assert_eq!(checked.unwrap_err(), expected, "{name}");
    }
    const FIXED: &str = "Cannot update these configs dynamically";
    check(false, "quota.window.num", "2", &format!("{FIXED}: [quota.window.num]"));
    check(false, "broker.id", "2", &format!("{FIXED}: [broker.id]"));
    check(
        false,
        "remote.log.storage.system.enable",
        "true",
        &format!("{FIXED}: [remote.log.storage.system.enable]"),
    );
    check(
        false,
        "follower.replication.throttled.rate",
        "x",
        "Invalid value x for configuration follower.replication.throttled.rate: Not a number of type LONG",
    );
    check(
        false,
        "num.io.threads",
        "0",
        "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
    );
    check(
        false,
        "principal.builder.class",
        "a.B",
        "Invalid value a.B for configuration principal.builder.class: Class a.B could not be found.",
    );
    check(
        false,
        "group.consumer.assignment.interval.ms",
        "99999",
        "group.consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms",
    );
    check(
        true,
        "sasl.enabled.mechanisms",
        "PLAIN",
        "Cannot update these configs at default cluster level, broker id must be specified: [sasl.enabled.mechanisms]",
    );
    check(
        true,
        "listeners",
        "PLAINTEXT://:1",
        "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
    );
    check(false, "listeners", "PLAINTEXT://:1", &format!("{FIXED}: [listeners]"));
    check(
        false,
        "ssl.trustmanager.algorithm",
        "Own",
        "Invalid value Own for configuration ssl.trustmanager.algorithm: the broker checks certificates by PKIX: remove the key",
    );
}
