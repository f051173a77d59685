//! Levada as a broker in a cluster of a real Kafka: partitions that it leads alone are served,
//! survive its crashes, and are taken away and given back by the controllers. A process whose
//! registration is lost ends.
//!
//! Suite: long; 127 s; needs java, python

use std::collections::BTreeSet;
use std::time::Duration;

use levada_tests::cluster::{CONTROLLER, Cluster, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Node, Tool, await_some, http, journal, prometheus};

const NONE: i16 = 0;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const PARTITIONS: &str = "2";

fn produce(address: std::net::SocketAddr, topic: &str) -> Option<i16> {
    let request = raw::produce(topic, -1, &Batch::of(&[b"one"]).encode());
    let answer = Connection::try_open(address).ok()?.try_call(&request).ok()?;
    Some(raw::produce_error(&answer))
}

/// Creates a topic whose partitions have these replicas, by Kafka's tool and a broker of Kafka's.
fn create(cluster: &Cluster, topic: &str, assignment: &str) {
    let line = format!("TopicCommand --create --topic {topic} --replica-assignment {assignment}");
    let said = cluster.tools(KAFKA).run(&line);
    assert!(said.contains("Created topic"), "{said}");
}

fn await_served(node: &Node, topic: &str) {
    await_some(&format!("{topic} is served"), LIMIT, || {
        produce(node.address(), topic).filter(|error| *error == NONE)
    });
}

/// One test, since a cluster takes longer to start than most of its parts to run.
#[test]
fn cluster_member_leads_its_sole_replicas() {
    let shape = Shape { controllers: 1, kafka: 1, levada: 1, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    cluster.start();
    let talk = cluster.node(LEVADA).talk();
    assert!(talk.contains("the data directory had no logs") && !talk.contains("clean="), "{talk}");
    clients_reach_a_partition_here_through_any_broker(&cluster);
    a_new_topic_has_leaders_as_soon_as_it_is_seen(&cluster);
    the_console_and_the_metrics_show_the_cluster(&cluster);
    a_cordoned_directory_gets_no_new_replica(&cluster);
    what_was_acknowledged_survives_crashes_under_load(&mut cluster);
    a_controlled_shutdown_hands_its_leaderships_over_and_takes_them_up_again(&mut cluster);
    a_process_that_wakes_after_its_session_does_not_lead_what_it_has_lost(&cluster);
    a_second_process_waits_for_the_session_and_then_replaces_the_first(&mut cluster);
    an_unregistered_broker_stops_writing_and_ends(&mut cluster);
}

fn clients_reach_a_partition_here_through_any_broker(cluster: &Cluster) {
    create(cluster, "reached", &format!("{LEVADA}"));
    for bootstrap in [KAFKA, LEVADA] {
        let said = cluster.tools(bootstrap).run("produce reached 0 10");
        assert!(!said.contains("Exception"), "{said}");
    }
    let mut consumer = Tool::java("org.apache.kafka.tools.consumer.ConsoleConsumer");
    consumer.args(["--bootstrap-server", &cluster.node(KAFKA).bootstrap(), "--topic", "reached"]);
    let said = consumer.args(["--from-beginning", "--max-messages", "20", "--timeout-ms", "60000"]).run();
    assert_eq!(said.stdout.lines().count(), 20, "{}", said.stdout);
    cluster.assert_no_errors();
}

/// Some clients keep a partition without a leader in mind for seconds. The broker makes the files
/// of a hundred partitions meanwhile.
fn a_new_topic_has_leaders_as_soon_as_it_is_seen(cluster: &Cluster) {
    let address = cluster.node(LEVADA).address();
    let mut connection = Connection::open(address);
    let created = Connection::open(address).call(&raw::create_topic("seen", 100));
    assert_eq!(raw::topic_error(&created), NONE);
    let leaders = await_some("the topic is seen", LIMIT, || {
        raw::leaders(&connection.call(&raw::metadata("seen", false)))
    });
    assert_eq!(leaders.len(), 100);
    assert!(leaders.iter().all(|(error, leader)| *error == NONE && *leader >= 0), "{leaders:?}");
}

fn the_console_and_the_metrics_show_the_cluster(cluster: &Cluster) {
    let read = |path: &str| {
        let (status, page) =
            http::call(cluster.node(LEVADA).http_address(), "GET", path, "").expect("an answer");
        assert_eq!(status, 200, "{path}: {page}");
        page
    };
    let overview = read("/");
    // A machine with little free space has that warning, and no other.
    let is_well = overview.contains("No problems: all partitions") || overview.contains("% of its size</p>");
    assert!(is_well, "{overview}");
    assert!(!overview.contains("offline"), "{overview}");
    for part in ["Active controller", &format!("node {CONTROLLER}"), "Last heartbeat"] {
        assert!(overview.contains(part), "{part}: {overview}");
    }
    let topic = read("/topics/reached");
    assert!(topic.contains(&format!("<td>node {LEVADA}</td><td>{LEVADA}</td>")), "{topic}");
    let metrics = read("/metrics");
    let rules = prometheus::delivered("alerts.yml");
    let of_clusters = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: levada_cluster_"));
    let names: Vec<&str> = of_clusters.filter_map(|rule| rule.split(['{', ' ']).next()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        assert!(metrics.contains(&format!("\nlevada_cluster_{name} ")), "{name}: {metrics}");
    }
}

/// The setting is dynamic, and a heartbeat reports it. The controllers place replicas elsewhere
/// until it is gone.
fn a_cordoned_directory_gets_no_new_replica(cluster: &Cluster) {
    let mut tools = cluster.tools(KAFKA);
    let mut number = 0;
    let mut leaders = |tools: &mut Tools| {
        number += 1;
        let topic = format!("placed-{number}");
        tools.run(&format!("TopicCommand --create --topic {topic} --partitions 8 --replication-factor 1"));
        let said = await_some("the topic", LIMIT, || {
            let (code, said) = tools.outcome(&format!("TopicCommand --describe --topic {topic}"));
            (code == 0).then_some(said)
        });
        let rows = said.lines().filter(|line| line.contains("Partition: "));
        let leaders = rows.filter_map(|row| row.split("Leader: ").nth(1)?.split_whitespace().next());
        leaders.filter_map(|leader| leader.parse().ok()).collect::<BTreeSet<i32>>()
    };
    let alter = format!("ConfigCommand --alter --entity-type brokers --entity-name {LEVADA}");
    tools.run(&format!("{alter} --add-config cordoned.log.dirs=*"));
    await_some("replicas elsewhere", LIMIT, || (leaders(&mut tools) == [KAFKA].into()).then_some(()));
    tools.run(&format!("{alter} --delete-config cordoned.log.dirs"));
    await_some("replicas here again", LIMIT, || {
        (leaders(&mut tools) == [KAFKA, LEVADA].into()).then_some(())
    });
    cluster.assert_no_errors();
}

fn what_was_acknowledged_survives_crashes_under_load(cluster: &mut Cluster) {
    create(cluster, "crashed", &format!("{LEVADA},{LEVADA}"));
    let (kafka, scratch) = (cluster.node(KAFKA).bootstrap(), cluster.node(LEVADA).scratch().to_owned());
    let (acknowledged, found) = (scratch.join("acknowledged"), scratch.join("found"));
    let mut load = Tool::python("load.py");
    load.args([&kafka, "crashed", PARTITIONS, &acknowledged.display().to_string(), "idempotent"]);
    let mut load = load.spawn();
    for _ in 0..2 {
        while load.line_now().is_some() {}
        assert!(load.line(LIMIT).parse::<u64>().is_ok());
        cluster.node_mut(LEVADA).kill();
        cluster.node_mut(LEVADA).start();
        await_served(cluster.node(LEVADA), "crashed");
    }
    load.say("stop");
    load.finish(Duration::from_secs(150));
    Tool::python("journal.py").args([&kafka, "crashed", PARTITIONS]).stdout(&found).run();
    let lost = journal::lost(&journal::read(&acknowledged), &journal::read(&found));
    assert!(lost.is_empty(), "{} lost, first {:?}", lost.len(), lost.first());
    cluster.assert_no_errors();
}

fn a_controlled_shutdown_hands_its_leaderships_over_and_takes_them_up_again(cluster: &mut Cluster) {
    create(cluster, "stopped", &format!("{LEVADA}"));
    await_served(cluster.node(LEVADA), "stopped");
    cluster.node_mut(LEVADA).stop();
    let history = cluster.node(LEVADA).history();
    assert!(history.contains("controlled shutdown ended moved=true"), "{history}");
    let mark = cluster.node(LEVADA).data().join(".kafka_cleanshutdown");
    let mark = std::fs::read_to_string(mark).expect("the mark of a clean stop");
    assert!(mark.starts_with("{\"version\":0,\"brokerEpoch\":") && !mark.contains("-1"), "{mark}");
    cluster.node_mut(LEVADA).start();
    a_client_that_came_at_once_saw_metadata_without_this_broker(cluster.node(LEVADA));
    await_served(cluster.node(LEVADA), "stopped");
    cluster.assert_no_errors();
}

/// The session of the former process has to end before this one is registered.
fn a_client_that_came_at_once_saw_metadata_without_this_broker(node: &Node) {
    let answer = Connection::open(node.address()).call(&raw::metadata("stopped", false));
    let brokers = raw::broker_ids(&answer);
    assert!(brokers.contains(&LEVADA), "{brokers:?}");
}

fn a_process_that_wakes_after_its_session_does_not_lead_what_it_has_lost(cluster: &Cluster) {
    create(cluster, "woken", &format!("{LEVADA}"));
    await_served(cluster.node(LEVADA), "woken");
    cluster.node(LEVADA).suspend();
    cluster.await_brokers(&[KAFKA]);
    cluster.tools(KAFKA).run("TopicCommand --delete --topic woken");
    create(cluster, "woken", &format!("{KAFKA}"));
    await_served(cluster.node(KAFKA), "woken");
    // The request waits in the socket when the process continues.
    let mut connection = Connection::open(cluster.node(LEVADA).address());
    connection
        .send_frame(&raw::produce("woken", 1, &Batch::of(&[b"two"]).encode()))
        .expect("room in the socket");
    cluster.node(LEVADA).resume();
    let error = raw::produce_error(&connection.response().expect("an answer"));
    assert!([NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION].contains(&error), "{error}");
    create(cluster, "after", &format!("{LEVADA}"));
    await_served(cluster.node(LEVADA), "after");
    assert_eq!(produce(cluster.node(LEVADA).address(), "woken"), Some(NOT_LEADER_OR_FOLLOWER));
    cluster.assert_no_errors();
}

fn a_second_process_waits_for_the_session_and_then_replaces_the_first(cluster: &mut Cluster) {
    create(cluster, "contended", &format!("{LEVADA}"));
    await_served(cluster.node(LEVADA), "contended");
    let mut second = cluster.twin(LEVADA);
    second.launch();
    let await_line = |node: &Node, line: &str| {
        await_some(line, LIMIT, || node.talk().contains(line).then_some(()));
    };
    await_line(&second, "waiting for the old session to end");
    assert_eq!(produce(cluster.node(LEVADA).address(), "contended"), Some(NONE));
    cluster.node(LEVADA).suspend();
    await_line(&second, "the controller has unfenced this broker");
    cluster.node(LEVADA).resume();
    assert_leaves(cluster.node_mut(LEVADA));
    second.stop();
    cluster.node_mut(LEVADA).start();
    await_served(cluster.node(LEVADA), "contended");
    cluster.assert_no_errors();
}

fn an_unregistered_broker_stops_writing_and_ends(cluster: &mut Cluster) {
    create(cluster, "unregistered", &format!("{LEVADA}"));
    await_served(cluster.node(LEVADA), "unregistered");
    cluster.tools(KAFKA).run(&format!("ClusterTool unregister --id {LEVADA}"));
    let address = cluster.node(LEVADA).address();
    await_some("a refusal", LIMIT, || (produce(address, "unregistered") != Some(NONE)).then_some(()));
    assert_leaves(cluster.node_mut(LEVADA));
    cluster.await_brokers(&[KAFKA]);
    cluster.node_mut(LEVADA).start();
    await_served(cluster.node(LEVADA), "unregistered");
    cluster.assert_no_errors();
}

/// The process of a lost registration ends by itself, and names the reason.
fn assert_leaves(node: &mut Node) {
    let status = node.wait();
    let history = node.history();
    let last_run = history.rsplit("joining the cluster").next().expect("at least one part");
    assert!(!status.success(), "{status}\n{history}");
    let reason = "another process has registered with this broker's id, or the broker was unregistered";
    assert!(last_run.contains("registration lost") && last_run.contains(reason), "{history}");
}
