//! Tests of the calls of `levada` for Kafka's tools.

use super::{Action, Tool};

fn action(line: &str) -> Result<Action, String> {
    let mut words = line.split(' ').map(str::to_owned);
    let tool = Tool::of(&words.next().unwrap()).unwrap();
    tool.action(&words.collect::<Vec<_>>()).map_err(|failure| failure.to_string())
}

fn check(line: &str, expected: &str) {
    let Ok(Action::Levada(words)) = action(line) else { panic!("{line}: {:?}", action(line)) };
    assert_eq!(words.join(" "), expected, "{line}");
}

#[test]
fn topic_tool_calls_are_translated() {
    check(
        "kafka-topics.sh --bootstrap-server kafka:9092 --create --if-not-exists --topic clicks --partitions 3 \
         --replication-factor 1 --config retention.ms=1000",
        "topic create clicks --if-not-exists --partitions 3 --replicas 1 --config retention.ms=1000 --brokers kafka:9092",
    );
    check("kafka-topics --describe --topic=clicks", "topic describe clicks");
    check("kafka-topics --describe", "topic describe *");
    check("kafka-topics --delete --if-exists --topic clicks", "topic delete --yes clicks --if-exists");
    check("kafka-topics --alter --topic clicks --partitions 6", "topic alter clicks --partitions 6");
    let list = ["topic", "list", "--internal", "--brokers", "localhost:9092"].map(str::to_owned).to_vec();
    let expected = Ok(Action::Names(list, "name"));
    assert_eq!(action("kafka-topics.sh --list --bootstrap-server localhost:9092"), expected);
}

#[test]
fn record_tool_calls_are_translated() {
    check(
        "kafka-console-producer.sh --broker-list kafka:9092 --topic clicks --property parse.key=true --property key.separator=:",
        "produce clicks --key-separator : --brokers kafka:9092",
    );
    check("kafka-console-producer --topic clicks", "produce clicks");
    check(
        "kafka-console-consumer.sh --topic clicks --from-beginning --max-messages 1 --timeout-ms 5000",
        "consume clicks --offset earliest --format %v\\n --isolation read_uncommitted --count 1 --exit",
    );
    check(
        "kafka-console-consumer --topic clicks --group readers --property print.key=true --property key.separator=:",
        "consume clicks --offset latest --format %k:%v\\n --isolation read_uncommitted --group readers",
    );
}

#[test]
fn group_and_config_tool_calls_are_translated() {
    check("kafka-broker-api-versions.sh --bootstrap-server k:9092", "cluster info --brokers k:9092");
    check("kafka-consumer-groups.sh --describe --group readers", "group describe readers");
    check("kafka-consumer-groups.sh --describe --all-groups", "group describe --all");
    check(
        "kafka-consumer-groups --reset-offsets --group readers --topic clicks --to-earliest --execute",
        "group reset readers --topic clicks --to-earliest --execute",
    );
    check(
        "kafka-configs.sh --describe --entity-type topics --entity-name clicks --all",
        "config get topic clicks --all",
    );
    check(
        "kafka-configs --alter --entity-type topics --entity-name clicks --add-config retention.ms=1,cleanup.policy=[compact,delete]",
        "config set topic clicks retention.ms=1 cleanup.policy=compact,delete",
    );
    check(
        "kafka-configs --alter --entity-type brokers --entity-default --delete-config log.retention.ms",
        "config delete broker default log.retention.ms",
    );
    check(
        "kafka-storage format --ignore-formatted -t abc -c /etc/kafka/kafka.properties",
        "storage format --cluster-id abc --ignore-formatted",
    );
}

#[test]
fn a_random_id_has_kafkas_form() {
    let Ok(Action::Print(id)) = action("kafka-storage random-uuid") else { panic!("no id") };
    assert_eq!(id.len(), 22);
    assert!(
        !id.starts_with('-') && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)),
        "{id}"
    );
}

#[test]
fn unknown_options_are_refused_by_name() {
    let refused = |line: &str| action(line).unwrap_err();
    assert_eq!(
        refused("kafka-topics.sh --create --topic t --replica-assignment 1:2"),
        "--replica-assignment is not supported in this image; `levada topic --help` lists the options of levada"
    );
    assert!(refused("kafka-topics.sh --list --zookeeper z:2181").contains("use --bootstrap-server"));
    assert_eq!(refused("kafka-topics.sh --topic"), "--topic: a value is missing");
    assert_eq!(refused("kafka-topics.sh --create"), "--topic is missing");
    assert!(refused("kafka-topics.sh --topic t").starts_with("expected one of --create"));
    assert!(
        refused("kafka-console-consumer --topic t --property print.headers=true").contains("print.headers")
    );
    assert!(refused("kafka-configs --describe --entity-type users").contains("--entity-type users"));
    assert_eq!(Tool::of("kafka-acls.sh"), None);
}
