//! Places, taken and given back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Full, Places};

#[test]
fn a_place_is_free_again_when_its_connection_has_gone() {
    let places = Places::new(3, 2);
    let one = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let same = Some(IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()));
    let other = Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    let held = [places.take(one).unwrap(), places.take(same).unwrap()];
    assert_eq!(places.take(one).unwrap_err(), Full::Address);
    let third = places.take(None).unwrap();
    assert_eq!(places.take(other).unwrap_err(), Full::All);
    drop(third);
    drop(places.take(other).unwrap());
    drop(held);
    assert!(places.taken.lock().by_address.is_empty());
    assert_eq!(places.taken.lock().total, 0);
}
