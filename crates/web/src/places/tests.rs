//! Places of connections, without connections.

use std::time::Duration;

use super::*;

/// The places of 16 connections: two of them are reserved.
fn places() -> Arc<Places> {
    Arc::new(Places::new(16))
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// As many connections from an address as it gets without closing another.
fn fill(places: &Arc<Places>, from: &str, now: Instant) -> Vec<Place> {
    let free = || places.take(&Requester::at(address(from)), address(from).is_loopback()).is_some();
    std::iter::from_fn(|| free().then(|| places.admit(address(from), now, GRACE))?).collect()
}

fn is_lost(place: &mut Place) -> bool {
    place.closed.try_recv().is_ok()
}

#[test]
fn one_address_gets_half_and_probes_stay_admitted() {
    let (places, now) = (places(), Instant::now());
    let mut far = fill(&places, "10.0.0.1", now);
    assert_eq!(far.len(), 7);
    let others = fill(&places, "10.0.0.2", now);
    assert_eq!(others.len(), 7);
    far.iter().chain(&others).for_each(|place| place.progress.received());
    assert!(places.admit(address("10.0.0.3"), now, GRACE).is_none(), "all are being answered");
    let _probes = [places.admit(address("127.0.0.1"), now, GRACE), places.admit(address("::1"), now, GRACE)]
        .map(|probe| probe.expect("a reserved place"));
    assert!(far.iter_mut().all(|place| !is_lost(place)));
}

#[test]
fn longest_silent_connection_is_closed_first() {
    let (places, now) = (places(), Instant::now());
    let later = |ms| now + Duration::from_millis(ms);
    let mut silent: Vec<Place> =
        (0..7).map(|at| places.admit(address("10.0.0.1"), later(at), GRACE).expect("a place")).collect();
    let mut others = fill(&places, "10.0.0.2", now);
    others.pop();
    let mut last = places.admit(address("10.0.0.3"), now, GRACE).expect("a place");
    silent[0].progress.received();
    // The address with most places gives one, although others have waited for longer.
    let _new = places.admit(address("10.0.0.4"), later(109), GRACE).expect("a place");
    assert!(is_lost(&mut silent[1]) && !is_lost(&mut silent[0]) && !is_lost(&mut last));
    silent.remove(1);
    // Then an address with fewer takes the oldest one of all, and an address with its share takes
    // one of its own.
    let _first = places.admit(address("10.0.0.1"), later(109), GRACE).expect("a place");
    let _second = places.admit(address("10.0.0.1"), later(109), GRACE).expect("a place");
    assert_eq!(others.iter_mut().filter_map(|place| is_lost(place).then_some(())).count(), 1);
    assert_eq!(silent.iter_mut().filter_map(|place| is_lost(place).then_some(())).count(), 1);
}

#[test]
fn silent_local_clients_keep_no_probe_out() {
    let (places, now) = (places(), Instant::now());
    let mut silent = fill(&places, "127.0.0.2", now);
    silent.extend(fill(&places, "127.0.0.3", now));
    assert_eq!(silent.len(), 16);
    assert!(places.admit(address("127.0.0.1"), now, GRACE).is_none(), "all may be about to send");
    let _probe = places.admit(address("127.0.0.1"), now + GRACE, GRACE).expect("a place");
    assert_eq!(silent.iter_mut().filter_map(|place| is_lost(place).then_some(())).count(), 1);
}

#[test]
fn ended_connection_frees_its_place() {
    let (places, now) = (places(), Instant::now());
    drop(fill(&places, "10.0.0.1", now));
    assert_eq!(fill(&places, "10.0.0.1", now).len(), 7);
    assert!(places.open.lock().by_id.is_empty());
}
