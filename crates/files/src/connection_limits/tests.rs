//! Places, taken and given back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::time::timeout;

use super::{ConnectionLimits, Full};

#[test]
fn closed_connection_frees_its_place() {
    let connections = ConnectionLimits::new(3, 2);
    let one = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let same = Some(IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()));
    let other = Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    let held = [connections.take(one).unwrap(), connections.take(same).unwrap()];
    assert_eq!(connections.take(one).unwrap_err(), Full::Address);
    let third = connections.take(None).unwrap();
    assert_eq!(connections.take(other).unwrap_err(), Full::All);
    drop(third);
    drop(connections.take(other).unwrap());
    drop(held);
    assert!(connections.taken.lock().by_address.is_empty());
    assert_eq!(connections.taken.lock().total, 0);
}

#[tokio::test]
async fn simultaneously_freed_places_end_every_wait() {
    let connections = ConnectionLimits::new(2, 2);
    drop([connections.take(None).unwrap(), connections.take(None).unwrap()]);
    let mut held = Vec::new();
    for wait in [connections.freed(), connections.freed()] {
        timeout(Duration::from_secs(10), wait).await.expect("a place is free");
        held.push(connections.take(None).unwrap());
    }
    assert_eq!(connections.take(None).unwrap_err(), Full::All);
}
