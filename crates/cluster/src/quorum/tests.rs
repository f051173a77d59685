//! Tests of `quorum`.

use super::*;

fn address(port: u16) -> Address {
    Address { host: "c".into(), port }
}

fn three() -> Quorum {
    Quorum::from_voters("1@c:1,2@c:2,3@c:3").unwrap()
}

fn asked(quorum: &Quorum) -> Option<i32> {
    quorum.target().node
}

#[test]
fn both_configurations_are_read() {
    let quorum = Quorum::from_bootstrap_servers("c:1, [::1]:2").unwrap();
    assert_eq!(quorum.target(), Target { node: None, address: address(1) });
    assert_eq!(quorum.candidates()[1].address.to_string(), "[::1]:2");
    assert!(three().is_voter(2));
    for invalid in ["", "c", "c:0", ":1", "c:70000"] {
        assert!(Quorum::from_bootstrap_servers(invalid).is_err(), "{invalid:?}");
    }
    for invalid in ["", "c:1", "-1@c:1", "x@c:1", "1@c"] {
        assert!(Quorum::from_voters(invalid).is_err(), "{invalid:?}");
    }
}

#[test]
fn voters_are_tried_until_a_leader_is_known() {
    let mut quorum = three();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(asked(&quorum).unwrap());
        quorum.failed();
    }
    seen.sort();
    assert_eq!(seen, [1, 2, 3]);
    assert_eq!(quorum.told(4, 3, None), Told::Changed);
    assert_eq!(asked(&quorum), Some(3));
}

#[test]
fn unreachable_leader_is_retried_after_other_voters() {
    let mut quorum = three();
    quorum.told(4, 2, None);
    let mut order = Vec::new();
    for _ in 0..6 {
        order.push(asked(&quorum).unwrap());
        quorum.failed();
        assert_eq!(quorum.told(4, 2, None), Told::Same);
    }
    assert_eq!(order[0], 2);
    assert_eq!(order.iter().filter(|node| **node == 2).count(), 2, "{order:?}");
    assert!(order.contains(&1) && order.contains(&3), "{order:?}");
}

#[test]
fn newer_epoch_changes_leader_and_older_is_ignored() {
    let mut quorum = three();
    quorum.told(4, 2, None);
    quorum.failed();
    assert_ne!(asked(&quorum), Some(2));
    assert_eq!(quorum.told(5, -1, None), Told::Changed);
    assert_eq!(quorum.leader(), None);
    assert_eq!(quorum.told(5, 1, None), Told::Changed);
    assert_eq!(asked(&quorum), Some(1));
    assert_eq!(quorum.told(4, 2, None), Told::Stale);
    assert_eq!(quorum.told(5, 3, None), Told::Conflict);
    assert_eq!(quorum.told(5, -1, None), Told::Same);
    assert_eq!(asked(&quorum), Some(1));
}

#[test]
fn controller_addresses_come_from_responses_and_metadata() {
    let mut quorum = Quorum::from_bootstrap_servers("c:1").unwrap();
    quorum.told(1, 7, None);
    assert_eq!(quorum.target().address, address(1), "the leader's address is not known");
    quorum.told(1, 7, Some(address(9)));
    assert_eq!(quorum.target(), Target { node: Some(7), address: address(9) });
    quorum.set_voters(BTreeMap::from([(8, address(8))]));
    assert_eq!(quorum.target(), Target { node: Some(7), address: address(9) });
    quorum.told(2, 8, None);
    assert_eq!(quorum.target(), Target { node: Some(8), address: address(8) });
    let mut unnamed = Quorum::from_bootstrap_servers("c:1,c:2").unwrap();
    unnamed.told(1, 7, None);
    unnamed.failed();
    let target = unnamed.target();
    unnamed.served(&target);
    assert_eq!(unnamed.target(), Target { node: Some(7), address: target.address });
}
