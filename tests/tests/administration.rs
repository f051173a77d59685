//! Kafka's own administration tools against the broker: what they are told is what they were told to do.

use std::time::Duration;

use levada_tests::{Node, Tool, await_some};

/// What a Java tool of Kafka's prints, given the broker and these arguments.
fn java(node: &Node, class: &str, arguments: &[&str]) -> String {
    let mut tool = Tool::java(class);
    tool.args(["--bootstrap-server", &node.bootstrap()]);
    for argument in arguments {
        tool.arg(argument);
    }
    tool.run().stdout
}

fn configs(node: &Node, arguments: &[&str]) -> String {
    java(node, "kafka.admin.ConfigCommand", arguments)
}

fn topics(node: &Node, arguments: &[&str]) -> String {
    java(node, "org.apache.kafka.tools.TopicCommand", arguments)
}

#[test]
fn kafka_configs_changes_topics_and_brokers_and_a_restart_keeps_it() {
    let mut node = Node::started();
    topics(&node, &["--create", "--topic", "tuned"]);
    let topic = ["--entity-type", "topics", "--entity-name", "tuned"];
    let with = |entity: &[&'static str], more: &[&'static str]| [entity, more].concat();
    configs(
        &node,
        &with(&topic, &["--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"]),
    );
    let broker = ["--entity-type", "brokers", "--entity-name", "1"];
    configs(&node, &with(&broker, &["--alter", "--add-config", "log.segment.bytes=2000000"]));
    let cluster = ["--entity-type", "brokers", "--entity-default"];
    configs(
        &node,
        &with(&cluster, &["--alter", "--add-config", "log.segment.bytes=3000000,message.max.bytes=5000"]),
    );

    let check = |node: &Node| {
        let shown = configs(node, &with(&topic, &["--describe", "--all"]));
        for expected in [
            "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000}",
            "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
            "segment.bytes=2000000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.segment.bytes=2000000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=3000000, DEFAULT_CONFIG:log.segment.bytes=1073741824}",
            "max.message.bytes=5000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=5000, DEFAULT_CONFIG:message.max.bytes=1048588}",
        ] {
            assert!(shown.contains(expected), "{expected} in {shown}");
        }
    };
    // A Kafka broker learns of a change a little after the answer.
    await_some("the new values", Duration::from_secs(10), || {
        configs(&node, &with(&broker, &["--describe"])).contains("log.segment.bytes=2000000").then_some(())
    });
    check(&node);
    node.restart();
    check(&node);

    configs(&node, &with(&topic, &["--alter", "--delete-config", "retention.ms"]));
    await_some("the default", Duration::from_secs(10), || {
        let shown = configs(&node, &with(&topic, &["--describe", "--all"]));
        shown.contains("retention.ms=604800000 sensitive=false synonyms={}").then_some(())
    });
    node.stop();
}
