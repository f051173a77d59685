//! Values of `max.connections.per.ip.overrides`.

use super::HostLimits;

#[test]
fn addresses_and_names_have_limits() {
    let limits = HostLimits::parse("10.0.0.1:2, [::1]:3,::ffff:10.0.0.2:4, a.host : 5 ,a.host:6").unwrap();
    let addresses = [("10.0.0.1", 2), ("10.0.0.2", 4), ("::1", 3)];
    let addresses = addresses.map(|(address, limit)| (address.parse().unwrap(), limit));
    assert_eq!(limits, HostLimits { addresses: addresses.into(), names: [("a.host".to_owned(), 6)].into() });
    assert_eq!(HostLimits::parse(""), Some(HostLimits::default()));
    for invalid in ["a.host", "a.host:", "a.host:-1", "a.host:x", ":3", "10.0.0.1:1,b"] {
        assert_eq!(HostLimits::parse(invalid), None, "{invalid}");
    }
}
