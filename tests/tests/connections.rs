//! Limits of connections, and the time for which a broker keeps a silent one.

use std::time::Duration;

use levada_tests::Node;
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection, Outcome};

const SOON: Duration = Duration::from_secs(60);

#[test]
fn one_address_has_so_many_connections_and_no_more() {
    let mut node = Node::new().option("max.connections.per.ip", "2");
    node.start();
    let mut held: Vec<_> = (0..2).map(|_| Connection::open(node.address())).collect();
    for connection in &mut held {
        connection.call(&raw::api_versions(0));
    }
    assert_eq!(Connection::open(node.address()).outcome(SOON), Outcome::Closed);
    drop(held.pop());
    levada_tests::await_some("a place", SOON, || {
        Connection::open(node.address()).try_call(&raw::api_versions(0)).ok()
    });
    held[0].call(&raw::api_versions(0));
    node.stop();
}

#[test]
fn a_connection_too_many_waits_until_another_has_gone() {
    if Kind::under_test() == Kind::Kafka {
        println!(
            "left out: Kafka does not start with one connection, since it connects to its own controller"
        );
        return;
    }
    let mut node = Node::new().option("max.connections", "1");
    node.start();
    let mut first = Connection::open(node.address());
    first.call(&raw::api_versions(0));
    let mut second = Connection::open(node.address());
    second.send_frame(&raw::api_versions(0)).expect("sent");
    // The first is served at the same time.
    first.call(&raw::api_versions(0));
    assert_eq!(second.outcome(Duration::from_millis(100)), Outcome::Silence);
    drop(first);
    assert!(matches!(second.outcome(SOON), Outcome::Response(_)));
    node.stop();
}

#[test]
fn a_connection_too_many_is_let_in_when_there_may_be_more() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out, like the one before");
        return;
    }
    let mut node = Node::new().option("max.connections", "1");
    node.start();
    let mut first = Connection::open(node.address());
    first.call(&raw::api_versions(0));
    let mut second = Connection::open(node.address());
    second.send_frame(&raw::api_versions(0)).expect("sent");
    assert_eq!(second.outcome(Duration::from_millis(100)), Outcome::Silence);
    first.call(&raw::alter_broker("max.connections", "2"));
    assert!(matches!(second.outcome(SOON), Outcome::Response(_)));
    node.stop();
}

#[test]
fn a_listener_is_full_for_itself_alone() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: Kafka's own connections count as well");
        return;
    }
    let mut node = Node::new()
        .option("inter.broker.listener.name", "PLAINTEXT")
        .option("max.connections", "3")
        .option("listener.name.edge.max.connections", "1");
    let edge = node.listen("EDGE", "PLAINTEXT");
    node.start();
    let ask = |address| {
        let mut connection = Connection::open(address);
        connection.send_frame(&raw::api_versions(0)).expect("sent");
        connection
    };
    let mut first = ask(edge);
    assert!(matches!(first.outcome(SOON), Outcome::Response(_)));
    let mut second = ask(edge);
    // The listener between brokers is open, though there are as many connections as there may be.
    let mut inner: Vec<_> = (0..3).map(|_| ask(node.address())).collect();
    for connection in &mut inner {
        assert!(matches!(connection.outcome(SOON), Outcome::Response(_)));
    }
    assert_eq!(second.outcome(Duration::from_millis(100)), Outcome::Silence);
    inner.truncate(1);
    drop(first);
    assert!(matches!(second.outcome(SOON), Outcome::Response(_)));
    let mut third = ask(edge);
    assert_eq!(third.outcome(Duration::from_millis(100)), Outcome::Silence);
    inner[0].call(&raw::alter_broker("listener.name.edge.max.connections", "2"));
    assert!(matches!(third.outcome(SOON), Outcome::Response(_)));
    node.stop();
}

#[test]
fn a_silent_connection_is_closed_and_a_talking_one_is_not() {
    let mut node = Node::new().option("connections.max.idle.ms", "500");
    node.start();
    let mut silent = Connection::open(node.address());
    let mut halfway = Connection::open(node.address());
    halfway.send_raw(&raw::api_versions(0)[..3]).expect("sent");
    let mut talking = Connection::open(node.address());
    for connection in [&mut silent, &mut halfway] {
        let closed = levada_tests::await_some("the end of an idle connection", SOON, || {
            talking.call(&raw::api_versions(0));
            Some(connection.outcome(Duration::from_millis(20))).filter(|outcome| *outcome != Outcome::Silence)
        });
        assert_eq!(closed, Outcome::Closed);
    }
    node.stop();
}

#[test]
fn a_throttled_client_keeps_its_place_no_longer_than_a_silent_one() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: Kafka does not start with so few connections");
        return;
    }
    for hangs_up in [true, false] {
        let idle_ms = if hangs_up { "600000" } else { "500" };
        let mut node = Node::new()
            .option("auto.create.topics.enable", "true")
            .option("connections.max.idle.ms", idle_ms)
            .option("max.connections", "1");
        node.start();
        node.levada("topic create slow").run();
        node.levada("config set quota client-id producer_byte_rate=1").run();
        node.await_metadata();
        let mut throttled = Connection::open(node.address());
        let produced = throttled.call(&raw::produce("slow", 1, &Batch::of(&[&[7; 100_000]]).encode()));
        assert_eq!(raw::produce_error(&produced), 0);
        let mut next = Connection::open(node.address());
        next.send_frame(&raw::api_versions(0)).expect("sent");
        if hangs_up {
            assert_eq!(next.outcome(Duration::from_millis(100)), Outcome::Silence, "the place is taken");
            drop(throttled);
        }
        assert!(matches!(next.outcome(SOON), Outcome::Response(_)));
        node.stop();
    }
}
