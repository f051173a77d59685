//! The command that starts a real Kafka with one node, after formatting its directory if it is new.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Plan;
use crate::{Tool, paths};

/// The broker prints a line with this text when it accepts connections.
pub(super) const READY: &str = "Kafka Server started";

const LOGGING: &str = r#"<Configuration status="ERROR">
  <Appenders>
    <Console name="stderr" target="SYSTEM_ERR"><PatternLayout pattern="%p %d{HH:mm:ss.SSS} %c: %m%n"/></Console>
  </Appenders>
  <Loggers>
    <Root level="LEVEL"><AppenderRef ref="stderr"/></Root>
    <Logger name="kafka.server.KafkaRaftServer" level="INFO"/>
    <!-- The values of several hundred keys. -->
    <Logger name="org.apache.kafka.common.config" level="WARN"/>
    <Logger name="org.apache.kafka.clients" level="WARN"/>
    <Logger name="org.apache.kafka.common.utils.AppInfoParser" level="WARN"/>
  </Loggers>
</Configuration>
"#;

pub(super) fn command(plan: &Plan, home: &Path) -> Command {
    let properties = home.join("server.properties");
    let logging = home.join("log4j2.xml");
    if !properties.exists() {
        configure(plan, home);
    }
    if !home.join("data/meta.properties").exists() {
        let mut format = Tool::java("kafka.tools.StorageTool");
        format.args(["format", "--cluster-id", "bGV2YWRhLXRlc3RzLTAwMA", "--config"]);
        format.arg(properties.display().to_string()).run();
    }
    let mut command = Command::new("java");
    command.arg(format!("-Xmx{}m", plan.heap_mib)).args(paths::kafka_flags());
    command.arg(format!("-Dlog4j2.configurationFile={}", logging.display()));
    // The tests' own classes at the end, where they do not spoil the archive of Kafka's classes.
    let has_own = plan.options.iter().any(|(key, _)| key == "metric.reporters");
    let class_path = if has_own { paths::class_path_before_own() } else { paths::class_path() };
    command.arg("-cp").arg(class_path).arg("kafka.Kafka").arg(properties);
    command
}

/// Writes the files that the process reads.
pub(super) fn configure(plan: &Plan, home: &Path) {
    let logging = LOGGING.replace("LEVEL", plan.level);
    fs::write(home.join("log4j2.xml"), logging).expect("a logging configuration");
    fs::write(home.join("server.properties"), configuration(plan, home)).expect("a configuration");
}

fn configuration(plan: &Plan, home: &Path) -> String {
    let controller = plan.controller;
    let given = plan.options.iter().find(|(key, _)| key == "node.id");
    let node_id = given.map_or("1", |(_, value)| value);
    let [listeners, protocols] = plan.listeners((!plan.is_member()).then_some(controller));
    let mut lines = vec![
        "process.roles=broker,controller".to_string(),
        format!("node.id={node_id}"),
        format!("controller.quorum.voters={node_id}@{controller}"),
        "controller.listener.names=CONTROLLER".to_string(),
        format!("listeners={listeners}"),
        format!("listener.security.protocol.map={protocols}"),
        format!("log.dirs={}", home.join("data").display()),
        "offsets.topic.replication.factor=1".to_string(),
        "transaction.state.log.replication.factor=1".to_string(),
        "transaction.state.log.min.isr=1".to_string(),
        "group.initial.rebalance.delay.ms=0".to_string(),
    ];
    let kafkas_own = plan.options.iter().filter(|(key, _)| !key.starts_with("levada."));
    lines.extend(kafkas_own.map(|(key, value)| format!("{key}={value}")));
    lines.join("\n") + "\n"
}
