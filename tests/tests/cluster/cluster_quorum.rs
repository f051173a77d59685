//! A broker of Levada in the cluster of three controllers of a real Kafka, without another broker:
//! it follows the metadata log, the controllers' elections and their snapshots. Suspended
//! controllers, and a broker that is suspended until the log is discarded, recover.
//!
//! Suite: long; 96 s; needs java

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use levada_client::{Connection, ConnectionOptions};
use levada_tests::cluster::{CONTROLLER, Discovery, LEVADA, LIMIT, Shape};
use levada_tests::{Cluster, Tool, await_some, shell};
use levada_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, RequestResponsePair, create_topics_request,
    delete_topics_request,
};
use serde_json::Value;

/// Number of topics that are created while the lag is watched.
const TOPICS: usize = 1000;
/// Number of topics in one request.
const BATCH: usize = 100;
/// Limit for the time in which a new active controller is followed.
const FOLLOWED: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

#[test]
fn observer_follows_1000_topics_elections_and_snapshots() {
    let shape = Shape { controllers: 3, kafka: 0, levada: 1, discovery: Discovery::Voters };
    let mut cluster = Cluster::new(shape)
        .option(CONTROLLER, "metadata.log.max.record.bytes.between.snapshots", "20000")
        .option(CONTROLLER, "metadata.max.retention.ms", "1000")
        .option(LEVADA, "num.partitions", "1");
    for role in [CONTROLLER, LEVADA] {
        cluster = cluster
            .option(role, "authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
            .option(role, "super.users", "User:ANONYMOUS");
    }
    cluster.start();
    change_something_of_each_kind(&cluster);
    topics_leave_no_lag(&cluster);
    let mut tools = cluster.tools(LEVADA);
    let features = cluster.node(LEVADA).levada_json("cluster features describe");
    let is_static = |row: &Value| row["feature"] == "kraft.version" && row["level"] == 0;
    assert!(features.as_array().is_some_and(|rows| rows.iter().any(is_static)), "{features}");
    let said = tools.run("MetadataQuorumCommand describe --replication");
    let rows = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.into_iter().find(|row| row.first() == Some(&&*LEVADA.to_string()));
    assert_eq!(row.and_then(|row| row.last().copied()), Some("Observer"), "{said}");
    // The best of a few rounds: other processes can only delay.
    let longest = (0..ROUNDS).map(|_| each_controller_is_killed(&mut cluster));
    assert!(
        longest.into_iter().any(|longest| longest <= FOLLOWED),
        "each election is followed in {FOLLOWED:?}"
    );
    the_view_of_the_tools_agrees(&cluster);
    the_shell_agrees(&cluster);
    // A new process begins with the snapshot.
    cluster.node_mut(LEVADA).restart();
    cluster.await_brokers(&[LEVADA]);
    the_view_of_the_tools_agrees(&cluster);
    the_shell_agrees(&cluster);
    let said = cluster.node(LEVADA).talk();
    assert!(said.contains("snapshot"), "the log names the snapshot: {said}");
    a_suspended_active_controller_is_left(&cluster);
    a_suspended_broker_loads_a_snapshot_in_the_place_of_the_log(&cluster);
    the_view_of_the_tools_agrees(&cluster);
    cluster.node_mut(LEVADA).stop();
    cluster.assert_no_errors();
}

/// Makes settings, quotas, users and access control entries, with commands to Levada.
fn change_something_of_each_kind(cluster: &Cluster) {
    let node = cluster.node(LEVADA);
    let password = node.scratch().join("password");
    std::fs::write(&password, "a password").expect("a file of the test's own");
    let password = password.display();
    for command in [
        "topic create configured --config retention.ms=5000 --config cleanup.policy=compact",
        "config set quota user=eve producer_byte_rate=1024",
        "config set quota client-id=import consumer_byte_rate=4096",
        "acl add eve --allow read,describe --topic configured",
        "acl add eve --deny write --topic con --prefix --host 10.0.0.7",
        &format!("user set eve --password-file {password}"),
        &format!("user set adam --mechanism scram-sha-256 --iterations 8192 --password-file {password}"),
    ] {
        node.levada(command).run();
    }
}

/// Compares Levada's answers with the metadata log as `kafka-metadata-shell` shows it.
fn the_shell_agrees(cluster: &Cluster) {
    let leader = cluster.quorum().leader;
    let log = cluster.node(leader).data().join("__cluster_metadata-0/00000000000000000000.log");
    shell::assert_agrees(&log, cluster.node(LEVADA));
}

/// Creates topics through Levada; after each request its lag returns to 0.
fn topics_leave_no_lag(cluster: &Cluster) {
    let node = cluster.node(LEVADA);
    let (start, mut longest) = (Instant::now(), 0.0_f64);
    for first in (0..TOPICS).step_by(BATCH) {
        let names: Vec<String> = (first..first + BATCH).map(|number| format!("t{number}")).collect();
        // A controller that is elected meanwhile loses the response to a request that took effect.
        node.levada(&format!("topic create --if-not-exists {}", names.join(" "))).run();
        let created = Instant::now();
        await_some("lag 0 of the observer", LIMIT, || {
            (cluster.quorum().lag(LEVADA) == Some(0)).then_some(())
        });
        longest = longest.max(created.elapsed().as_secs_f64());
    }
    println!("{TOPICS} topics in {:?}; lag 0 after {longest:.3} s at most", start.elapsed());
    let metrics = node.metrics();
    let value = |name: &str| metric(metrics.clone(), &format!("metadata_{name}"));
    assert!(
        value("publication_seconds_count") >= (TOPICS / BATCH) as f64 && value("record_age_seconds") < 60.0
    );
    assert!(value("publication_seconds_sum") > 0.0 && value("publication_errors_total") == 0.0);
}

/// Kills one controller after the other, the active one first, and starts it again. The longest
/// time until the new active one was followed.
fn each_controller_is_killed(cluster: &mut Cluster) -> Duration {
    let mut longest = Duration::ZERO;
    let mut left: BTreeSet<i32> = cluster.controllers().into_iter().collect();
    while !left.is_empty() {
        let before = cluster.quorum();
        let victim = if left.contains(&before.leader) { before.leader } else { *left.first().expect("one") };
        left.remove(&victim);
        cluster.node_mut(victim).kill();
        let killed = Instant::now();
        let elected = cluster.quorum();
        let known = Instant::now();
        assert!(victim != before.leader || elected.epoch > before.epoch, "{before:?}, then {elected:?}");
        let node = cluster.node(LEVADA);
        await_some("the active controller in Levada's metrics", LIMIT, || {
            let seen = (metric(node.metrics(), "active_controller"), metric(node.metrics(), "quorum_epoch"));
            (seen == (f64::from(elected.leader), f64::from(elected.epoch))).then_some(())
        });
        let followed = known.elapsed();
        longest = longest.max(followed);
        println!(
            "controller {victim} of {} killed: elected after {:?}, followed {followed:?} later",
            before.leader,
            known - killed,
        );
        node.levada(&format!("topic create --if-not-exists after-{victim}")).run();
        cluster.node_mut(victim).start();
        cluster.await_brokers(&[LEVADA]);
    }
    longest
}

/// Suspends the active controller without ending it: the broker follows the next one, stays
/// unfenced and registered, and continues when the former one resumes.
fn a_suspended_active_controller_is_left(cluster: &Cluster) {
    let node = cluster.node(LEVADA);
    let (before, registered) = (cluster.quorum(), metric(node.metrics(), "broker_epoch"));
    cluster.node(before.leader).suspend();
    let suspended = Instant::now();
    let others: Vec<i32> = cluster.controllers().into_iter().filter(|id| *id != before.leader).collect();
    let elected = await_some("another leader of the quorum", LIMIT, || cluster.quorum_of(&others));
    let known = Instant::now();
    assert!(elected.epoch > before.epoch && elected.leader != before.leader, "{before:?}, then {elected:?}");
    let follows_the_elected = || {
        let seen = (metric(node.metrics(), "active_controller"), metric(node.metrics(), "quorum_epoch"));
        (seen == (f64::from(elected.leader), f64::from(elected.epoch))).then_some(())
    };
    await_some("the new active controller in Levada's metrics", LIMIT, follows_the_elected);
    println!(
        "controller {} suspended: elected after {:?}, followed {:?} later",
        before.leader,
        known - suspended,
        known.elapsed()
    );
    node.levada("topic create after-the-suspension").run();
    let serves = || {
        let samples = node.metrics();
        let fenced = metric(samples.clone(), "fenced");
        assert_eq!((fenced, metric(samples, "broker_epoch")), (0.0, registered), "{}", node.talk());
    };
    serves();
    cluster.node(before.leader).resume();
    await_some("the former leader with the whole log", LIMIT, || {
        // The former leader names itself until it has been notified of the election.
        let state = cluster.quorum();
        if (state.leader, state.epoch) != (elected.leader, elected.epoch) {
            return None;
        }
        let end = state.voters[&before.leader];
        (end >= state.high_watermark - 1 && end > elected.high_watermark).then_some(())
    });
    node.levada("topic create after-the-return").run();
    await_some("lag 0 of the observer", LIMIT, || (cluster.quorum().lag(LEVADA) == Some(0)).then_some(()));
    assert_eq!(follows_the_elected(), Some(()), "the broker stays with the new active controller");
    serves();
    let fenced = "the controller has fenced this broker";
    assert!(!node.talk().contains(fenced), "{}", node.talk());
}

/// Suspends the broker until the controllers have discarded the log after its position. When it
/// resumes it loads a snapshot, and has all missed changes.
fn a_suspended_broker_loads_a_snapshot_in_the_place_of_the_log(cluster: &Cluster) {
    let node = cluster.node(LEVADA);
    let loads = || node.talk().matches("loading a snapshot of the metadata").count();
    let before = loads();
    node.suspend();
    let suspended = Instant::now();
    let mut deletion = DeleteTopicsRequest::default();
    let mut deleted = delete_topics_request::DeleteTopicState::default();
    deleted.name = Some("t0".into());
    (deletion.topics, deletion.timeout_ms) = (vec![deleted], 30_000);
    let answer = ask_the_controller(cluster, &deletion);
    assert!(answer.responses.iter().all(|topic| topic.error_code == 0), "{answer:?}");
    // The response that waits in the socket has no record after this one.
    let position = cluster.quorum().high_watermark;
    // Enough records for more than one snapshot.
    for round in 0..6 {
        let mut creation = CreateTopicsRequest::default();
        creation.topics = (0..BATCH).map(|number| unled(&format!("missed{round}-{number}"))).collect();
        creation.timeout_ms = 30_000;
        let answer = ask_the_controller(cluster, &creation);
        assert!(answer.topics.iter().all(|topic| topic.error_code == 0), "{answer:?}");
    }
    // The controllers check once a minute for data to discard.
    await_some("the end of the log after the broker's position", LIMIT, || {
        (snapshots(cluster, cluster.quorum().leader).first()? > &position).then_some(())
    });
    println!("the log after offset {position} discarded {:?} after SIGSTOP", suspended.elapsed());
    node.resume();
    await_some("a snapshot that is loaded", LIMIT, || (loads() > before).then_some(()));
    await_some("lag 0 of the observer", LIMIT, || (cluster.quorum().lag(LEVADA) == Some(0)).then_some(()));
    cluster.await_brokers(&[LEVADA]);
    let listed = node.levada("topic list").run().stdout;
    let names: BTreeSet<&str> = listed.split_whitespace().collect();
    assert!(names.contains("missed3-99") && names.contains("t1"), "{listed}");
    assert!(!names.contains("t0"), "{listed}");
    assert_eq!(metric(node.metrics(), "metadata_publication_errors_total"), 0.0);
}

/// A topic of one partition with a replica on the broker.
fn unled(name: &str) -> create_topics_request::CreatableTopic {
    let mut assignment = create_topics_request::CreatableReplicaAssignment::default();
    assignment.broker_ids = vec![LEVADA];
    let mut topic = create_topics_request::CreatableTopic::default();
    topic.name = name.into();
    (topic.num_partitions, topic.replication_factor, topic.assignments) = (-1, -1, vec![assignment]);
    topic
}

/// Sends a request of a client to the active controller itself.
fn ask_the_controller<R: RequestResponsePair>(cluster: &Cluster, request: &R) -> R::Response {
    let address = cluster.node(cluster.quorum().leader).controller_address().to_string();
    let mut client = Connection::connect(&address, &ConnectionOptions::default()).expect("a controller");
    client.request(request).expect("an answer")
}

/// End offsets of a controller's snapshots, in order.
fn snapshots(cluster: &Cluster, controller: i32) -> Vec<i64> {
    let folder = cluster.node(controller).data().join("__cluster_metadata-0");
    let entries = std::fs::read_dir(folder).expect("the metadata log");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let ends = names.filter_map(|name| name.strip_suffix(".checkpoint")?.split('-').next()?.parse().ok());
    let mut ends: Vec<i64> = ends.filter(|end| *end > 0).collect();
    ends.sort_unstable();
    ends
}

fn metric(samples: Vec<(String, f64)>, name: &str) -> f64 {
    let name = format!("levada_cluster_{name}");
    let found = samples.iter().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("no sample {name}")).1
}

/// Compares the topics, their ids and their partitions' leaders with the records of the metadata
/// log, decoded by Kafka's tool from the newest snapshot and the log after it.
fn the_view_of_the_tools_agrees(cluster: &Cluster) {
    let leader = cluster.quorum().leader;
    let records = records(cluster, leader);
    let mut expected = BTreeMap::new();
    for record in &records {
        let data = &record["data"];
        match record["type"].as_str() {
            Some("TOPIC_RECORD") => {
                let name = data["name"].as_str().expect("a name").to_owned();
                expected.insert(data["topicId"].as_str().expect("an id").to_owned(), (name, BTreeMap::new()));
            }
            Some("PARTITION_RECORD") => {
                let topic = expected.get_mut(data["topicId"].as_str().expect("an id")).expect("its topic");
                topic.1.insert(data["partitionId"].as_i64(), data["replicas"].clone());
            }
            _ => {}
        }
    }
    assert!(expected.len() >= TOPICS, "{} topics in {} records", expected.len(), records.len());
    let names: Vec<String> = expected.values().map(|(name, _)| name.clone()).collect();
    let described = cluster.node(LEVADA).levada_json(&format!("topic describe {}", names.join(" ")));
    let described = described.as_array().expect("topics").iter();
    let seen: BTreeMap<String, (String, BTreeMap<Option<i64>, Value>)> = described
        .map(|topic| {
            let partitions = topic["partitions"].as_array().expect("partitions").iter();
            let replicas =
                partitions.map(|one| (one["partition"].as_i64(), one["replicas"].clone())).collect();
            let name = topic["name"].as_str().expect("a name").to_owned();
            (topic["id"].as_str().expect("an id").to_owned(), (name, replicas))
        })
        .collect();
    assert_eq!(seen.len(), expected.len());
    for (id, topic) in &expected {
        assert_eq!(seen.get(id), Some(topic), "{id}");
    }
}

/// Records of the metadata log as Kafka's tool decodes them, from the newest snapshot on.
fn records(cluster: &Cluster, controller: i32) -> Vec<Value> {
    let folder = cluster.node(controller).data().join("__cluster_metadata-0");
    let files = |ending: &str| {
        let entries = std::fs::read_dir(&folder).expect("the metadata log");
        let paths = entries.map(|entry| entry.expect("an entry").path().display().to_string());
        let mut paths: Vec<String> = paths.filter(|path| path.ends_with(ending)).collect();
        paths.sort();
        paths
    };
    let snapshot = files(".checkpoint").pop().expect("a snapshot was forced");
    let name = snapshot.rsplit('/').next().and_then(|name| name.split('-').next());
    let end: i64 = name.and_then(|digits| digits.parse().ok()).expect("an offset");
    println!("the newest snapshot ends at {end}");
    let mut all = vec![snapshot.clone()];
    all.extend(files(".log"));
    let mut tool = Tool::java("org.apache.kafka.tools.DumpLogSegments");
    let said = tool.args(["--cluster-metadata-decoder", "--files", &all.join(",")]).run().stdout;
    let mut first = 0;
    let mut records = Vec::new();
    for line in said.lines() {
        if let Some(file) = line.strip_prefix("Dumping ") {
            // Records of segments before its end are in the snapshot.
            first = if file == snapshot { 0 } else { end };
        }
        let Some((head, payload)) = line.split_once(" payload: ") else { continue };
        let offset =
            head.split_once("offset: ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<i64>().ok());
        if offset.is_some_and(|offset| offset >= first) {
            records.extend(serde_json::from_str::<Value>(payload));
        }
    }
    records
}
