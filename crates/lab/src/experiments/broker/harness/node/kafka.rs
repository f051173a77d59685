//! The command that starts Apache Kafka as one node with both roles, after it has formatted a new
//! directory. The heap and the garbage collector are those of Kafka's start script. Kafka logs only
//! errors, which costs less than its default.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Plan, data};
use crate::error::LabError;
use crate::harness::program::bare;

/// Arguments from Kafka's `kafka-server-start.sh` and `kafka-run-class.sh`.
const JVM: [&str; 9] = [
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
];

const LOGGING: &str = r#"<Configuration status="ERROR">
  <Appenders>
    <Console name="stderr" target="SYSTEM_ERR"><PatternLayout pattern="%p %c: %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="ERROR"><AppenderRef ref="stderr"/></Root></Loggers>
</Configuration>
"#;

/// A fixed cluster id, so that all runs are alike.
pub(super) const CLUSTER_ID: &str = "bGV2YWRhLWxhYi0wMDAwMA";

pub(super) fn command(plan: &Plan) -> Result<Command, LabError> {
    let home = plan.home.path();
    let (properties, logging) = (home.join("server.properties"), home.join("log4j2.xml"));
    if !properties.exists() {
        fs::write(&logging, LOGGING).map_err(LabError::file("cannot write", &logging))?;
        fs::write(&properties, configuration(plan)).map_err(LabError::file("cannot write", &properties))?;
        // A directory from an earlier start needs no format.
        if !data(home).join("meta.properties").exists() {
            format(plan, &properties)?;
        }
    }
    let mut command = java(plan)?;
    command.args(JVM).arg(format!("-Dlog4j2.configurationFile={}", logging.display()));
    command.arg("kafka.Kafka").arg(properties);
    Ok(command)
}

fn java(plan: &Plan) -> Result<Command, LabError> {
    let libs = plan.systems.kafka_libs.as_deref();
    let libs = libs.ok_or_else(|| {
        LabError::step("cannot start Kafka")(std::io::Error::other(
            "name the directory of its jars with --kafka-libs",
        ))
    })?;
    let mut command = bare(Path::new("java"));
    command.env("CLASSPATH", libs.join("*"));
    Ok(command)
}

fn format(plan: &Plan, properties: &Path) -> Result<(), LabError> {
    let mut command = java(plan)?;
    command
        .args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config"])
        .arg(properties);
    let done = command.stdin(Stdio::null()).output().map_err(LabError::step("cannot run java"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(LabError::Step {
        what: "cannot format Kafka's directory".to_owned(),
        cause: std::io::Error::other(said),
    })
}

fn configuration(plan: &Plan) -> String {
    let lines = [
        "process.roles=broker,controller".to_owned(),
        "node.id=1".to_owned(),
        format!("controller.quorum.voters=1@{}", plan.controller),
        "controller.listener.names=CONTROLLER".to_owned(),
        format!("listeners=PLAINTEXT://{},CONTROLLER://{}", plan.kafka, plan.controller),
        format!("log.dirs={}", data(plan.home.path()).display()),
        "offsets.topic.replication.factor=1".to_owned(),
        "transaction.state.log.replication.factor=1".to_owned(),
        "transaction.state.log.min.isr=1".to_owned(),
        "share.coordinator.state.topic.replication.factor=1".to_owned(),
        "share.coordinator.state.topic.min.isr=1".to_owned(),
        // The laboratory pauses Kafka while another broker is measured. Kafka must not end because
        // of that.
        "broker.session.timeout.ms=3600000".to_owned(),
    ];
    // If a key occurs twice, its last line applies.
    let settings = plan.settings.iter().map(|(key, value)| format!("{key}={value}"));
    lines.into_iter().chain(settings).collect::<Vec<_>>().join("\n") + "\n"
}
