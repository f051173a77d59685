//! Addresses that share turns.

use super::*;

#[test]
fn ipv6_requester_is_identified_by_network_prefix() {
    let at = |address: &str| Requester::at(address.parse().unwrap());
    assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
    assert_ne!(at("10.0.0.2"), at("10.0.0.1"));
    assert_eq!(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff::"));
    assert_ne!(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
    assert_ne!(at("::1"), at("::"));
}
