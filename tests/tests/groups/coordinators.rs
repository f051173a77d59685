//! The coordinator of a group or a transactional id follows from the number of partitions that its
//! topic has, not from the number that the configuration names for a new topic: a directory whose
//! broker gets another configuration loses nothing.
//!
//! Suite: short; 2 s

use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::raw::{Connection, Decoder, Encoder, create_topic, topic_error};
use levada_tests::{Node, await_some};

const LIMIT: Duration = Duration::from_secs(60);
const GROUPS: i64 = 40;
const IDS: i64 = 10;

fn head(api: i16, version: i16) -> Encoder {
    Encoder::default().i16(api).i16(version).i32(7).string("coordinators")
}

/// Repeats the call while the error is temporary: the coordinator loads, or its topic is being
/// made.
fn patiently<T>(
    connection: &mut Connection,
    request: &[u8],
    read: impl Fn(&mut Decoder<'_>) -> (i16, T),
) -> (i16, T) {
    await_some("an answer", LIMIT, || {
        let response = connection.call(request);
        let mut response = Decoder::new(&response);
        assert_eq!(response.i32(), 7, "correlation id");
        let (error, answer) = read(&mut response);
        (![14, 15, 16].contains(&error)).then_some((error, answer))
    })
}

fn find(connection: &mut Connection, kind: i8, key: &str) {
    let request = head(10, 1).string(key).i8(kind).done();
    let (error, ()) = patiently(connection, &request, |response| {
        response.i32();
        (response.i16(), ())
    });
    assert_eq!(error, 0, "the coordinator of {key}");
}

fn commit(connection: &mut Connection, group: &str, offset: i64) {
    commit_with(connection, group, (offset, ""));
}

fn commit_with(connection: &mut Connection, group: &str, (offset, metadata): (i64, &str)) {
    let request = head(8, 2).string(group).i32(-1).string("").i64(-1);
    let request = request.i32(1).string("t").i32(1).i32(0).i64(offset).string(metadata).done();
    let (error, ()) = patiently(connection, &request, |response| {
        assert_eq!(response.i32(), 1, "topics");
        response.string();
        assert_eq!((response.i32(), response.i32()), (1, 0), "partitions and the partition");
        (response.i16(), ())
    });
    assert_eq!(error, 0, "the commit of {group}");
}

fn committed(connection: &mut Connection, group: &str) -> (i16, i64) {
    let request = head(9, 1).string(group).i32(1).string("t").i32(1).i32(0).done();
    patiently(connection, &request, |response| {
        assert_eq!(response.i32(), 1, "topics");
        response.string();
        assert_eq!((response.i32(), response.i32()), (1, 0), "partitions and the partition");
        let offset = response.i64();
        response.string();
        (response.i16(), offset)
    })
}

/// Producer id and epoch that the transactional id gets.
fn take(connection: &mut Connection, id: &str) -> (i64, i16) {
    let request = head(22, 0).string(id).i32(60_000).done();
    let (error, owner) = patiently(connection, &request, |response| {
        response.i32();
        (response.i16(), (response.i64(), response.i16()))
    });
    assert_eq!(error, 0, "the producer id of {id}");
    owner
}

fn with_counts(node: Node, count: &str) -> Node {
    node.option("offsets.topic.num.partitions", count).option("transaction.state.log.num.partitions", count)
}

/// Groups and transactional ids exist after each change of the number of partitions in the
/// configuration.
fn carry_through(counts: [&str; 3]) {
    let mut node = with_counts(Node::new(), counts[0]);
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(topic_error(&connection.call(&create_topic("t", 1))), 0);
    find(&mut connection, 0, "g0");
    find(&mut connection, 1, "id0");
    for group in 0..GROUPS {
        commit(&mut connection, &format!("g{group}"), group);
    }
    let owners: Vec<_> = (0..IDS).map(|id| take(&mut connection, &format!("id{id}"))).collect();
    for (restarts, count) in (1..).zip(&counts[1..]) {
        node.stop();
        node = with_counts(node, count);
        node.start();
        let mut connection = Connection::open(node.address());
        for group in 0..GROUPS {
            let name = format!("g{group}");
            find(&mut connection, 0, &name);
            assert_eq!(committed(&mut connection, &name), (0, group), "{name} under {count}");
            commit(&mut connection, &name, group);
        }
        for (id, (producer_id, epoch)) in (0..IDS).zip(&owners) {
            let name = format!("id{id}");
            find(&mut connection, 1, &name);
            assert_eq!(
                take(&mut connection, &name),
                (*producer_id, epoch + restarts),
                "{name} under {count}"
            );
        }
    }
    node.stop();
}

#[test]
fn coordinator_partition_count_ignores_later_configuration() {
    carry_through(["50", "10", "100"]);
}

#[test]
fn directory_with_single_partition_coordinators_is_taken_over() {
    carry_through(["1", "50", "1"]);
}

/// An OffsetFetch (version 8) of all committed offsets of a group, which names the group this
/// number of times.
fn fetch_repeatedly(connection: &mut Connection, group: &str, times: u32) -> Vec<u8> {
    let mut request = head(9, 8).varint(0).varint(times + 1);
    for _ in 0..times {
        request = request.compact_string(group).varint(0).varint(0);
    }
    connection.call(&request.i8(0).varint(0).done())
}

/// The part of the response about a group that is named once, without the rest: the head, the
/// throttle time and the number of groups before it, the tagged fields after it.
fn answer_once(connection: &mut Connection, group: &str) -> Vec<u8> {
    let answer = fetch_repeatedly(connection, group, 1);
    answer[4 + 1 + 4 + 1..answer.len() - 1].to_vec()
}

#[test]
fn offset_fetch_returns_each_repetition_of_a_group() {
    let mut node = Node::started();
    let mut connection = Connection::open(node.address());
    assert_eq!(topic_error(&connection.call(&create_topic("t", 1))), 0);
    find(&mut connection, 0, "g");
    commit(&mut connection, "g", 5);
    let once = answer_once(&mut connection, "g");
    let thrice = fetch_repeatedly(&mut connection, "g", 3);
    assert_eq!(thrice[4 + 1 + 4 + 1..thrice.len() - 1], once.repeat(3));
    node.stop();
}

#[test]
fn offset_fetch_repetitions_are_limited_to_two_megabytes() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka answers with gigabytes");
    }
    const TIMES: u32 = 20_000;
    let mut node = Node::started();
    let mut connection = Connection::open(node.address());
    assert_eq!(topic_error(&connection.call(&create_topic("t", 1))), 0);
    find(&mut connection, 0, "g");
    commit_with(&mut connection, "g", (5, &"m".repeat(4_000)));
    let once = answer_once(&mut connection, "g");
    assert!(once.len() > 4_000, "the metadata comes back");
    let answer = fetch_repeatedly(&mut connection, "g", TIMES);
    let refused = Encoder::default().compact_string("g").varint(1).i16(42).varint(0).done();
    let groups = &answer[4 + 1 + 4 + 3..answer.len() - 1];
    let told = (groups.len() - TIMES as usize * refused.len()) / (once.len() - refused.len());
    assert!((400..600).contains(&told), "{told} answers of {} bytes", once.len());
    let (answered, rest) = groups.split_at(told * once.len());
    assert_eq!(answered, once.repeat(told));
    assert_eq!(rest, refused.repeat(TIMES as usize - told), "INVALID_REQUEST from there on");
    node.stop();
}
