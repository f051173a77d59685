//! A broker of Levada in a cluster of a real Kafka: requests that the controller decides, sent by
//! Kafka's tools to Levada's listener, a controller that does not respond, and transactions in
//! which another broker takes part.
//!
//! Suite: long; 34 s; needs java

use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use levada_client::{Connection, ConnectionOptions};
use levada_tests::Cluster;
use levada_tests::await_some;
use levada_tests::cluster::{CONTROLLER, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_wire::ErrorCode;
use levada_wire::messages::CreateTopicsRequest;
use levada_wire::messages::create_topics_request::CreatableTopic;

/// The one cluster of this binary, and the tools that ask the broker of Levada; each test has
/// resources of its own.
static CLUSTER: LazyLock<Mutex<(Cluster, Tools)>> = LazyLock::new(|| {
    let shape = Shape { controllers: 1, kafka: 1, levada: 1, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    cluster.start();
    let tools = cluster.tools(LEVADA);
    Mutex::new((cluster, tools))
});

fn cluster() -> MutexGuard<'static, (Cluster, Tools)> {
    CLUSTER.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Fails if one of the words is missing in what a tool has printed.
#[track_caller]
fn assert_has(said: &str, words: &[&str]) {
    let missing: Vec<_> = words.iter().filter(|word| !said.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} missing in: {said}");
}

#[test]
fn controller_serves_quorum_features_and_reassignment_requests() {
    let (cluster, tools) = &mut *cluster();
    assert_has(&tools.run("MetadataQuorumCommand describe --replication"), &["Leader", "Observer"]);
    assert_has(&tools.run("FeatureCommand describe"), &["metadata.version", "FinalizedVersionLevel"]);
    let described = cluster.node(LEVADA).levada_json("cluster features describe");
    let rows = described.as_array().expect("rows");
    let level = rows.iter().find(|row| row["feature"] == "kraft.version").map(|row| &row["level"]);
    assert_eq!(level, Some(&1.into()), "the voters are in the log: {described}");
    tools.run(&format!("TopicCommand --create --topic moved --replica-assignment {LEVADA}"));
    let listed = tools.run("ReassignPartitionsCommand --list");
    assert_has(&listed, &["No partition reassignments found."]);
    // The controller refuses by itself: no node has this id.
    let (code, said) = tools.outcome("ClusterTool unregister --id 99");
    assert!(said.contains("99"), "{code}: {said}");
    let endpoints = tools.run("ClusterTool list-endpoints");
    assert_has(&endpoints, &[&KAFKA.to_string(), &LEVADA.to_string()]);
    cluster.assert_no_errors();
}

/// A suspended controller keeps its connections and does not respond. Clients wait 30 s.
#[test]
fn silent_controllers_time_out_forwarded_requests() {
    let shape = Shape { controllers: 1, kafka: 0, levada: 1, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    cluster.start();
    let node = cluster.node(LEVADA);
    cluster.node(CONTROLLER).suspend();
    let mut topic = CreatableTopic::default();
    topic.name = "late".into();
    (topic.num_partitions, topic.replication_factor) = (1, 1);
    let mut request = CreateTopicsRequest::default();
    (request.topics, request.timeout_ms) = (vec![topic], 4_000);
    let mut client = Connection::connect(&node.bootstrap(), &ConnectionOptions::default()).expect("a broker");
    let begun = Instant::now();
    let response = client.request(&request).expect("a response");
    assert_eq!(response.topics[0].error_code, ErrorCode::RequestTimedOut.code());
    assert!(begun.elapsed() < Duration::from_millis(4_000), "after {:?}", begun.elapsed());
    let (code, said) = node.levada("topic create late").outcome();
    assert_eq!(code, Some(1), "{said:?}");
    assert_has(&said.stderr, &["No controller of the cluster has responded", "levada cluster health"]);
    cluster.node(CONTROLLER).resume();
}

/// The controller itself refuses both: it is a voter already, and no voter has the other id.
#[test]
fn voters_are_added_and_removed_by_the_controller() {
    let (cluster, tools) = &mut *cluster();
    let properties = cluster.node(CONTROLLER).scratch().join("server.properties");
    let add = format!("MetadataQuorumCommand --command-config {} add-controller", properties.display());
    let (code, said) = tools.outcome(&add);
    assert!(code != 0 && said.contains("DuplicateVoterException"), "{code}: {said}");
    let remove = "MetadataQuorumCommand remove-controller --controller-id 99 --controller-directory-id";
    let (code, said) = tools.outcome(&format!("{remove} bGV2YWRhLWRpcmVjd0099Q"));
    assert!(code != 0 && said.contains("VoterNotFoundException"), "{code}: {said}");
    cluster.assert_no_errors();
}

#[test]
fn broker_config_changes_are_checked_and_forwarded() {
    let (cluster, tools) = &mut *cluster();
    let alter = |entity: &str, change: &str| format!("ConfigCommand --alter {entity} {change}");
    let own = format!("--entity-type brokers --entity-name {LEVADA}");
    tools.run(&alter(&own, "--add-config log.cleaner.threads=2"));
    await_some("the setting of this broker", LIMIT, || {
        let described = tools.run(&format!("ConfigCommand --describe {own}"));
        described.contains("log.cleaner.threads=2").then_some(())
    });
    // Levada refuses values that its own rules do not allow: the controller has none for brokers.
    let (code, said) = tools.outcome(&alter(&own, "--add-config log.cleaner.threads=no"));
    assert!(code != 0 || said.contains("Invalid"), "{code}: {said}");
    // Levels of loggers are not metadata, and need no controller.
    let loggers = format!("--entity-type broker-loggers --entity-name {LEVADA}");
    tools.run(&alter(&loggers, "--add-config levada_broker=INFO"));
    tools.run(&alter("--entity-type brokers --entity-default", "--add-config message.max.bytes=1000012"));
    await_some("the setting of all brokers", LIMIT, || {
        let described = tools.run("ConfigCommand --describe --entity-type brokers --entity-default");
        described.contains("message.max.bytes=1000012").then_some(())
    });
    cluster.assert_no_errors();
}

#[test]
fn auto_created_topic_is_created_by_the_controller() {
    let (cluster, tools) = &mut *cluster();
    let said = tools.run("produce made-for-a-client 0 10");
    assert!(!said.contains("Exception"), "{said}");
    // The broker that answers may lag behind the one that created the topic.
    await_some("the topic", LIMIT, || {
        let (_, said) = tools.outcome("TopicCommand --describe --topic made-for-a-client");
        said.contains("ReplicationFactor: 1").then_some(())
    });
    cluster.assert_no_errors();
}

#[test]
fn transaction_spans_brokers_of_partition_and_coordinator() {
    let (cluster, tools) = &mut *cluster();
    tools.run(&format!("TopicCommand --create --topic near --replica-assignment {LEVADA}"));
    tools.run(&format!("TopicCommand --create --topic far --replica-assignment {KAFKA}"));
    // Ids whose coordinators are on either broker.
    for id in 0..8 {
        for topic in ["near", "far"] {
            for step in [format!("begin {topic}-{id} {topic}-0"), format!("commit {topic}-{id}")] {
                let (code, said) = tools.outcome(&step);
                assert!(code == 0 && !said.contains("Exception"), "{step}: {code}: {said}");
            }
            tools.outcome(&format!("forget {topic}-{id}"));
        }
    }
    cluster.assert_no_errors();
}
