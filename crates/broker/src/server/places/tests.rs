//! The limits, reached and left again.

use std::net::IpAddr;
use std::sync::Arc;

use super::{Full, Places};
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
