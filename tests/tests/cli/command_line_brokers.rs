//! The commands for a cluster of several brokers: lists, moves with a throttle, a second operator,
//! elections, balance, drain and removal of a broker, the quorum. Three brokers under test beside a
//! controller of Kafka; with `LEVADA_TEST_NODE=kafka` the brokers are Kafka's.
//!
//! Suite: long; 24 s; needs java; share operation

use std::fs;
use std::time::Duration;

use levada_tests::cluster::{CONTROLLER, Cluster, Discovery, LEVADA, LIMIT, Shape};
use levada_tests::node::Kind;
use levada_tests::{Node, await_some};
use serde_json::{Value, json};

const FIRST: i32 = LEVADA;
const SECOND: i32 = LEVADA + 1;
const THIRD: i32 = LEVADA + 2;

/// Bytes of a record that fills partitions.
const RECORD: usize = 50_000;

#[test]
fn three_brokers_are_administered_by_command_line() {
    let shape = Shape { controllers: 1, kafka: 0, levada: 3, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape).option(CONTROLLER, "auto.leader.rebalance.enable", "false");
    cluster.start();
    let node = cluster.node(FIRST);
    step("lists");
    lists(node);
    step("a move with a throttle, and the way back");
    moves(node);
    step("a second operator");
    second_operator(node);
    step("refusals");
    refusals(node);
    step("balance and elections");
    balance(node);
    step("quorum");
    quorum(node);
    step("elections");
    elections(&mut cluster);
    step("drain and remove");
    drain(&mut cluster);
    cluster.assert_no_errors();
}

fn step(name: &str) {
    println!("---- {name}");
}

/// Fails unless the command ends with this code, and prints this on stderr.
fn refused(node: &Node, line: &str, code: i32, expected: &str) {
    let (ended, said) = node.levada(line).outcome();
    assert_eq!(ended, Some(code), "{line}: {said:?}");
    assert!(said.stderr.contains(expected), "{line}: {said:?}");
}

/// Replicas of a partition.
fn replicas(node: &Node, partition: &str) -> Value {
    node.levada_json(&format!("partition list {partition}"))[0]["replicas"].clone()
}

/// Creates a topic with these replicas of each partition, and fills each partition.
fn filled(node: &Node, topic: &str, assignment: &[&[i32]], records: usize) {
    node.levada(&format!("topic create {topic} -p {} -r 1", assignment.len())).run();
    let entries = assignment
        .iter()
        .enumerate()
        .map(|(partition, replicas)| json!({"topic": topic, "partition": partition, "replicas": replicas}));
    let plan = json!({"version": 1, "partitions": entries.collect::<Vec<_>>()});
    let file = node.scratch().join(format!("{topic}-placed.json"));
    fs::write(&file, plan.to_string()).expect("a file of the test's own");
    await_some(&format!("{topic} in the metadata"), LIMIT, || {
        let listed = node.levada("partition list").outcome().1.stdout;
        (listed.lines().filter(|line| line.starts_with(topic)).count() == assignment.len()).then_some(())
    });
    node.levada(&format!("partition move --execute --plan {}", file.display())).run();
    let lines: String =
        (0..records * assignment.len()).map(|number| format!("{number:0>RECORD$}\n")).collect();
    let input = node.scratch().join(format!("{topic}-records"));
    fs::write(&input, lines).expect("a file of the test's own");
    let mut produce = node.levada(&format!("produce {topic} --batch-bytes 60000"));
    produce.stdin(&input).run();
}

fn lists(node: &Node) {
    filled(node, "clicks", &[&[FIRST, SECOND], &[SECOND, FIRST]], 100);
    let info = node.levada_json("cluster info");
    assert_eq!(info["controller"], json!(CONTROLLER), "no broker: {info}");
    let brokers = node.levada_json("broker list");
    let ids: Vec<_> = brokers.as_array().expect("brokers").iter().map(|one| one["id"].as_i64()).collect();
    assert_eq!(ids, [FIRST, SECOND, THIRD].map(|id| Some(id.into())));
    assert!(brokers[0]["bytes"].as_u64() > Some(RECORD as u64), "{brokers}");
    assert_eq!(brokers[0]["fenced"], json!(false), "{brokers}");
    let sorted = node.levada_json("broker list --sort replicas");
    assert_eq!(sorted[2]["id"], json!(THIRD), "{sorted}");
    let described = node.levada_json(&format!("broker describe {FIRST}"));
    assert_eq!(described[0]["lagging"], json!([]), "{described}");
    assert!(described[0]["metadata_version"][1].as_i64() >= Some(25), "{described}");
    let path = described[0]["directories"][0]["directory"].as_str().expect("a path").to_owned();
    assert!(node.data().display().to_string().contains(path.trim_start_matches("/private")), "{path}");
    let directories = node.levada_json(&format!("logdirs {FIRST} --largest 1"));
    assert_eq!(directories["largest"][0]["topic"], json!("clicks"), "{directories}");
    assert!(directories["directories"][0]["free_bytes"].as_u64() > Some(0), "{directories}");
    let led = node.levada_json(&format!("partition list cl*ks --leader {SECOND}"));
    assert_eq!((led.as_array().map(Vec::len), &led[0]["partition"]), (Some(1), &json!(1)), "{led}");
    assert_eq!(node.levada_json("partition list --all --under-replicated"), json!([]));
    let table = node.levada("partition list clicks:0").run().stdout;
    assert!(table.lines().all(|line| line.chars().count() <= 80) && table.contains("MiB"), "{table}");
    refused(node, "partition list click", 1, "clicks; levada topic list");
    refused(node, "broker describe 99", 1, "the cluster has no broker 99");
}

fn moves(node: &Node) {
    let back = node.scratch().join("back.json");
    let to = format!("{THIRD},{FIRST}");
    let planned = node.levada_json(&format!("partition move clicks:0 --to {to}"));
    assert_eq!(planned["executed"], json!(false), "{planned}");
    assert!(planned["moves"][0]["bytes"].as_u64() > Some(RECORD as u64), "{planned}");
    assert_eq!(replicas(node, "clicks:0"), json!([FIRST, SECOND]), "a plan changes nothing");
    let line =
        format!("partition move clicks:0 --to {to} --execute --throttle 50MB --undo {}", back.display());
    let moved = node.levada_json(&line);
    assert_eq!((&moved["executed"], &moved["complete"]), (&json!(true), &json!(true)), "{moved}");
    assert_eq!(replicas(node, "clicks:0"), json!([THIRD, FIRST]));
    let leader = node.levada_json("partition list clicks:0")[0]["leader"].clone();
    assert_eq!(leader, json!(THIRD), "the first replica leads after the move");
    no_throttle(node);
    let other = format!("partition move clicks:0 --to {FIRST} --execute --undo {}", back.display());
    refused(node, &other, 1, "cannot write the plan that undoes the moves");
    node.levada(&format!("partition move --execute --plan {}", back.display())).run();
    assert_eq!(replicas(node, "clicks:0"), json!([FIRST, SECOND]));
}

/// Waits until no throttle is left on brokers and topics.
fn no_throttle(node: &Node) {
    await_some("the end of the throttle", LIMIT, || {
        let topics = node.levada_json("config get topic clicks");
        let broker = node.levada_json(&format!("config get broker {FIRST}"));
        (!format!("{topics}{broker}").contains("throttled")).then_some(())
    });
}

fn second_operator(node: &Node) {
    // A first fetch of 1 MiB passes; the rest of 5 MB at 10 kB/s lasts until the test ends it.
    let slow = format!("partition move clicks:1 --to {THIRD} --execute --throttle 10000 --no-wait");
    let started = node.levada(&slow).run().stderr;
    assert!(started.contains("--follow"), "{started}");
    let moving = node.levada_json("partition move");
    assert_eq!((&moving[0]["topic"], &moving[0]["adding"]), (&json!("clicks"), &json!([THIRD])), "{moving}");
    refused(node, &format!("partition move clicks:1 --to {FIRST} --execute"), 1, "is already moving to");
    assert_eq!(replicas(node, "clicks:1").as_array().map(Vec::len), Some(3), "both sets during the move");
    let list = node.scratch().join("follower");
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| node.levada("partition move --follow").stdout(&list).outcome());
        await_some("the list of the follower", LIMIT, || {
            fs::read_to_string(&list).ok()?.contains("clicks").then_some(())
        });
        let cancelled = node.levada_json("partition move clicks --cancel");
        assert_eq!((&cancelled[0]["name"], &cancelled[0]["outcome"]), (&json!("clicks/1"), &json!("done")));
        let (code, said) = follower.join().expect("a result");
        assert_eq!(code, Some(1), "{said:?}");
        assert!(
            said.stderr.contains("clicks/1 has replicas") && said.stderr.contains("was cancelled"),
            "{said:?}"
        );
    });
    assert_eq!(node.levada_json("partition move"), json!([]));
    no_throttle(node);
    let mut kept: Vec<i64> =
        replicas(node, "clicks:1").as_array().expect("ids").iter().filter_map(Value::as_i64).collect();
    kept.sort_unstable();
    assert_eq!(kept, [FIRST, SECOND].map(i64::from), "a cancelled move leaves the replicas");
}

fn refusals(node: &Node) {
    let line = |to: &str| format!("partition move clicks:0 --to {to} --execute");
    refused(node, &line("99"), 1, "the cluster has no broker 99");
    refused(node, &line(&format!("{FIRST},{FIRST}")), 1, "names a broker twice");
    node.levada("config set topic clicks min.insync.replicas=2").run();
    await_some("min.insync.replicas in force", LIMIT, || {
        let (code, said) = node.levada(&line(&FIRST.to_string())).outcome();
        (code == Some(1)).then(|| assert!(said.stderr.contains("min.insync.replicas=2"), "{said:?}"))
    });
    node.levada("config delete topic clicks min.insync.replicas").run();
    refused(node, "partition move clicks", 2, "--to BROKER,…");
    refused(node, "partition move nothing:0 --to 1", 1, "there is no topic nothing");
}

fn balance(node: &Node) {
    let four: [&[i32]; 4] = [&[FIRST]; 4];
    filled(node, "uneven", &four, 4);
    let plan = node.levada_json("partition balance uneven");
    let moved = plan["moves"].as_array().expect("moves").len();
    assert!((2..=4).contains(&moved), "{plan}");
    let said = node.levada("partition balance --execute").run();
    assert!(said.stdout.contains(" to "), "loads before and after: {said:?}");
    let brokers = node.levada_json("broker list");
    let counts = |key: &str| {
        let rows = brokers.as_array().expect("brokers").iter();
        rows.map(|row| row[key].as_i64().expect("a number")).collect::<Vec<_>>()
    };
    for key in ["replicas", "leaders"] {
        let counts = counts(key);
        let range = counts.iter().max().expect("three") - counts.iter().min().expect("three");
        assert!(range <= 1, "{key}: {brokers}");
    }
    assert_eq!(node.levada_json("partition balance")["moves"], json!([]), "a balanced cluster stays");
    let elected = node.levada("partition elect --all").run().stderr;
    assert!(elected.contains("no election is needed"), "{elected}");
    refused(node, "partition elect", 2, "<TOPIC[:N,N…]>");
}

/// The leader of the only partition of a topic.
fn leader(node: &Node, topic: &str) -> Option<i64> {
    node.levada_json(&format!("partition list {topic}"))[0]["leader"].as_i64().filter(|id| *id >= 0)
}

/// A broker that returns leads again after an election of the preferred leader. A replica that was
/// not in sync leads after an unclean one.
fn elections(cluster: &mut Cluster) {
    let node = cluster.node(FIRST);
    filled(node, "led", &[&[THIRD, FIRST]], 1);
    filled(node, "lossy", &[&[THIRD, SECOND]], 1);
    let in_sync =
        |node: &Node, topic: &str| node.levada_json(&format!("partition list {topic}"))[0]["in_sync"].clone();
    let are_two = |node: &Node, topic: &str| {
        await_some(&format!("two replicas of {topic} in sync"), LIMIT, || {
            (in_sync(node, topic).as_array()?.len() == 2).then_some(())
        });
    };
    are_two(node, "led");
    are_two(node, "lossy");
    cluster.node_mut(SECOND).stop();
    let node = cluster.node(FIRST);
    await_some("one replica in sync", LIMIT, || (in_sync(node, "lossy") == json!([THIRD])).then_some(()));
    cluster.node_mut(THIRD).stop();
    cluster.node_mut(SECOND).start();
    let node = cluster.node(FIRST);
    await_some("the other leader", LIMIT, || (leader(node, "led") == Some(FIRST.into())).then_some(()));
    await_some("the end of the leader", LIMIT, || leader(node, "lossy").is_none().then_some(()));
    refused(node, "partition elect led", 1, "PREFERRED_LEADER_NOT_AVAILABLE");
    // The started broker listens before the controllers unfence it.
    let elected = await_some("an unclean election", LIMIT, || {
        let (code, said) = node.levada("partition elect lossy --unclean --yes").outcome();
        (code == Some(0)).then_some(said.stderr)
    });
    assert!(elected.contains("lossy/0 has a new leader"), "{elected}");
    await_some("the unclean leader", LIMIT, || (leader(node, "lossy") == Some(SECOND.into())).then_some(()));
    cluster.node_mut(THIRD).start();
    let node = cluster.node(FIRST);
    are_two(node, "led");
    let elected = node.levada("partition elect led").run().stderr;
    assert!(elected.contains(&format!("led/0 has a new leader: broker {THIRD}")), "{elected}");
    await_some("the preferred leader", LIMIT, || (leader(node, "led") == Some(THIRD.into())).then_some(()));
    node.levada("topic delete led lossy --yes").run();
    await_some("the end of the topics", LIMIT, || {
        (node.levada("partition list l*").outcome().0 == Some(1)).then_some(())
    });
}

fn quorum(node: &Node) {
    let state = await_some("the brokers as observers", LIMIT, || {
        let state = node.levada_json("cluster quorum describe");
        (state["nodes"].as_array()?.len() == 4).then_some(state)
    });
    assert_eq!((&state["leader"], &state["nodes"][0]["role"]), (&json!(1), &json!("leader")), "{state}");
    assert_eq!(state["nodes"][3]["role"], json!("observer"), "{state}");
    refused(node, "cluster quorum remove 1", 1, "the only voter");
    refused(node, "cluster quorum add 77 --address 127.0.0.1:9", 1, "does not follow the metadata log");
    refused(node, &format!("cluster quorum add {FIRST} --address 127.0.0.1:9"), 1, "is a broker");
}

fn drain(cluster: &mut Cluster) {
    let node = cluster.node(FIRST);
    refused(node, &format!("broker remove {THIRD}"), 1, "is alive");
    filled(node, "wide", &[&[FIRST, SECOND, THIRD]], 1);
    refused(
        node,
        &format!("broker drain {THIRD}"),
        1,
        "no other broker that serves can take a replica of wide/0",
    );
    node.levada("topic delete wide").run();
    await_some("the end of the topic", LIMIT, || {
        (node.levada("partition list wide*").outcome().0 == Some(1)).then_some(())
    });
    let held = node.levada_json(&format!("partition list --all --replica {THIRD}"));
    assert_ne!(held, json!([]));
    let drained = node.levada_json(&format!("broker drain {THIRD} --execute"));
    assert_eq!(drained["complete"], json!(true), "{drained}");
    assert_eq!(node.levada_json(&format!("partition list --all --replica {THIRD}")), json!([]));
    cluster.node_mut(THIRD).stop();
    let node = cluster.node(FIRST);
    await_some("the fenced broker", Duration::from_secs(60), || {
        (node.levada_json("broker list")[2]["fenced"] == json!(true)).then_some(())
    });
    node.levada(&format!("broker remove {THIRD}")).run();
    await_some("two brokers", LIMIT, || {
        (node.levada_json("broker list").as_array()?.len() == 2).then_some(())
    });
    if Kind::under_test() == Kind::Levada {
        let log = cluster.node(FIRST).history();
        for change in ["partition moves to replicas", "move of a partition cancelled", "broker unregistered"]
        {
            assert!(log.contains(change), "the log names each change and its principal: {change}");
        }
    }
}
