//! How many connections a broker takes, and for how long it keeps one that is silent.

use std::time::Duration;

use levada_tests::Node;
use levada_tests::node::Kind;
use levada_tests::raw::{self, Connection, Outcome};

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
    // The first is served meanwhile.
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
