//! Directories of the members, formatted as Kafka's tool does. The tool runs once, for the first
//! controller: a JVM for each member would take longer than the tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{CONTROLLER, Discovery, Shape};
use crate::{Node, Tool};

/// The cluster's id.
const CLUSTER_ID: &str = "bGV2YWRhLXRlc3RzLTAwMA";

/// Formats the directories of all members.
pub(super) fn format(shape: &Shape, nodes: &BTreeMap<i32, Node>) {
    let first = &nodes[&CONTROLLER];
    for node in nodes.values() {
        node.configure();
    }
    let controllers = || nodes.iter().filter(|(id, _)| **id < super::KAFKA);
    let mut tool = Tool::java("kafka.tools.StorageTool");
    tool.args(["format", "--cluster-id", CLUSTER_ID, "--config"]);
    tool.arg(first.scratch().join("server.properties").display().to_string());
    if shape.discovery == Discovery::BootstrapServers {
        let voter =
            |(id, node): (&i32, &Node)| format!("{id}@{}:{}", node.controller_address(), directory_id(*id));
        let voters: Vec<String> = controllers().map(voter).collect();
        tool.args(["--initial-controllers", &voters.join(",")]);
    }
    tool.run();
    for (id, node) in controllers().skip(1) {
        copy(&first.data(), &node.data());
        identify(*id, &node.data());
    }
    for (id, node) in nodes.iter().filter(|(id, _)| **id >= super::KAFKA) {
        fs::create_dir_all(node.data()).expect("a directory");
        identify(*id, &node.data());
    }
}

/// Id of a member's directory: 16 bytes in URL-safe base64.
fn directory_id(id: i32) -> String {
    format!("bGV2YWRhLWRpcmVjd{id:04}Q")
}

fn identify(id: i32, data: &Path) {
    let directory = directory_id(id);
    let text = format!("version=1\nnode.id={id}\ncluster.id={CLUSTER_ID}\ndirectory.id={directory}\n");
    fs::write(data.join("meta.properties"), text).expect("a file of the test's own");
}

/// Copies a directory with everything below it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = fs::copy(entry.path(), target).expect("a file is copied"),
        }
    }
}
