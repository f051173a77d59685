//! Tests of the memory for routes.

use std::net::Ipv4Addr;

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_route_that_copies_rests_and_is_tried_again() {
    let mut routes = Routes::new(at(60));
    assert!(routes.may_refer(HERE, at(0)));
    routes.report(HERE, true, at(10));
    assert!(!routes.may_refer(HERE, at(10)));
    assert!(!routes.may_refer(HERE, at(69)));
    assert!(routes.may_refer(THERE, at(10)));
    assert!(routes.may_refer(HERE, at(70)));
    routes.report(HERE, true, at(71));
    assert!(!routes.may_refer(HERE, at(130)));
    // A cable was plugged in.
    routes.report(HERE, false, at(80));
    assert!(routes.may_refer(HERE, at(81)));
}

#[test]
fn loopback_is_not_even_tried() {
    let routes = Routes::default();
    assert!(!routes.may_refer(IpAddr::V4(Ipv4Addr::LOCALHOST), at(0)));
    assert!(!routes.may_refer(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), at(0)));
}

#[test]
fn it_does_not_grow_without_end() {
    let mut routes = Routes::default();
    for number in 0..300_u32 {
        routes.report(IpAddr::V4(Ipv4Addr::from_bits(number)), true, at(u64::from(number)));
    }
    assert_eq!(routes.copying.len(), ROUTES);
    assert!(!routes.may_refer(IpAddr::V4(Ipv4Addr::from_bits(299)), at(300)));
}
