//! Directories of the members, formatted as Kafka's tool does. The tool runs once, for the first
//! controller: a JVM for each member would take longer than the tests.

use std::collections::BTreeMap;
use std::fs;

use super::{CONTROLLER, Discovery, NodeIds, Shape};
use crate::quorum::{CLUSTER_ID, copy, directory_id, identify};
use crate::{Node, Tool};

/// Formats the directories of all members.
pub(super) fn format(shape: &Shape, nodes: &BTreeMap<i32, Node>, node_ids: NodeIds) {
    let first = &nodes[&CONTROLLER];
    for node in nodes.values() {
        node.configure();
    }
    let controllers = || nodes.iter().filter(|(id, _)| **id < super::KAFKA);
    let mut tool = Tool::java("kafka.tools.StorageTool");
    tool.args(["format", "--cluster-id", CLUSTER_ID, "--config"]);
    tool.arg(first.scratch().join("server.properties").display().to_string());
    if shape.discovery == Discovery::BootstrapServers {
        let voter = |(id, node): (&i32, &Node)| {
            format!("{}@{}:{}", node_ids(*id), node.controller_address(), directory_id(*id))
        };
        let voters: Vec<String> = controllers().map(voter).collect();
        tool.args(["--initial-controllers", &voters.join(",")]);
    }
    tool.run();
    for (id, node) in controllers().skip(1) {
        copy(&first.data(), &node.data());
        identify((node_ids(*id), *id), &node.data());
    }
    for (id, node) in nodes.iter().filter(|(id, _)| **id >= super::KAFKA) {
        fs::create_dir_all(node.data()).expect("a directory");
        identify((node_ids(*id), *id), &node.data());
    }
}
