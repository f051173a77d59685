//! The limits, reached and left again.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levada_config::{BrokerConfig, HostPort, Listener, Protocol, Sources};

use super::{AcceptRate, ConnectionLimits, Full};

fn listener(name: &str) -> Arc<Listener> {
    let bind = HostPort { host: String::new(), port: 0 };
    Arc::new(Listener { name: name.to_owned(), bind, advertised: None, protocol: Protocol::Plaintext })
}

#[test]
fn closed_connection_frees_its_slot() {
    let mut limits = BrokerConfig::default();
    (limits.max_connections, limits.max_connections_per_ip) = (3, 2);
    let connections = Arc::new(ConnectionLimits::default());
    let take =
        |address: &str| connections.take((address.parse::<IpAddr>().unwrap(), &listener("A")), &limits);
    let first = take("10.0.0.1").unwrap();
    let second = take("::ffff:10.0.0.1").unwrap();
    assert_eq!(take("10.0.0.1").unwrap_err(), Full::Address);
    let _third = take("10.0.0.2").unwrap();
    assert_eq!(take("10.0.0.3").unwrap_err(), Full::Broker);
    drop(first);
    let _fourth = take("10.0.0.3").unwrap();
    assert_eq!(take("10.0.0.1").unwrap_err(), Full::Broker);
    drop(second);
    let _fifth = take("10.0.0.1").unwrap();
}

#[test]
fn open_connections_count_by_listener_and_address() {
    let limits = BrokerConfig::default();
    let connections = Arc::new(ConnectionLimits::default());
    let take = |address: &str, name: &str| {
        connections.take((address.parse::<IpAddr>().unwrap(), &listener(name)), &limits).unwrap()
    };
    let _open = [take("10.0.0.1", "B"), take("10.0.0.2", "A"), take("10.0.0.2", "B"), take("10.0.0.3", "A")];
    let open = connections.open(2);
    assert_eq!(open.listeners, [("A".to_owned(), 2), ("B".to_owned(), 2)]);
    assert_eq!(open.addresses, [("10.0.0.2".parse().unwrap(), 2), ("10.0.0.1".parse().unwrap(), 1)]);
    assert_eq!(open.others, 1);
}

#[test]
fn address_may_have_own_connection_limit() {
    let mut limits = BrokerConfig::default();
    limits.max_connections_per_ip = 1;
    limits.max_connections_of.addresses =
        [("10.0.0.1".parse().unwrap(), 2), ("10.0.0.2".parse().unwrap(), 0)].into();
    let connections = Arc::new(ConnectionLimits::default());
    let take =
        |address: &str| connections.take((address.parse::<IpAddr>().unwrap(), &listener("A")), &limits);
    let _two = (take("10.0.0.1").unwrap(), take("::ffff:10.0.0.1").unwrap());
    assert_eq!(take("10.0.0.1").unwrap_err(), Full::Address);
    assert_eq!(take("10.0.0.2").unwrap_err(), Full::Address);
    let _one = take("10.0.0.3").unwrap();
    assert_eq!(take("10.0.0.3").unwrap_err(), Full::Address);
}

#[test]
fn accept_rate_allows_burst_then_spreads_connections() {
    let mut rate = AcceptRate::default();
    let start = Instant::now();
    let waits: Vec<u128> = (0..14).map(|_| rate.take(10, start).as_millis()).collect();
    assert_eq!(waits[..10], [0; 10]);
    assert_eq!(waits[10..], [100, 200, 300, 400]);
    assert_eq!(rate.take(10, start + Duration::from_secs(60)), Duration::ZERO);
}

#[test]
fn inter_broker_listener_obeys_only_own_limit() {
    let limits = BrokerConfig::load(&Sources::flags([
        "listeners=EDGE://:1,INNER://:2,OTHER://:3",
        "listener.security.protocol.map=EDGE:PLAINTEXT,INNER:PLAINTEXT,OTHER:PLAINTEXT",
        "inter.broker.listener.name=INNER",
        "max.connections=3",
        "listener.name.edge.max.connections=2",
        "listener.name.inner.max.connections=2",
    ]))
    .unwrap();
    let [edge, inner, other] = ["EDGE", "INNER", "OTHER"].map(listener);
    let connections = Arc::new(ConnectionLimits::default());
    let take = |listener: &Arc<Listener>| connections.take(("10.0.0.1".parse().unwrap(), listener), &limits);
    let mut held = vec![take(&edge).unwrap(), take(&edge).unwrap()];
    assert_eq!(take(&edge).unwrap_err(), Full::Listener);
    held.push(take(&other).unwrap());
    assert_eq!(take(&other).unwrap_err(), Full::Broker);
    held.extend([take(&inner).unwrap(), take(&inner).unwrap()]);
    assert_eq!(take(&inner).unwrap_err(), Full::Listener);
    let mut freed = connections.freed();
    assert!(!freed.has_changed().unwrap());
    drop(held.drain(..2));
    assert!(freed.has_changed().unwrap());
    freed.mark_unchanged();
    assert_eq!(take(&other).unwrap_err(), Full::Broker, "those of the listener between brokers count");
    drop(held.pop());
    let _edge = take(&edge).unwrap();
}

#[test]
fn single_listener_obeys_broker_wide_limit() {
    let limits = BrokerConfig::load(&Sources::flags(["max.connections=0"])).unwrap();
    assert!(!limits.limits_of("PLAINTEXT").is_protected);
    let connections = Arc::new(ConnectionLimits::default());
    let taken = connections.take(("10.0.0.1".parse().unwrap(), &listener("PLAINTEXT")), &limits);
    assert_eq!(taken.unwrap_err(), Full::Broker);
}
