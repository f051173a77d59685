//! Controllers of a real Kafka for one broker under test: with `LEVADA_TEST_CONTROLLERS=N` every
//! standalone node of a test is the only broker of a cluster instead.
//!
//! The controllers belong to the node: they start with its first start, and outlive its crashes and
//! restarts. Suites about the metadata log of a standalone broker cannot run this way.

use std::fs;
use std::net::SocketAddr;
use std::sync::LazyLock;

use tempfile::TempDir;

use super::{Kind, Node, START_LIMIT};
use crate::quorum::{CLUSTER_ID, announced, copy, describe, identify};
use crate::{await_some, java_log};

/// Number of controllers for each node; 0 for standalone nodes.
static CONTROLLERS: LazyLock<usize> = LazyLock::new(|| match std::env::var("LEVADA_TEST_CONTROLLERS") {
    Err(_) => 0,
    Ok(given) => given.parse().unwrap_or_else(|_| panic!("LEVADA_TEST_CONTROLLERS={given}: a number")),
});

/// A formatted directory of a controller, made once by Kafka's tool: a JVM for each controller
/// would take longer than the tests.
static FORMATTED: LazyLock<TempDir> = LazyLock::new(|| {
    let node = controller(CONTROLLER, "101@127.0.0.1:1", "127.0.0.1:1".parse().expect("an address"));
    node.configure();
    let properties = node.scratch().join("server.properties").display().to_string();
    let mut tool = crate::Tool::java("kafka.tools.StorageTool");
    tool.args(["format", "--cluster-id", CLUSTER_ID, "--config", &properties]).run();
    let kept = tempfile::tempdir().expect("a temporary directory");
    copy(&node.data(), kept.path());
    kept
});

/// Id of the broker: that of a standalone broker, which the suites name.
const BROKER: i32 = 1;
/// Ids of the controllers begin here.
const CONTROLLER: i32 = 101;

/// Keys of the broker, for a cluster that has no other.
const ALONE: [(&str, &str); 5] = [
    ("process.roles", "broker"),
    ("controller.listener.names", "CONTROLLER"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
];

/// Keys that controllers need as well as the broker, because they decide its clients' requests.
const SHARED: [&str; 4] =
    ["allow.everyone.if.no.acl.found", "authorizer.class.name", "num.partitions", "super.users"];

/// True if this node is to have controllers.
pub(super) fn is_wanted(node: &Node) -> bool {
    let has_role = node.plan.options.iter().any(|(key, _)| key == "process.roles");
    *CONTROLLERS > 0 && node.plan.kind == Kind::under_test() && !has_role
}

/// Makes the node a broker of a cluster, and starts its controllers.
pub(super) fn join(node: &mut Node) -> Vec<Node> {
    let ids = CONTROLLER..CONTROLLER + i32::try_from(*CONTROLLERS).expect("a small number");
    let places: Vec<(i32, SocketAddr)> = ids.map(|id| (id, super::free_port())).collect();
    let voters: Vec<String> = places.iter().map(|(id, address)| format!("{id}@{address}")).collect();
    let voters = voters.join(",");
    let shared = node.plan.options.iter().filter(|(key, _)| SHARED.contains(&&**key));
    let with_shared = |node: Node| shared.clone().fold(node, |node, (key, value)| node.option(key, value));
    let mut controllers: Vec<Node> =
        places.iter().map(|(id, address)| with_shared(controller(*id, &voters, *address))).collect();
    for ((id, _), controller) in places.iter().zip(&mut controllers) {
        copy(FORMATTED.path(), &controller.data());
        identify((*id, *id), &controller.data());
        controller.launch();
    }
    controllers.iter_mut().for_each(Node::await_start);
    let id = BROKER.to_string();
    let own = [("node.id", &*id), ("controller.quorum.voters", &*voters)];
    for (key, value) in ALONE.into_iter().chain(own) {
        node.plan.options.retain(|(other, _)| other != key);
        node.plan.options.push((key.to_string(), value.to_string()));
    }
    fs::create_dir_all(node.data()).expect("a directory");
    identify((BROKER, BROKER), &node.data());
    controllers
}

/// Returns when the broker names itself to clients: its controllers let it lead partitions, and it
/// has read that they do.
pub(super) fn await_service(node: &mut Node) {
    await_some("a broker in service", START_LIMIT, || {
        node.assert_running("registration");
        (announced(node.address())? == [BROKER]).then_some(())
    });
}

/// Fails if a controller has logged an error that has no reason in the list.
pub(super) fn assert_no_errors(controllers: &[Node]) {
    let errors = controllers.iter().flat_map(|node| java_log::errors(&node.history(), &[]));
    let errors: Vec<String> = errors.collect();
    assert!(errors.is_empty(), "{} errors of controllers:\n{}", errors.len(), errors.join("\n"));
}

impl Node {
    /// True if this run of the suites gives each node separate controllers.
    pub fn has_controllers() -> bool {
        *CONTROLLERS > 0
    }

    /// True in a run with controllers, for a test of what only a broker without them has. Prints
    /// the reason.
    pub fn is_left_out_in_clusters(reason: &str) -> bool {
        if Self::has_controllers() {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            println!("left out in a cluster: {test}: {reason}");
        }
        Self::has_controllers()
    }

    /// Ids that the leader of the metadata quorum may have: the node itself where it is its own
    /// controller.
    pub fn controller_ids(&self) -> Vec<i32> {
        match i32::try_from(self.controllers.len()).expect("a small number") {
            0 => vec![BROKER],
            count => (CONTROLLER..CONTROLLER + count).collect(),
        }
    }

    /// Waits until the committed changes of the controllers are in force here. A broker of a
    /// cluster answers from metadata that arrives a moment after the controllers' answer to a
    /// change.
    pub fn await_metadata(&self) {
        if self.controllers.is_empty() || self.kind() == Kind::Kafka {
            return;
        }
        let committed = await_some("a leader of the quorum", START_LIMIT, || {
            self.controllers.iter().find_map(|node| describe(node.controller_address()))
        });
        await_some("the metadata", START_LIMIT, || {
            let metrics = self.metrics();
            let applied = metrics.iter().find(|(name, _)| name == "levada_cluster_metadata_offset")?.1;
            (applied as i64 + 1 >= committed.high_watermark).then_some(())
        });
    }
}

fn controller(id: i32, voters: &str, address: SocketAddr) -> Node {
    let mut node = Node::of(Kind::Kafka).sized(160, "ERROR");
    node.plan.controller = address;
    let own = [
        ("node.id", id.to_string()),
        ("process.roles", "controller".to_string()),
        ("controller.quorum.voters", voters.to_string()),
        ("listeners", format!("CONTROLLER://{address}")),
        // The suites create topics of one replica, as the only broker allows.
        ("default.replication.factor", "1".to_string()),
    ];
    own.into_iter().fold(node, |node, (key, value)| node.option(key, &value))
}
