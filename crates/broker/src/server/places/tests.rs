//! The limits, reached and left again.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Full, Pace, Places};
use crate::config::BrokerConfig;

#[test]
fn a_place_is_free_again_when_its_connection_has_gone() {
    let mut limits = BrokerConfig::default();
    (limits.max_connections, limits.max_connections_per_ip) = (3, 2);
    let places = Arc::new(Places::default());
    let take = |address: &str| places.take(address.parse::<IpAddr>().unwrap(), &limits);
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
fn an_address_may_have_a_limit_of_its_own() {
    let mut limits = BrokerConfig::default();
    limits.max_connections_per_ip = 1;
    limits.max_connections_of = [("10.0.0.1".parse().unwrap(), 2), ("10.0.0.2".parse().unwrap(), 0)].into();
    let places = Arc::new(Places::default());
    let take = |address: &str| places.take(address.parse::<IpAddr>().unwrap(), &limits);
    let _two = (take("10.0.0.1").unwrap(), take("::ffff:10.0.0.1").unwrap());
    assert_eq!(take("10.0.0.1").unwrap_err(), Full::Address);
    assert_eq!(take("10.0.0.2").unwrap_err(), Full::Address);
    let _one = take("10.0.0.3").unwrap();
    assert_eq!(take("10.0.0.3").unwrap_err(), Full::Address);
}

#[test]
fn a_pace_lets_a_burst_in_and_spreads_what_follows() {
    let mut pace = Pace::default();
    let start = Instant::now();
    let waits: Vec<u128> = (0..14).map(|_| pace.take(10, start).as_millis()).collect();
    assert_eq!(waits[..10], [0; 10]);
    assert_eq!(waits[10..], [100, 200, 300, 400]);
    assert_eq!(pace.take(10, start + Duration::from_secs(60)), Duration::ZERO);
}
