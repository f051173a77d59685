//! A broker of Levada with two brokers of a real Kafka and three controllers.
//!
//! One test: five JVMs take longer to start than all of it to run. Its steps print their names.
//!
//! Suite: long; 76 s; needs java, python
//! Soak: scale 20

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use levada_testing::scaled;
use levada_tests::cluster::{CONTROLLER, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::tool::Conversation;
use levada_tests::{Cluster, Tool, await_some, journal};
use serde_json::json;

const BROKERS: [i32; 3] = [KAFKA, KAFKA + 1, LEVADA];
/// A topic with one partition on each broker, in the order of `BROKERS`.
const SPREAD: &str = "spread";
/// Limit for the return of a killed broker.
const IN_SERVICE: Duration = Duration::from_secs(15);
/// Session after which the controllers fence a silent broker.
const SESSION: Duration = Duration::from_secs(9);

#[test]
fn levada_beside_two_brokers_of_kafka() {
    let shape = Shape { controllers: 3, kafka: 2, levada: 1, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    let clients = cluster.listen("CLIENTS", "SASL_PLAINTEXT");
    for role in [CONTROLLER, KAFKA, LEVADA] {
        let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
        cluster = cluster.option(role, "authorizer.class.name", authorizer);
        cluster = cluster.option(role, "super.users", "User:ANONYMOUS");
    }
    for role in [KAFKA, LEVADA] {
        cluster = cluster.option(role, "sasl.enabled.mechanisms", "SCRAM-SHA-256");
        if role == KAFKA || Kind::under_test() == Kind::Kafka {
            let module = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
            cluster = cluster.option(role, "listener.name.clients.scram-sha-256.sasl.jaas.config", module);
        }
    }
    cluster.start();
    let mut tools = cluster.tools(LEVADA);
    step("clients that bootstrap at any broker reach all of them");
    clients_reach_every_broker(&cluster, &mut tools);
    step("changes through Levada take effect on all brokers");
    topic_settings_take_effect(&cluster, &mut tools);
    users_and_acls_take_effect(&clients, &mut tools);
    quotas_take_effect(&cluster, &mut tools);
    step("the command line knows all brokers");
    the_command_line_knows_all_brokers(&cluster);
    step("all brokers describe the same cluster");
    all_brokers_agree(&cluster, &mut tools);
    step("a controller leaves the voters, and returns");
    a_voter_leaves_and_returns(&cluster);
    step("kill -9 under load");
    a_killed_broker_loses_nothing(&mut cluster, &mut tools);
    step("SIGSTOP for longer than the session");
    a_suspended_broker_is_fenced(&cluster, &mut tools);
    step("controlled shutdown");
    cluster.node_mut(LEVADA).stop();
    cluster.await_brokers(&[KAFKA, KAFKA + 1]);
    cluster.node_mut(LEVADA).start();
    cluster.await_brokers(&BROKERS);
    everywhere("confluent", &cluster, LEVADA);
    cluster.node_mut(LEVADA).stop();
    cluster.assert_no_errors();
}

/// A controller that does not lead becomes an observer, and a voter again, by commands to Levada.
fn a_voter_leaves_and_returns(cluster: &Cluster) {
    let leader = cluster.quorum().leader;
    let voter = cluster.controllers().into_iter().find(|id| *id != leader).expect("three controllers");
    let node = cluster.node(LEVADA);
    let await_role = |role: &str| {
        await_some(&format!("controller {voter} as {role}"), LIMIT, || {
            let state = node.levada_json("cluster quorum describe");
            let found = state["nodes"].as_array()?.iter().find(|one| one["id"] == voter)?;
            (found["role"] == role).then_some(())
        });
    };
    let said = node.levada(&format!("cluster quorum remove {voter} --yes")).run().stderr;
    assert!(said.contains(&format!("removed controller {voter}")), "{said}");
    await_role("observer");
    let address = cluster.node(voter).controller_address();
    let said = node.levada(&format!("cluster quorum add {voter} --address {address}")).run().stderr;
    assert!(said.contains(&format!("added controller {voter}")), "{said}");
    await_role("voter");
}

fn step(name: &str) {
    println!("---- {name}");
}

/// Writes to and reads from each partition of the topic, by a client with this broker as its
/// bootstrap server.
fn everywhere(library: &str, cluster: &Cluster, broker: i32) {
    let bootstrap = cluster.node(broker).bootstrap();
    Tool::python("everywhere.py").args([library, &bootstrap, SPREAD, "3"]).run();
}

fn clients_reach_every_broker(cluster: &Cluster, tools: &mut Tools) {
    let [first, second, third] = BROKERS;
    tools.run(&format!(
        "TopicCommand --create --topic {SPREAD} --replica-assignment {first},{second},{third}"
    ));
    await_topic(cluster, SPREAD);
    for (broker, library) in BROKERS.into_iter().zip(["confluent", "kafka-python", "kafka-python"]) {
        everywhere(library, cluster, broker);
    }
    everywhere("confluent", cluster, LEVADA);
    tools.run(&format!("produce {SPREAD} 0 5"));
    tools.run(&format!("produce {SPREAD} 2 5"));
    let consume =
        "ConsoleConsumer --from-beginning --timeout-ms 60000 --max-messages 22 --group java --topic";
    let said = tools.run(&format!("{consume} {SPREAD}"));
    assert!(said.contains("Processed a total of 22 messages"), "{said}");
    let listed = tools.run("ConsumerGroupCommand --list");
    assert!(listed.lines().any(|group| group == "java") && listed.lines().count() >= 5, "{listed}");
}

/// Waits until every broker lists the topic.
fn await_topic(cluster: &Cluster, topic: &str) {
    for broker in BROKERS {
        await_some(&format!("{topic} at broker {broker}"), LIMIT, || {
            let (code, _) = cluster.node(broker).levada(&format!("topic describe {topic}")).outcome();
            (code == Some(0)).then_some(())
        });
    }
}

fn topic_settings_take_effect(cluster: &Cluster, tools: &mut Tools) {
    const MESSAGE_TOO_LARGE: i16 = 10;
    let alter = format!("ConfigCommand --alter --entity-type topics --entity-name {SPREAD}");
    tools.run(&format!("{alter} --add-config max.message.bytes=2000"));
    let large = Batch::of(&[&[7; 3000]]).encode();
    for (partition, broker) in (0..).zip(BROKERS) {
        await_some(&format!("max.message.bytes at broker {broker}"), LIMIT, || {
            (produce(cluster.node(broker).address(), SPREAD, partition, &large)? == MESSAGE_TOO_LARGE)
                .then_some(())
        });
    }
    tools.run(&format!("{alter} --delete-config max.message.bytes"));
    for (partition, broker) in (0..).zip(BROKERS) {
        await_some(&format!("the default of max.message.bytes at broker {broker}"), LIMIT, || {
            (produce(cluster.node(broker).address(), SPREAD, partition, &large)? == 0).then_some(())
        });
    }
}

/// Error of a Produce to one partition; none if there is no response.
fn produce(broker: SocketAddr, topic: &str, partition: i32, batch: &[u8]) -> Option<i16> {
    let request = raw::produce_to((topic, partition), -1, batch);
    let answer = Connection::try_open(broker).ok()?.try_call(&request).ok()?;
    let mut answer = raw::Decoder::new(&answer);
    assert_eq!((answer.i32(), answer.i32()), (7, 1), "correlation id and topics");
    answer.string();
    assert_eq!((answer.i32(), answer.i32()), (1, partition), "partitions and the partition");
    Some(answer.i16())
}

/// A user that is created through Levada logs in at every broker, and writes there only when an ACL
/// allows it.
fn users_and_acls_take_effect(clients: &BTreeMap<i32, SocketAddr>, tools: &mut Tools) {
    tools.run(
        "ConfigCommand --alter --entity-type users --entity-name alice \
         --add-config SCRAM-SHA-256=[iterations=4096,password=secret]",
    );
    await_alice(clients, "TOPIC_AUTHORIZATION_FAILED");
    let acl = format!(
        "--force --allow-principal User:alice --operation Write --operation Describe --topic {SPREAD}"
    );
    tools.run(&format!("AclCommand --add {acl}"));
    await_alice(clients, "written");
    tools.run(&format!("AclCommand --remove {acl}"));
    await_alice(clients, "TOPIC_AUTHORIZATION_FAILED");
    tools.run("ConfigCommand --alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-256");
    await_alice(clients, "_AUTHENTICATION");
}

/// Waits for this result of writing as alice at every broker, to the partition that it leads.
fn await_alice(clients: &BTreeMap<i32, SocketAddr>, outcome: &str) {
    let mut tool = Tool::python("user_writes.py");
    tool.args([SPREAD, outcome]);
    for broker in BROKERS {
        tool.arg(clients[&broker].to_string());
    }
    tool.run();
}

fn quotas_take_effect(cluster: &Cluster, tools: &mut Tools) {
    let quota = "ConfigCommand --alter --entity-type clients --entity-name import";
    tools.run(&format!("{quota} --add-config producer_byte_rate=1000"));
    for broker in BROKERS {
        await_some(&format!("the quota at broker {broker}"), LIMIT, || {
            let quotas = cluster.node(broker).levada_json("config get quota");
            (quotas[0]["settings"][0]["value"] == json!("1000")).then_some(())
        });
    }
    tools.run(&format!("{quota} --delete-config producer_byte_rate"));
}

fn the_command_line_knows_all_brokers(cluster: &Cluster) {
    for broker in BROKERS {
        let node = cluster.node(broker);
        let rows = node.levada_json("cluster brokers");
        let states: Vec<_> = rows.as_array().expect("rows").iter().map(|row| row["fenced"].clone()).collect();
        assert_eq!(states, [json!(false), json!(false), json!(false)], "{rows}");
        let leaders = |row: &serde_json::Value| row["leaders"].as_u64().is_some_and(|count| count > 0);
        assert!(rows.as_array().expect("rows").iter().all(leaders), "{rows}");
        let info = node.levada_json("cluster info");
        assert_eq!(info["brokers"].as_array().map(Vec::len), Some(3), "{info}");
        assert!(info["bytes"].as_u64() > Some(0), "{info}");
        assert_eq!(node.levada_json("cluster health")["healthy"], json!(true));
    }
}

/// Makes one of each kind of change through Levada, and compares the responses of Levada and of a
/// broker of Kafka to questions about the metadata, field by field.
fn all_brokers_agree(cluster: &Cluster, tools: &mut Tools) {
    for change in CHANGES {
        tools.run(change);
    }
    let questions = cluster.node(LEVADA).scratch().join("questions");
    std::fs::write(&questions, QUESTIONS).expect("a file of the test's own");
    let answers = |broker: i32| {
        let mut ask = Tool::own_java("Ask");
        ask.args([&cluster.node(broker).bootstrap(), &questions.display().to_string()]);
        ask.run().stdout.lines().map(without_controller).collect::<Vec<_>>()
    };
    let start = Instant::now();
    loop {
        let (expected, seen) = (answers(KAFKA), answers(LEVADA));
        assert_eq!(expected.len(), QUESTIONS.lines().count(), "{expected:?}");
        let is_complete = ["bob", "kept", "987654321"].iter().all(|word| expected.join(" ").contains(word));
        if is_complete && expected == seen {
            return;
        }
        // A change may still be on its way to one of them.
        assert!(start.elapsed() < LIMIT, "Kafka's answers, and Levada's:\n{expected:#?}\n{seen:#?}");
    }
}

/// The response without the id of the controller, for which any broker may be named.
fn without_controller(answer: &str) -> String {
    let ids = BROKERS.map(|id| format!("\"controllerId\":{id},"));
    ids.iter().fold(answer.to_owned(), |answer, id| answer.replace(id, ""))
}

/// Changes through Levada that stay.
const CHANGES: [&str; 4] = [
    "ConfigCommand --alter --entity-type topics --entity-name spread --add-config retention.ms=987654321",
    "ConfigCommand --alter --entity-type users --entity-name bob --add-config SCRAM-SHA-512=[password=secret]",
    "ConfigCommand --alter --entity-type clients --entity-name kept --add-config consumer_byte_rate=1000000",
    "AclCommand --add --force --allow-principal User:bob --operation Read --topic spread --group readers",
];

/// Questions about the metadata, in the form of the program `Ask`.
const QUESTIONS: &str = r#"topics METADATA 13 {"topics":[{"topicId":"AAAAAAAAAAAAAAAAAAAAAA","name":"spread"},{"topicId":"AAAAAAAAAAAAAAAAAAAAAA","name":"__consumer_offsets"}],"allowAutoTopicCreation":false,"includeTopicAuthorizedOperations":true}
partitions DESCRIBE_TOPIC_PARTITIONS 0 {"topics":[{"name":"spread"}],"responsePartitionLimit":100,"cursor":null}
settings DESCRIBE_CONFIGS 4 {"resources":[{"resourceType":2,"resourceName":"spread","configurationKeys":["max.message.bytes","retention.ms"]}],"includeSynonyms":false,"includeDocumentation":false}
acls DESCRIBE_ACLS 3 {"resourceTypeFilter":1,"resourceNameFilter":null,"patternTypeFilter":1,"principalFilter":null,"hostFilter":null,"operation":1,"permissionType":1}
quotas DESCRIBE_CLIENT_QUOTAS 1 {"components":[],"strict":false}
users DESCRIBE_USER_SCRAM_CREDENTIALS 0 {"users":null}
quorum DESCRIBE_QUORUM 0 {"topics":[{"topicName":"nothing","partitions":[{"partitionIndex":0}]}]}
moves LIST_PARTITION_REASSIGNMENTS 0 {"timeoutMs":10000,"topics":null}
"#;

/// Produces to Levada, kills it, and compares the acknowledgements with the log.
fn a_killed_broker_loses_nothing(cluster: &mut Cluster, tools: &mut Tools) {
    let topics = ["idempotent", "plain"];
    for topic in topics {
        tools.run(&format!("TopicCommand --create --topic {topic} --replica-assignment {LEVADA},{LEVADA}"));
        await_topic(cluster, topic);
    }
    let bootstrap = cluster.node(KAFKA).bootstrap();
    let journal = |topic: &str| cluster.node(LEVADA).scratch().join(format!("{topic}-acknowledged"));
    let journals = topics.map(journal);
    let load = |(topic, journal): (&&str, &std::path::PathBuf)| {
        let mut tool = Tool::python("load.py");
        tool.args([&bootstrap, topic, "2", &journal.display().to_string(), topic]).spawn()
    };
    let mut loads: Vec<_> = topics.iter().zip(&journals).map(load).collect();
    loads.iter_mut().for_each(progress);
    let rounds = scaled(1_u32);
    let (mut round, mut best) = (0, Duration::MAX);
    // The best of a few rounds: other processes can only delay.
    while round < rounds || (best > IN_SERVICE && round < rounds + 2) {
        round += 1;
        let killed = Instant::now();
        cluster.node_mut(LEVADA).kill();
        cluster.node_mut(LEVADA).launch();
        loads.iter_mut().for_each(progress);
        cluster.await_brokers(&BROKERS);
        best = best.min(killed.elapsed());
        println!("in service again {:?} after kill -9", killed.elapsed());
    }
    assert!(best <= IN_SERVICE, "{best:?}");
    for load in &mut loads {
        load.say("stop");
    }
    for load in loads {
        load.finish(LIMIT);
    }
    for (topic, journal) in topics.iter().zip(&journals) {
        assert_complete(cluster, topic, journal);
    }
}

/// Waits until the load has got acknowledgements from now on.
fn progress(load: &mut Conversation) {
    while load.line_now().is_some() {}
    let line = load.line(LIMIT);
    assert!(line.parse::<u64>().is_ok(), "{line}");
}

fn assert_complete(cluster: &Cluster, topic: &str, acknowledged: &Path) {
    let found = cluster.node(LEVADA).scratch().join(format!("{topic}-found"));
    Tool::python("journal.py").args([&cluster.node(KAFKA).bootstrap(), topic, "2"]).stdout(&found).run();
    let (acknowledged, log) = (journal::read(acknowledged), journal::read(&found));
    println!("{topic}: {} acknowledged, {} in the log", acknowledged.len(), log.len());
    let mut complaints = journal::lost(&acknowledged, &log);
    if topic == "idempotent" {
        complaints.extend(journal::disorder(&log));
    }
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// Suspends Levada until it is fenced, assigns a separate topic to another broker, and resumes it.
fn a_suspended_broker_is_fenced(cluster: &Cluster, tools: &mut Tools) {
    const OFFSETS_OF_OLD: &[u8] = b"before";
    let create = |on: i32| format!("TopicCommand --create --topic moved --replica-assignment {on}");
    tools.run(&create(LEVADA));
    await_topic(cluster, "moved");
    let levada = cluster.node(LEVADA);
    let batch = Batch::of(&[OFFSETS_OF_OLD]).encode();
    assert_eq!(produce(levada.address(), "moved", 0, &batch), Some(0));
    let mut other = cluster.tools(KAFKA);
    levada.suspend();
    let suspended = Instant::now();
    cluster.await_brokers(&[KAFKA, KAFKA + 1]);
    println!("fenced {:?} after SIGSTOP, with a session of {SESSION:?}", suspended.elapsed());
    let health = cluster.node(KAFKA).levada("cluster health").outcome();
    assert!(health.0 == Some(1) && health.1.stdout.contains("fenced"), "{health:?}");
    other.run("TopicCommand --delete --topic moved");
    await_some("the topic on another broker", LIMIT, || (other.outcome(&create(KAFKA)).0 == 0).then_some(()));
    levada.resume();
    let resumed = Instant::now();
    await_some("a refusal of what was lost", LIMIT, || {
        (produce(levada.address(), "moved", 0, &batch)? != 0).then_some(())
    });
    println!("refused {:?} after SIGCONT", resumed.elapsed());
    cluster.await_brokers(&BROKERS);
    println!("unfenced {:?} after SIGCONT", resumed.elapsed());
    let error = produce(levada.address(), "moved", 0, &batch).expect("an answer");
    assert!(error != 0, "another broker leads the topic");
    assert_eq!(produce(cluster.node(KAFKA).address(), "moved", 0, &batch), Some(0));
    everywhere("confluent", cluster, LEVADA);
}
