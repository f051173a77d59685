//! The commands for a running cluster: offsets, settings, groups, transactions. The tests check
//! JSON, as scripts do; `LEVADA_TEST_NODE=kafka` runs the same commands against a real Kafka.
//!
//! Suite: short; 9 s; needs java, python

use std::process::{Command, Stdio};
use std::time::Duration;

use levada_tests::raw::{Batch, Connection, Decoder, Encoder, produce_error};
use levada_tests::tool::Conversation;
use levada_tests::{Node, Tool, await_some, paths};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

/// A topic with this many records in each of its partitions.
fn filled(node: &Node, topic: &str, partitions: usize, count: usize) {
    node.levada(&format!("topic create {topic} --partitions {partitions}")).run();
    let mut fill = Tool::python("fill.py");
    fill.args([&node.bootstrap(), topic, &partitions.to_string(), "0", &count.to_string()]).run();
}

/// Fails unless the command ends with this code, prints nothing on stdout and this on stderr.
fn refused(node: &Node, line: &str, code: i32, expected: &str) {
    let (ended, said) = node.levada(line).outcome();
    assert_eq!(ended, Some(code), "{line}: {said:?}");
    assert!(said.stdout.is_empty() && said.stderr.contains(expected), "{line}: {said:?}");
}

/// Repeats the command until the response is this one: a Kafka broker applies a change a little
/// after its response.
fn await_json(node: &Node, line: &str, pointer: &str, expected: &Value) {
    let mut last = Value::Null;
    await_some(&format!("{expected} at {pointer} of {line}"), LIMIT, || {
        last = node.levada_json(line);
        (last.pointer(pointer).unwrap_or(&Value::Null) == expected).then_some(())
    });
}

#[test]
fn offsets_command_lists_every_kind() {
    let node = Node::started();
    filled(&node, "dated", 2, 10);
    let rows = node.levada_json("offsets dated --at 2020-01-01");
    for (partition, row) in rows.as_array().expect("rows").iter().enumerate() {
        let place = (&row["topic"], &row["partition"], &row["earliest"], &row["latest"]);
        assert_eq!(place, (&json!("dated"), &json!(partition), &json!(0), &json!(10)));
        assert_eq!(row["at"]["offset"], 0, "{row}");
        assert!(row["max_timestamp"]["timestamp_ms"].as_i64() >= row["at"]["timestamp_ms"].as_i64(), "{row}");
    }
    let newest = rows[1]["max_timestamp"]["timestamp_ms"].as_i64().expect("a timestamp");
    let later = node.levada_json(&format!("offsets dated -p 1 --at {}", newest + 1));
    assert_eq!((later.as_array().map(Vec::len), &later[0]["at"]), (Some(1), &Value::Null), "{later}");
    let table = node.levada("offsets").run().stdout;
    let first = table.lines().nth(1).expect("a row");
    assert!(first.starts_with("dated          0         0      10 "), "numbers are aligned: {table}");
    refused(&node, "offsets nothing", 1, "levada topic list");
    refused(&node, "offsets dated -p 2", 2, "it has 2, numbered from 0");
    refused(&node, "offsets dated --at yesterday", 2, "expected a time such as");
}

#[test]
fn levels_of_features_change_with_a_note() {
    let node = Node::started();
    let level = |described: &Value| {
        let rows = described.as_array().expect("rows");
        let row = rows.iter().find(|row| row["feature"] == "transaction.version").expect("a feature");
        (row["level"].as_i64(), row["lowest"].as_i64(), row["highest"].as_i64())
    };
    let described = || level(&node.levada_json("cluster features describe"));
    assert_eq!(described(), (Some(2), Some(0), Some(2)));
    let lowered = "cluster features downgrade transaction.version=1";
    let said = node.levada(&format!("{lowered} --dry-run")).run().stderr;
    assert_eq!(said.trim(), "would change transaction.version from 2 to 1");
    assert_eq!(described().0, Some(2), "a dry run changes nothing");
    node.levada(lowered).run();
    await_some("the lower level", LIMIT, || (described().0 == Some(1)).then_some(()));
    refused(&node, "cluster features upgrade transaction.version=0", 1, "downgrade transaction.version=0");
    refused(&node, "cluster features upgrade transaction.version=9", 1, "INVALID_UPDATE_VERSION");
    refused(&node, "cluster features upgrade flavour.version=1", 1, "levada cluster features describe");
    refused(&node, "cluster features upgrade transaction.version", 2, "share.version=1");
    let said = node.levada("cluster features upgrade transaction.version=2 group.version=1").run().stderr;
    assert!(said.contains("group.version already has level 1"), "{said}");
    let said = node.levada("cluster features upgrade metadata.version=4.3-IV0").run().stderr;
    assert!(said.contains("metadata.version already has level 30 (4.3-IV0)"), "{said}");
    await_some("the former level", LIMIT, || (described().0 == Some(2)).then_some(()));
}

#[test]
fn topics_grow_and_change() {
    let mut node = Node::started();
    node.levada("topic create grown --partitions 1").run();
    refused(&node, "topic alter grown", 2, "nothing to change");
    refused(&node, "topic alter grown -c flavour=sweet", 1, "flavour");
    node.levada("topic alter grown -p 3 -c retention.ms=5000 --dry-run").run();
    let before = node.levada_json("topic describe grown");
    assert_eq!(before[0]["partitions"].as_array().map(Vec::len), Some(1), "a dry run changes nothing");
    node.levada("topic alter grown -p 3 -c retention.ms=5000 -c cleanup.policy+=compact").run();
    let own = |described: &Value, key: &str| {
        let settings = described[0]["settings"].as_array().expect("settings");
        settings.iter().find(|one| one["key"] == key).map(|one| (one["value"].clone(), one["source"].clone()))
    };
    await_json(&node, "topic describe grown", "/0/partitions/2/end_offset", &json!(0));
    let described = node.levada_json("topic describe grown");
    assert_eq!(own(&described, "retention.ms"), Some((json!("5000"), json!("topic"))));
    assert_eq!(own(&described, "cleanup.policy"), Some((json!("delete,compact"), json!("topic"))));
    assert_eq!(own(&described, "segment.bytes"), None, "has its default");
    assert!(own(&node.levada_json("topic describe grown --all"), "segment.bytes").is_some());
    refused(&node, "topic alter grown -p 2", 1, "INVALID_PARTITIONS");
    refused(&node, "topic describe nothing", 1, "UNKNOWN_TOPIC_OR_PARTITION");
    node.levada("topic alter grown --delete-config retention.ms").run();
    node.restart();
    await_json(&node, "config get topic grown retention.ms", "/0/settings/0/source", &json!("default"));
}

#[test]
fn settings_of_topics_brokers_and_clients() {
    let node = Node::started();
    node.levada("topic create set").run();
    node.levada("config set topic set max.message.bytes=2000 cleanup.policy+=compact").run();
    node.levada("config set broker default log.segment.bytes=3000000").run();
    node.levada("config set broker 1 log.segment.bytes=2000000").run();
    await_json(
        &node,
        "config get broker 1 log.segment.bytes",
        "/0/settings/0/source",
        &json!("dynamic-broker"),
    );
    let segment = node.levada_json("config get topic set segment.bytes");
    let layers: Vec<_> = segment[0]["settings"][0]["synonyms"].as_array().expect("layers").iter().collect();
    let layers: Vec<_> = layers.iter().map(|one| (one["value"].as_str(), one["source"].as_str())).collect();
    let expected = [
        (Some("2000000"), Some("dynamic-broker")),
        (Some("3000000"), Some("dynamic-default")),
        (Some("1073741824"), Some("default")),
    ];
    assert_eq!(layers, expected);
    let all = node.levada_json("config get topic");
    assert_eq!((&all[0]["kind"], &all[0]["name"]), (&json!("topic"), &json!("set")), "{all}");
    node.levada("config delete topic set max.message.bytes").run();
    await_json(&node, "config get topic set max.message.bytes", "/0/settings/0/source", &json!("default"));

    node.levada("config set quota user=alice,client-id=import producer_byte_rate=1000").run();
    node.levada("config set quota client-id consumer_byte_rate=2000").run();
    await_json(&node, "config get quota client-id", "/0/settings/0/value", &json!("2000"));
    let quotas = node.levada_json("config get quota");
    let names: Vec<_> = quotas.as_array().expect("quotas").iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [Some("client-id"), Some("user=alice,client-id=import")]);
    node.levada("config delete quota client-id consumer_byte_rate").run();
    await_json(&node, "config get quota", "/0/name", &json!("user=alice,client-id=import"));

    refused(&node, "config set topic set flavour=sweet", 1, "flavour");
    refused(&node, "config get topic set flavour", 1, "has no setting flavour");
    refused(&node, "config get topic nothing", 1, "UNKNOWN_TOPIC_OR_PARTITION");
    refused(&node, "config get broker 7", 1, "no broker 7");
    refused(&node, "config get broker all", 2, "expected a broker's number, or default");
    refused(&node, "config set broker 1 node.id=2", 1, "node.id");
    refused(&node, "config set quota alice producer_byte_rate=1", 2, "names no client");
    refused(&node, "config set quota user=alice producer_byte_rate=fast", 2, "expected a number");
}

/// The response to a ConsumerGroupHeartbeat 1 of a member of the group `paced`: its epoch and the
/// interval.
fn beat(node: &Node, epoch: i32) -> (i32, i32) {
    const MEMBER: &str = "member-of-22-character";
    let head = Encoder::default().i16(68).i16(1).i32(7).string("raw").varint(0);
    let member =
        head.compact_string("paced").compact_string(MEMBER).i32(epoch).varint(0).varint(0).i32(30_000);
    let topics = member.varint(2).compact_string("set").varint(0).varint(0);
    let request = topics.varint(if epoch == 0 { 1 } else { 0 }).varint(0).done();
    let response = Connection::open(node.address()).call(&request);
    let after = response.windows(MEMBER.len()).position(|window| window == MEMBER.as_bytes());
    let numbers = &response[after.unwrap_or_else(|| panic!("refused: {response:?}")) + MEMBER.len()..];
    let mut numbers = Decoder::new(numbers);
    (numbers.i32(), numbers.i32())
}

#[test]
fn a_group_sets_its_own_heartbeat_interval() {
    let mut node = Node::started();
    node.levada("topic create set --partitions 1").run();
    refused(&node, "config set group paced consumer.heartbeat.interval.ms=1", 1, "min.heartbeat.interval.ms");
    refused(&node, "config set group paced retention.ms=1", 1, "Unknown group config name");
    // The coordinator may still be starting.
    node.levada("group reset paced --topic set --to-latest --execute").run();
    let (epoch, interval) = beat(&node, 0);
    assert_eq!(interval, 5_000);
    let await_interval = |node: &Node, expected: i32| {
        let interval = || (beat(node, epoch).1 == expected).then_some(());
        await_some("the new interval", LIMIT, interval);
    };
    node.levada("config set group paced consumer.heartbeat.interval.ms=6000").run();
    await_interval(&node, 6_000);
    assert_eq!(node.levada_json("config get group")[0]["settings"][0]["value"], "6000");
    node.restart();
    await_json(&node, "group describe paced", "/0/members/0/epoch", &json!(epoch));
    await_interval(&node, 6_000);
    node.levada("config delete group paced consumer.heartbeat.interval.ms").run();
    await_interval(&node, 5_000);
    assert_eq!(node.levada_json("config get group"), json!([]));
}

fn reader(node: &Node, group: &str, protocol: &str) -> Conversation {
    let mut tool = Tool::python("reader.py");
    let mut reader = tool.args([&node.bootstrap(), group, "clicks", "10", protocol]).spawn();
    assert_eq!(reader.line(LIMIT), "committed");
    reader
}

fn leave(mut reader: Conversation) {
    reader.say("leave");
    reader.finish(LIMIT);
}

#[test]
fn groups_of_both_kinds_are_described_and_reset() {
    let mut node = Node::started();
    filled(&node, "clicks", 1, 30);
    for protocol in ["classic", "consumer"] {
        let reader = reader(&node, protocol, protocol);
        let listed = node.levada_json(&format!("group list --type {protocol} --state stable"));
        assert_eq!(listed[0]["group"], protocol, "{listed}");
        let described = node.levada_json(&format!("group describe {protocol}"));
        let group = &described[0];
        assert_eq!((&group["type"], &group["state"]), (&json!(protocol), &json!("Stable")), "{group}");
        let member = &group["members"][0];
        assert_eq!((&member["client_id"], &member["host"]), (&json!("reader"), &json!("127.0.0.1")));
        assert_eq!(member["partitions"], json!([{ "topic": "clicks", "partition": 0 }]), "{member}");
        assert_eq!((&group["lag"], &group["partitions"][0]["lag"]), (&json!(20), &json!(20)), "{group}");
        assert_eq!(group["partitions"][0]["member"], member["id"]);

        let reset = format!("group reset {protocol} --topic clicks --to-earliest --execute");
        refused(&node, &reset, 1, "is Stable with 1 member");
        refused(&node, &format!("group delete {protocol}"), 1, "NON_EMPTY_GROUP");
        leave(reader);
        await_json(&node, &format!("group describe {protocol}"), "/0/state", &json!("Empty"));
        check_resets(&node, protocol);
    }
    node.restart();
    await_json(&node, "group describe consumer", "/0/lag", &json!(30));
    node.levada("group delete consumer --topic clicks").run();
    await_json(&node, "group describe consumer", "/0/partitions", &json!([]));
    node.levada("group delete classic consumer").run();
    refused(&node, "group describe classic", 1, "GROUP_ID_NOT_FOUND");
    refused(&node, "group delete classic", 1, "levada group list");
}

/// Moves the offset of an idle group from 10, and leaves it at the start.
fn check_resets(node: &Node, group: &str) {
    let reset = |how: &str| node.levada_json(&format!("group reset {group} --topic clicks {how}"));
    let plan = reset("--to-latest");
    let expected = json!({
        "group": group,
        "executed": false,
        "partitions": [{ "topic": "clicks", "partition": 0, "committed": 10, "new": 30 }],
    });
    assert_eq!(plan, expected);
    let new = |plan: &Value| plan["partitions"][0]["new"].clone();
    for (how, expected) in [
        ("--shift-by -3", 7),
        ("--shift-by 100", 30),
        ("--to-offset 4", 4),
        ("--to-offset 99", 30),
        ("--to-datetime 2020-01-01", 0),
        ("--to-datetime 2100-01-01T00:00:00Z", 30),
        ("--by-duration 1d", 0),
        ("--by-duration PT0S", 30),
    ] {
        assert_eq!(new(&reset(how)), expected, "{how}");
    }
    let lag = || node.levada_json(&format!("group describe {group}"))[0]["lag"].clone();
    assert_eq!(lag(), 20, "plans change nothing");
    assert_eq!(reset("--to-offset 4 --execute")["executed"], true);
    assert_eq!(lag(), 26);
    let all = node.levada_json(&format!("group reset {group} --all-topics --to-earliest --execute"));
    assert_eq!(all["partitions"][0]["committed"], 4, "{all}");
    assert_eq!(lag(), 30);
    refused(node, &format!("group reset {group} --topic nothing --to-latest"), 1, "nothing");
    refused(node, &format!("group reset {group} --topic clicks:1 --to-latest"), 2, "has no partition 1");
    refused(node, &format!("group reset {group} --topic clicks"), 2, "--to-earliest");
    refused(node, &format!("group reset {group} --to-latest"), 2, "--topic");
    refused(
        node,
        &format!("group reset {group} --topic clicks --to-latest --shift-by 1"),
        2,
        "cannot be used",
    );
}

#[test]
fn a_transaction_is_listed_described_and_aborted() {
    let node = Node::started();
    node.levada("topic create ledger --partitions 1").run();
    let mut tool = Tool::python("open_transaction.py");
    let mut producer = tool.args([&node.bootstrap(), "payments", "ledger"]).spawn();
    assert_eq!(producer.line(LIMIT), "open");
    let listed = node.levada_json("transaction list --state ongoing");
    assert_eq!((&listed[0]["id"], &listed[0]["state"]), (&json!("payments"), &json!("Ongoing")), "{listed}");
    assert_eq!(node.levada_json("transaction list --older-than 1h"), json!([]));
    let described = node.levada_json("transaction describe payments");
    assert_eq!(described[0]["partitions"], json!([{ "topic": "ledger", "partition": 0 }]), "{described}");
    assert!(described[0]["duration_ms"].as_i64() >= Some(0), "{described}");
    assert_eq!(
        node.levada_json("transaction hanging --older-than 0s"),
        json!([]),
        "its coordinator knows it"
    );
    let ends = |line: &str| node.levada_json(line)[0]["latest"].clone();
    assert_eq!((ends("offsets ledger"), ends("offsets ledger --committed")), (json!(2), json!(0)));

    node.levada("transaction abort payments").run();
    await_json(&node, "offsets ledger --committed", "/0/latest", &json!(3));
    producer.say("commit");
    assert_eq!(producer.line(LIMIT), "fenced");
    producer.finish(LIMIT);
    refused(&node, "transaction describe nobody", 1, "TRANSACTIONAL_ID_NOT_FOUND");
    refused(&node, "transaction abort nobody", 1, "levada transaction list");
    refused(&node, "transaction list --state happy", 2, "expected Empty, Ongoing");
    refused(&node, "transaction abort", 2, "<ID>");
    refused(&node, "transaction abort --topic ledger -p 0", 2, "--start-offset");
}

#[test]
fn committed_offset_search_ignores_open_transactions() {
    let node = Node::started();
    node.levada("topic create ledger --partitions 1").run();
    let mut tool = Tool::python("open_transaction.py");
    let mut producer = tool.args([&node.bootstrap(), "payments", "ledger"]).spawn();
    assert_eq!(producer.line(LIMIT), "open");
    let committed = node.levada_json("offsets ledger --committed --at 2020-01-01");
    assert_eq!((&committed[0]["max_timestamp"], &committed[0]["at"]), (&Value::Null, &Value::Null));
    let all = node.levada_json("offsets ledger --at 2020-01-01");
    assert_eq!(all[0]["at"]["offset"], 0);
}

/// Opens a transaction that no coordinator has, as a lost request once left behind.
fn hang(node: &Node) {
    const TRANSACTIONAL: i16 = 0x10;
    let batch = Batch { producer: (4711, 0, 0), attributes: TRANSACTIONAL, ..Batch::of(&[b"one"]) }.encode();
    let head = Encoder::default().i16(0).i16(8).i32(7).string("raw").string("lost").i16(-1).i32(5_000);
    let request = head.i32(1).string("ledger").i32(1).i32(0).bytes(&batch).done();
    let response = Connection::open(node.address()).call(&request);
    assert_eq!(produce_error(&response), 0);
}

#[test]
fn hanging_transactions_are_found_and_ended() {
    let mut node = Node::new().option("transaction.partition.verification.enable", "false");
    node.start();
    node.levada("topic create ledger --partitions 1").run();
    // The coordinator's own topic comes with the first transactional id.
    Tool::python("open_transaction.py").args([&node.bootstrap(), "first", "ledger"]).spawn().line(LIMIT);
    node.levada("transaction abort first").run();
    await_json(&node, "offsets ledger --committed", "/0/latest", &json!(3));
    hang(&node);
    let found = node.levada_json("transaction hanging --topic ledger");
    let expected = json!([{
        "topic": "ledger",
        "partition": 0,
        "producer_id": 4711,
        "producer_epoch": 0,
        "coordinator_epoch": -1,
        "start_offset": 3,
        "last_ms": 1_700_000_000_000_i64,
    }]);
    assert_eq!(found, expected);
    refused(&node, "transaction abort --topic ledger -p 0 --start-offset 1", 1, "no open transaction begins");
    node.levada("transaction abort --topic ledger -p 0 --start-offset 3").run();
    await_json(&node, "offsets ledger --committed", "/0/latest", &json!(5));
    assert_eq!(node.levada_json("transaction hanging"), json!([]));
}

/// The fields of a JSON value, with those of the first entry of each array.
fn shape(value: &Value) -> String {
    match value {
        Value::Array(entries) => format!("[{}]", entries.first().map(shape).unwrap_or_default()),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| match shape(value).as_str() {
                "" => name.clone(),
                inner => format!("{name}:{inner}"),
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(" "))
        }
        _ => String::new(),
    }
}

#[test]
fn json_has_the_fields_that_the_documentation_promises() {
    const SETTING: &str = "{key read_only sensitive source synonyms:[{key source value}] value}";
    const BROKERS: &str = "[{bytes fenced free_bytes host id leaders out_of_sync port rack replicas}]";
    const PARTITIONS: &str = "[{bytes in_sync:[] internal leader leader_epoch offline_replicas:[] partition \
                              replicas:[] topic}]";
    const DIRECTORIES: &str = "{directories:[{broker bytes copies cordoned directory error free_bytes partitions \
                               total_bytes}] largest:[{broker bytes directory partition topic}]}";
    const QUORUM: &str = "{epoch high_watermark leader nodes:[{addresses:[] directory_id end_offset id lag \
                          last_caught_up_ms last_fetch_ms role}]}";
    let node = Node::started();
    filled(&node, "clicks", 1, 20);
    let reader = reader(&node, "readers", "consumer");
    node.levada("topic create ledger --partitions 1").run();
    let mut tool = Tool::python("open_transaction.py");
    let mut producer = tool.args([&node.bootstrap(), "payments", "ledger"]).spawn();
    assert_eq!(producer.line(LIMIT), "open");
    let topic = format!(
        "[{{durability id internal name partitions:[{{end_offset in_sync:[] leader leader_epoch partition replicas:[] \
         start_offset}}] settings:[{SETTING}]}}]"
    );
    for (line, expected) in [
        ("topic list", "[{bytes internal name partitions replicas}]"),
        ("cluster info", "{brokers:[{host id port rack}] bytes controller id partitions topics}"),
        ("cluster brokers", BROKERS),
        ("broker list", BROKERS),
        ("partition list", PARTITIONS),
        ("logdirs --largest 1", DIRECTORIES),
        ("cluster quorum describe", QUORUM),
        ("cluster health", "{healthy problems:[]}"),
        ("group export readers", "[{group offset partition topic}]"),
        ("topic describe clicks --all", &topic),
        (
            "offsets clicks --at 2020-01-01",
            "[{at:{offset timestamp_ms} earliest latest max_timestamp:{offset timestamp_ms} partition topic}]",
        ),
        ("group list", "[{coordinator group protocol_type state type}]"),
        ("group list --lag", "[{coordinator group lag members protocol_type state type}]"),
        (
            "group describe readers",
            "[{assignor coordinator epoch group lag members:[{client_id epoch host id instance_id \
             lag partitions:[{partition topic}] topic_regex topics:[]}] partitions:[{client_id committed \
             committed_leader_epoch end lag member metadata partition topic}] protocol_type state type}]",
        ),
        (
            "group reset others --topic clicks --to-latest",
            "{executed group partitions:[{committed new partition topic}]}",
        ),
        ("transaction list", "[{coordinator id producer_id state}]"),
        (
            "transaction describe payments",
            "[{coordinator duration_ms id partitions:[{partition topic}] producer_epoch producer_id \
             started_ms state timeout_ms}]",
        ),
        ("config get broker 1", &format!("[{{kind name settings:[{SETTING}]}}]")),
    ] {
        assert_eq!(shape(&node.levada_json(line)), expected, "{line}");
    }
    let json = |words: [&str; 4]| {
        let said = Tool::levada().args(words).run().stdout;
        shape(&serde_json::from_str(&said).expect("JSON"))
    };
    assert_eq!(json(["config", "show", "--output", "json"]), "[{doc key origin value}]");
    let doctor = "{capabilities:[{name remedy why works}] congestion_control directory kernel large_fetches_use \
                  thresholds:{bytes:{pipe_bytes registered_send_bytes small_extent_bytes zero_copy_send_bytes} file wrong}}";
    assert_eq!(json(["doctor", "--dir=.", "--output", "json"]), doctor);
    leave(reader);
}

#[test]
fn failed_commands_write_only_to_stderr() {
    let node = Node::started();
    for (line, expected) in [
        ("group", "Usage"),
        ("group describe", "<GROUP>"),
        ("group list --state happy", "expected PreparingRebalance"),
        ("group list --type modern", "expected classic, consumer"),
        ("group reset g --topic t: --to-latest", "TOPIC:0,2"),
        ("group reset g --topic t --by-duration long", "expected a duration such as"),
        ("config get", "<KIND>"),
        ("config get planet", "possible values"),
        ("config set topic t retention.ms", "expected KEY=VALUE"),
        ("config delete topic t", "<KEY>"),
        ("topic alter t -p 0", "0 is not in 1.."),
        ("offsets --output yaml", "[possible values: table, json]"),
    ] {
        refused(&node, line, 2, expected);
    }
    let (code, said) = Tool::levada().args(["topic", "list", "--brokers", "127.0.0.1:1"]).outcome();
    assert_eq!(code, Some(1));
    assert!(
        said.stderr.contains("cannot connect to 127.0.0.1:1") && said.stderr.contains("try: "),
        "{said:?}"
    );
}

#[test]
fn api_command_sends_any_request() {
    let node = Node::started();
    node.levada("topic create clicks --partitions 3").run();
    let listed = node.levada_json("api list");
    let metadata = listed.as_array().expect("APIs").iter().find(|api| api["name"] == "Metadata");
    assert_eq!(metadata.expect("offered")["shared"], json!({"min": 0, "max": 13}), "{listed}");
    for api in listed.as_array().expect("APIs") {
        assert!(api["client"].is_object(), "every API of the broker is known: {api}");
    }
    for version in [1, 9, 12, 13] {
        let line = format!("api Metadata {{\"Topics\":null}} --version {version}");
        let answer = node.levada_json(&line);
        let topic = &answer["Topics"][0];
        let partitions = topic["Partitions"].as_array().map(Vec::len);
        assert_eq!((&topic["Name"], partitions), (&json!("clicks"), Some(3)), "{version}: {answer}");
    }
    let template = node.levada_json("api ListOffsets --template");
    assert!(template["Topics"][0]["Partitions"][0]["PartitionIndex"].is_i64(), "{template}");
    let id = node.levada_json("api Metadata")["ClusterId"].clone();
    assert_eq!(node.levada_json("api DescribeCluster")["ClusterId"], id);
}

#[test]
fn layout_table_matches_the_kafka_jar() {
    let mut libs = std::fs::read_dir(paths::kafka_libs()).expect("Kafka's jars").flatten();
    let jar = libs.find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.strip_prefix("kafka-clients-").is_some_and(|rest| !rest.contains("test"))
    });
    let jar = jar.expect("the clients' jar").path().display().to_string();
    let printed = Tool::python("layouts.py").arg(&jar).run().stdout;
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/wire/src/json/layouts.txt");
    let kept = std::fs::read_to_string(kept).expect("the table");
    let differing = printed.lines().zip(kept.lines()).find(|(printed, kept)| printed != kept);
    assert_eq!((differing, printed.len()), (None, kept.len()), "tests/python/layouts.py prints it");
}

#[test]
fn sizes_are_omitted_when_broker_is_unreachable() {
    // The broker advertises an address at which no socket listens.
    let mut node = Node::new().option("advertised.listeners", "PLAINTEXT://127.0.0.1:1");
    node.start();
    node.levada("topic create clicks --partitions 1").run();
    for (line, size) in [("topic list", "/0/bytes"), ("cluster info", "/bytes")] {
        assert_eq!(node.levada_json(line).pointer(size), Some(&Value::Null), "{line}");
        let said = node.levada(line).run();
        assert!(said.stderr.contains("warning: sizes on broker 1 are not known: "), "{line}: {said:?}");
        let shown = if line == "topic list" { "clicks           1         1  -" } else { "Size        -" };
        assert!(said.stdout.contains(shown), "{line}: {said:?}");
    }
}

#[test]
fn closed_output_pipe_is_no_error() {
    let mut command = Command::new(paths::binary());
    command.args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("an end");
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn closed_stderr_is_no_failure() {
    let mut command = Command::new(paths::binary());
    command.args(["topic", "list", "--brokers", "127.0.0.1:1"]).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    drop(child.stderr.take());
    // No broker listens there: 1 is the code of that failure, 101 that of a panic.
    assert_eq!(child.wait().expect("an end").code(), Some(1));
}

#[test]
fn doctor_checks_cluster_before_broker_replacement() {
    let node = Node::started();
    node.levada("topic create alone").run();
    let report = node.levada_json("doctor --cluster");
    let checks = report["checks"].as_array().expect("checks");
    let single = checks.iter().find(|check| check["name"] == "single replicas").expect("a check");
    assert_eq!((&report["replaceable"], &single["verdict"]), (&json!(true), &json!("warning")), "{report}");
    assert!(single["found"].as_str().expect("a text").contains("alone-0"), "{single}");
    let file = node.scratch().join("other.properties");
    std::fs::write(&file, "process.roles=broker,controller\nnode.id=7\n").expect("a file");
    let (code, said) = node.levada(&format!("doctor --cluster --config {}", file.display())).outcome();
    assert_eq!(code, Some(1), "{said:?}");
    for (check, verdict) in [("role ", " blocked "), ("broker ", " warning ")] {
        let is_told = |line: &str| line.starts_with(check) && line.contains(verdict);
        assert!(said.stdout.lines().any(is_told), "{check}: {}", said.stdout);
    }
    assert!(
        said.stdout.ends_with("Resolve the blocked checks before you replace a broker.\n"),
        "{}",
        said.stdout
    );
    let sample = node.levada_json("doctor --cluster --watch");
    assert_eq!(
        (&sample["complete"], &sample["brokers"][0]["leaders"]),
        (&json!(true), &json!(1)),
        "{sample}"
    );
    refused(&node, "doctor", 2, "need --cluster");
}
