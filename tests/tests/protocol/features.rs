//! The levels of features, as Kafka's tool sets and shows them.
//!
//! Suite: short; 11 s; needs java
//! Soak: controllers 3

use levada_tests::raw::{Connection, Decoder, Encoder};
use levada_tests::{Node, Tool};

const UNSUPPORTED_VERSION: i16 = 35;

/// The tool's output, and its exit code. `by` is its way in.
fn tool(node: &Node, by: &str, arguments: &str) -> (Option<i32>, String) {
    let mut tool = Tool::java("org.apache.kafka.tools.FeatureCommand");
    tool.args([by, &node.bootstrap()]);
    for argument in arguments.split(' ') {
        tool.arg(argument);
    }
    let (code, said) = tool.outcome();
    (code, said.stdout + &said.stderr)
}

fn levels(node: &Node, by: &str) -> Vec<(String, String)> {
    let (code, said) = tool(node, by, "describe");
    assert_eq!(code, Some(0), "{said}");
    let field = |line: &str, name: &str| {
        line.split_once(name).and_then(|(_, rest)| rest.split_whitespace().next().map(str::to_owned))
    };
    let lines = said
        .lines()
        .filter_map(|line| Some((field(line, "Feature:")?, field(line, "FinalizedVersionLevel:")?)));
    lines
        .filter(|(name, _)| ["group.version", "metadata.version", "transaction.version"].contains(&&**name))
        .collect()
}

/// The error code for a joining member of a consumer group.
fn join(node: &Node) -> i16 {
    let request = Encoder::default().i16(68).i16(0).i32(1).string("member").raw(&[0]);
    let request = request.compact_string("group").compact_string("").i32(0).raw(&[0, 0]).i32(60_000);
    let request = request.raw(&[2]).compact_string("topic").raw(&[0, 1, 0]).done();
    let answer = Connection::open(node.address()).call(&request);
    // Correlation, no tags, throttle time.
    Decoder::new(&answer[9..]).i16()
}

#[test]
fn feature_levels_change_while_broker_runs() {
    let mut node = Node::started();
    let expect = |arguments: &str, code: i32, words: &str| {
        let (found, said) = tool(&node, "--bootstrap-server", arguments);
        assert!(found == Some(code) && said.contains(words), "{arguments}: {found:?} {said}");
        node.await_metadata();
    };
    let level = |name: &str| {
        levels(&node, "--bootstrap-server").into_iter().find(|(one, _)| one == name).map(|(_, level)| level)
    };
    assert_ne!(join(&node), UNSUPPORTED_VERSION);
    expect("downgrade --dry-run --feature group.version=0", 0, "group.version can be downgraded to 0.");
    assert_eq!(level("group.version").as_deref(), Some("1"));
    expect(
        "downgrade --feature group.version=0 --feature transaction.version=1",
        0,
        "group.version was downgraded to 0.",
    );
    assert_eq!(
        (level("group.version").as_deref(), level("transaction.version").as_deref()),
        (Some("0"), Some("1"))
    );
    assert_eq!(join(&node), UNSUPPORTED_VERSION);
    expect(
        "upgrade --feature group.version=1 --feature transaction.version=2",
        0,
        "group.version was upgraded to 1.",
    );
    assert_ne!(join(&node), UNSUPPORTED_VERSION);
    expect(
        "upgrade --feature group.version=9",
        1,
        "Could not upgrade group.version to 9. The update failed for all features since the following feature had an error: \
         Invalid update version 9 for feature group.version. Local controller",
    );
    let below = "Could not downgrade metadata.version to 22. The update failed for all features since the following feature had an \
         error: Unsupported metadata.version downgrade from 30 to 22. Refusing to perform the requested downgrade \
         because it might delete metadata information.";
    let unsafely = "Unsafe metadata downgrade is not supported in this version.";
    // A broker of a cluster does not support versions before 4.0-IV3.
    let [below, unsafely] = if Node::has_controllers() {
        ["Broker 1 only supports versions 25-30"; 2]
    } else {
        [below, unsafely]
    };
    expect("downgrade --feature metadata.version=22", 1, below);
    expect("downgrade --unsafe --feature metadata.version=22", 1, unsafely);
    expect("upgrade --release-version 4.3-IV0", 0, "metadata.version was upgraded to 30.");
    node.restart();
    let found = levels(&node, "--bootstrap-server");
    assert_eq!(
        found.iter().map(|(_, level)| &**level).collect::<Vec<_>>(),
        ["1", "4.3-IV0", "2"],
        "{found:?}"
    );
    node.stop();
}

/// Kafka has a separate listener for these.
#[test]
fn controller_tools_work_on_broker_listener() {
    if node_is_kafka() || Node::is_left_out_in_clusters("controllers have a listener of their own") {
        return;
    }
    let mut node = Node::started();
    assert_eq!(levels(&node, "--bootstrap-controller"), levels(&node, "--bootstrap-server"));
    let (code, said) = tool(&node, "--bootstrap-controller", "downgrade --feature group.version=0");
    assert!(code == Some(0) && said.contains("group.version was downgraded to 0."), "{said}");
    let mut quorum = Tool::java("org.apache.kafka.tools.MetadataQuorumCommand");
    let said =
        quorum.args(["--bootstrap-controller", &node.bootstrap(), "describe", "--status"]).run().stdout;
    assert!(said.contains("LeaderId:               1"), "{said}");
    let mut cluster = Tool::java("org.apache.kafka.tools.ClusterTool");
    let said = cluster.args(["list-endpoints", "--bootstrap-controller", &node.bootstrap()]).run().stdout;
    assert!(said.contains("controller"), "{said}");
    node.stop();
}

fn node_is_kafka() -> bool {
    levada_tests::node::Kind::under_test() == levada_tests::node::Kind::Kafka
}
