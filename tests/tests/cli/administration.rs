//! Kafka's own administration tools against the broker: they can read back each change that they
//! made.
//!
//! Suite: short; 76 s; needs java, python
//! Soak: controllers 3

use std::time::Duration;

use levada_tests::raw::{Connection, Decoder, Encoder};
use levada_tests::{Node, Tool, await_some};

/// Output of a Java tool of Kafka's, given the broker and these arguments.
fn java(node: &Node, class: &str, arguments: &[&str]) -> String {
    let mut tool = Tool::java(class);
    tool.args(["--bootstrap-server", &node.bootstrap()]);
    for argument in arguments {
        tool.arg(argument);
    }
    tool.run().stdout
}

fn configs(node: &Node, arguments: &[&str]) -> String {
    java(node, "kafka.admin.ConfigCommand", arguments)
}

fn topics(node: &Node, arguments: &[&str]) -> String {
    java(node, "org.apache.kafka.tools.TopicCommand", arguments)
}

#[test]
fn kafka_configs_changes_survive_a_restart() {
    let mut node = Node::started();
    topics(&node, &["--create", "--topic", "tuned"]);
    let topic = ["--entity-type", "topics", "--entity-name", "tuned"];
    let with = |entity: &[&'static str], more: &[&'static str]| [entity, more].concat();
    configs(
        &node,
        &with(&topic, &["--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"]),
    );
    let broker = ["--entity-type", "brokers", "--entity-name", "1"];
    configs(&node, &with(&broker, &["--alter", "--add-config", "log.segment.bytes=2000000"]));
    let cluster = ["--entity-type", "brokers", "--entity-default"];
    configs(
        &node,
        &with(&cluster, &["--alter", "--add-config", "log.segment.bytes=3000000,message.max.bytes=5000"]),
    );

    let check = |node: &Node| {
        let shown = configs(node, &with(&topic, &["--describe", "--all"]));
        for expected in [
            "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000}",
            "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
            "segment.bytes=2000000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.segment.bytes=2000000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=3000000, DEFAULT_CONFIG:log.segment.bytes=1073741824}",
            "max.message.bytes=5000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=5000, DEFAULT_CONFIG:message.max.bytes=1048588}",
        ] {
            assert!(shown.contains(expected), "{expected} in {shown}");
        }
    };
    // A Kafka broker applies a change a little after the response.
    await_some("the new values", Duration::from_secs(60), || {
        configs(&node, &with(&broker, &["--describe"])).contains("log.segment.bytes=2000000").then_some(())
    });
    check(&node);
    node.restart();
    check(&node);

    configs(&node, &with(&topic, &["--alter", "--delete-config", "retention.ms"]));
    await_some("the default", Duration::from_secs(60), || {
        let shown = configs(&node, &with(&topic, &["--describe", "--all"]));
        shown.contains("retention.ms=604800000 sensitive=false synonyms={}").then_some(())
    });
    node.stop();
}

#[test]
fn kafkas_tools_cut_grow_and_describe() {
    let node = Node::started();
    topics(&node, &["--create", "--topic", "cut", "--partitions", "2"]);
    Tool::python("fill.py").args([&node.bootstrap(), "cut", "2", "0", "100"]).run();

    let plan = node.scratch().join("cut.json");
    let cut = r#"{"version":1,"partitions":[{"topic":"cut","partition":0,"offset":30},{"topic":"cut","partition":1,"offset":-1}]}"#;
    std::fs::write(&plan, cut).expect("a file");
    let file = plan.display().to_string();
    let said = java(&node, "org.apache.kafka.tools.DeleteRecordsCommand", &["--offset-json-file", &file]);
    assert!(said.contains("partition: cut-0\tlow_watermark: 30"), "{said}");
    assert!(said.contains("partition: cut-1\tlow_watermark: 100"), "{said}");
    let earliest = java(&node, "org.apache.kafka.tools.GetOffsetShell", &["--topic", "cut", "--time", "-2"]);
    assert_eq!(earliest, "cut:0:30\ncut:1:100\n");

    topics(&node, &["--alter", "--topic", "cut", "--partitions", "3"]);
    let described = topics(&node, &["--describe", "--topic", "cut"]);
    assert!(described.contains("PartitionCount: 3\tReplicationFactor: 1"), "{described}");
    let dirs = java(&node, "org.apache.kafka.tools.LogDirsCommand", &["--describe", "--topic-list", "cut"]);
    assert!(dirs.contains(r#""partition":"cut-2","size":0,"offsetLag":0,"isFuture":false"#), "{dirs}");
    let status = &["describe", "--status"];
    let quorum = java(&node, "org.apache.kafka.tools.MetadataQuorumCommand", status);
    let led_by = |id: &i32| quorum.contains(&format!("LeaderId:               {id}\n"));
    assert!(node.controller_ids().iter().any(led_by), "{quorum}");
    let mut election = Tool::java("org.apache.kafka.tools.LeaderElectionCommand");
    election.args(["--bootstrap-server", &node.bootstrap(), "--election-type", "preferred"]);
    let elected = election.arg("--all-topic-partitions").run().stdout;
    assert!(!elected.contains("Error"), "{elected}");
}

#[test]
fn segments_beyond_retention_are_deleted() {
    let mut node = Node::new().option("log.retention.check.interval.ms", "100");
    node.start();
    topics(&node, &["--create", "--topic", "short", "--config", "retention.ms=1"]);
    Tool::python("fill.py").args([&node.bootstrap(), "short", "1", "0", "10"]).run();
    await_some("an empty log", Duration::from_secs(60), || {
        let shell = "org.apache.kafka.tools.GetOffsetShell";
        (java(&node, shell, &["--topic", "short", "--time", "-2"]) == "short:0:10\n").then_some(())
    });
}

/// Time that a tool of Kafka's ran, its own start included.
fn seconds(tool: &mut Tool) -> f64 {
    let start = std::time::Instant::now();
    tool.run();
    start.elapsed().as_secs_f64()
}

#[test]
fn quotas_throttle_only_named_clients() {
    let mut node = Node::started();
    topics(&node, &["--create", "--topic", "slow"]);
    // Ten seconds' worth are free, the rest has to be waited for.
    let limits = "producer_byte_rate=100000,consumer_byte_rate=100000";
    configs(&node, &["--alter", "--entity-type", "clients", "--entity-name", "slow", "--add-config", limits]);
    let described = |node: &Node| configs(node, &["--describe", "--entity-type", "clients"]);
    let expected =
        "Quota configs for client-id 'slow' are consumer_byte_rate=100000.0, producer_byte_rate=100000.0";
    await_some("the limits", Duration::from_secs(60), || described(&node).contains(expected).then_some(()));

    let produce = |client: &str| {
        let mut tool = Tool::java("org.apache.kafka.tools.ProducerPerformance");
        tool.args([
            "--topic",
            "slow",
            "--num-records",
            "1400",
            "--record-size",
            "1000",
            "--throughput",
            "-1",
        ]);
        tool.args([
            "--bootstrap-server",
            &node.bootstrap(),
            "--command-property",
            &format!("client.id={client}"),
        ]);
        seconds(&mut tool)
    };
    let (free, limited) = (produce("free"), produce("slow"));
    assert!(limited > free + 2.0, "{limited} s for the limited producer, {free} s for the other");
    let consume = |client: &str| {
        let mut tool = Tool::java("org.apache.kafka.tools.ConsumerPerformance");
        tool.args(["--topic", "slow", "--num-records", "1400", "--timeout", "60000"]);
        tool.args([
            "--bootstrap-server",
            &node.bootstrap(),
            "--command-property",
            &format!("client.id={client}"),
        ]);
        seconds(&mut tool)
    };
    let (free, limited) = (consume("free"), consume("slow"));
    assert!(limited > free + 2.0, "{limited} s for the limited consumer, {free} s for the other");

    node.restart();
    assert!(described(&node).contains(expected), "{}", described(&node));
}

/// A request about one topic, with the client id `careful`: API, version, and what follows the
/// topic's name. Requests of a flexible version have sizes and tags of another form.
struct Mutation {
    key: i16,
    version: i16,
    is_flexible: bool,
}

impl Mutation {
    /// Error code and time of the throttle in milliseconds.
    fn send(&self, node: &Node, topic: &str, partitions: i32) -> (i16, i32) {
        let head = Encoder::default().i16(self.key).i16(self.version).i32(7).string("careful");
        let (one, none) =
            if self.is_flexible { (&[2][..], &[1][..]) } else { (&[0, 0, 0, 1][..], &[0; 4][..]) };
        let tags: &[u8] = if self.is_flexible { &[0] } else { &[] };
        let head = head.raw(tags).raw(one);
        let named = if self.is_flexible { head.compact_string(topic) } else { head.string(topic) };
        let request = match self.key {
            19 => named.i32(partitions).i16(1).raw(none).raw(none).raw(tags).i32(60_000).i8(0),
            20 => named.i32(60_000),
            // No assignments.
            _ => named
                .i32(partitions)
                .raw(if self.is_flexible { &[0] } else { &[0xff; 4] })
                .raw(tags)
                .i32(60_000)
                .i8(0),
        };
        let said = Connection::open(node.address()).call(&request.raw(tags).done());
        let mut said = Decoder::new(&said);
        assert_eq!(said.i32(), 7);
        if self.is_flexible {
            assert_eq!(said.varint(), 0);
        }
        let throttle_ms = said.i32();
        let name = if self.is_flexible {
            (said.varint() == 2).then(|| said.compact_string())
        } else {
            (said.i32() == 1).then(|| said.string())
        };
        assert_eq!(name.as_deref(), Some(topic));
        (said.i16(), throttle_ms)
    }
}

#[test]
fn controller_mutation_quota_limits_partition_changes() {
    const EXCEEDED: i16 = 89;
    let node = Node::started();
    topics(&node, &["--create", "--topic", "before", "--partitions", "5"]);
    // Eleven seconds' worth are free: one partition.
    let quota = ["--alter", "--entity-type", "clients", "--entity-default", "--add-config"];
    configs(&node, &[&quota[..], &["controller_mutation_rate=0.1"]].concat());
    let [create, old_create] =
        [(6, true), (4, false)].map(|(version, is_flexible)| Mutation { key: 19, version, is_flexible });
    let [delete, old_delete] =
        [(5, true), (3, false)].map(|(version, is_flexible)| Mutation { key: 20, version, is_flexible });
    let [grow, old_grow] =
        [(3, true), (1, false)].map(|(version, is_flexible)| Mutation { key: 37, version, is_flexible });

    // A request may take more than there is. A client in debt gets no partitions, and a time to
    // wait.
    let mut probes = (0..).map(|number| format!("probe-{number}"));
    let refused_ms = await_some("a refusal", Duration::from_secs(20), || {
        let (error, throttle_ms) = create.send(&node, &probes.next().expect("a name"), 20);
        assert!(error == EXCEEDED || (error, throttle_ms) == (0, 0), "{error} {throttle_ms}");
        (error == EXCEEDED).then_some(throttle_ms)
    });
    assert!((100_000..=189_000).contains(&refused_ms), "{refused_ms}");
    let known = "probe-0";
    let (error, throttle_ms) = grow.send(&node, known, 21);
    assert!(error == EXCEEDED && throttle_ms > 100_000, "{error} {throttle_ms}");
    let (error, throttle_ms) = delete.send(&node, "before", 0);
    assert!(error == EXCEEDED && throttle_ms > 100_000, "{error} {throttle_ms}");
    // A topic that is refused for another reason does not count.
    assert_eq!(create.send(&node, known, 1), (36, 0));

    // Clients that do not know the error are served, and throttled for their debt.
    let mut owed_ms = throttle_ms;
    for (request, topic, partitions) in
        [(&old_create, "second", 2), (&old_grow, "second", 4), (&old_delete, "before", 0)]
    {
        let (error, throttle_ms) = request.send(&node, topic, partitions);
        assert!(error == 0 && throttle_ms > owed_ms, "{error} {throttle_ms}, {owed_ms} before");
        owed_ms = throttle_ms;
    }

    // Another client id has its own bucket. Kafka's tool says what has happened.
    let listed = topics(&node, &["--create", "--topic", "tool", "--partitions", "20"]);
    assert!(listed.contains("Created topic tool."), "{listed}");
    let mut again = Tool::java("org.apache.kafka.tools.TopicCommand");
    again.args(["--bootstrap-server", &node.bootstrap(), "--create", "--topic", "again"]);
    let (code, said) = again.outcome();
    assert!(code == Some(1) && said.stdout.contains("quota has been exceeded"), "{code:?} {}", said.stdout);
    let listed = topics(&node, &["--list"]);
    let listed: Vec<&str> = listed.lines().filter(|name| !name.starts_with("probe-")).collect();
    assert_eq!(listed, ["second", "tool"]);
}
