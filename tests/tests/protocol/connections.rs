//! Limits of connections, and the time for which a broker keeps a silent one.
//!
//! Suite: short; 2 s

use std::net::SocketAddr;
use std::time::Duration;

use levada_tests::Node;
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection, Outcome};

const SOON: Duration = Duration::from_secs(60);
const TOPIC: &str = "order";

/// Port 0 lets the system choose the port of a listener. In the advertised address it stands for
/// that port: clients could not connect to port 0.
#[test]
fn bound_ports_are_advertised_for_port_zero() {
    let mut node = Node::new().option("advertised.listeners", "PLAINTEXT://localhost:0");
    node.start();
    let brokers = node.levada_json("api Metadata")["Brokers"].clone();
    let broker = (&brokers[0]["Host"], &brokers[0]["Port"]);
    assert_eq!(broker, (&"localhost".into(), &node.address().port().into()), "{brokers}");
    node.levada("topic create order --partitions 1").run();
    assert!(node.levada("topic list").run().stdout.contains("order"));
}

/// Creates the topic that [`Waiting`] connections ask about.
fn create_topic(served: &mut Connection) {
    assert_eq!(raw::topic_error(&served.call(&raw::create_topic(TOPIC, 1))), 0);
    levada_tests::await_some("the topic", SOON, || {
        (raw::fetch_error(&served.call(&raw::fetch(TOPIC, 0, 1))) == 0).then_some(())
    });
}

/// A connection that the broker does not serve yet. It has asked for the end of the topic.
struct Waiting(Connection);

impl Waiting {
    fn at(address: SocketAddr) -> Self {
        let mut connection = Connection::open(address);
        connection.send_frame(&raw::list_end_offset(TOPIC)).expect("sent");
        Self(connection)
    }

    /// Has a connection that is served append a record while this one waits. A response to this one
    /// from before has another end.
    fn assert_waits(&mut self, served: &mut Connection) {
        assert_eq!(self.0.outcome(Duration::from_millis(100)), Outcome::Silence);
        let appended = served.call(&raw::produce(TOPIC, -1, &Batch::of(&[b"one"]).encode()));
        assert_eq!(raw::produce_error(&appended), 0);
    }

    /// Returns when it is served: the response has the end after this many records.
    fn assert_served(&mut self, end: i64) {
        let Outcome::Response(answer) = self.0.outcome(SOON) else { panic!("no answer") };
        assert_eq!(raw::listed_offset(&answer), end, "answered too early");
    }
}

#[test]
fn connections_per_ip_are_limited() {
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
fn excess_connection_waits_until_another_closes() {
    if Kind::under_test() == Kind::Kafka {
        println!(
            "left out: Kafka does not start with one connection, since it connects to its own controller"
        );
        return;
    }
    let mut node = Node::new().option("max.connections", "1");
    node.start();
    let mut first = Connection::open(node.address());
    create_topic(&mut first);
    let mut second = Waiting::at(node.address());
    second.assert_waits(&mut first);
    drop(first);
    second.assert_served(1);
    node.stop();
}

#[test]
fn waiting_connection_is_admitted_when_limit_rises() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out, like the one before");
        return;
    }
    let mut node = Node::new().option("max.connections", "1");
    node.start();
    let mut first = Connection::open(node.address());
    create_topic(&mut first);
    let mut second = Waiting::at(node.address());
    second.assert_waits(&mut first);
    first.call(&raw::alter_broker("max.connections", "2"));
    second.assert_served(1);
    node.stop();
}

#[test]
fn full_listener_does_not_affect_others() {
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
    let mut first = Connection::open(edge);
    create_topic(&mut first);
    let mut second = Waiting::at(edge);
    // The listener between brokers is open, though there are as many connections as there may be.
    let mut inner: Vec<_> = (0..3).map(|_| ask(node.address())).collect();
    for connection in &mut inner {
        assert!(matches!(connection.outcome(SOON), Outcome::Response(_)));
    }
    second.assert_waits(&mut inner[0]);
    inner.truncate(1);
    drop(first);
    second.assert_served(1);
    let mut third = Waiting::at(edge);
    third.assert_waits(&mut inner[0]);
    inner[0].call(&raw::alter_broker("listener.name.edge.max.connections", "2"));
    third.assert_served(2);
    node.stop();
}

#[test]
fn idle_connection_is_closed_and_active_one_stays() {
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
fn throttled_connection_frees_its_place_like_idle_one() {
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
