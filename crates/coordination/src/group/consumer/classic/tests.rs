//! Admission of classic members to a consumer group.

use levada_testing::growth;

use super::*;
use crate::group::config::GroupConfig;
use crate::group::records::MemberMetadata;
use crate::group::tests::rig::Rig;

/// A group with one classic member for each list of protocols.
fn group(members: &[Vec<String>]) -> ConsumerGroup {
    let mut group = ConsumerGroup::new("g".to_owned());
    for (number, protocols) in members.iter().enumerate() {
        let classic = ClassicMember { session_timeout_ms: 10_000, protocols: named(protocols) };
        let metadata = MemberMetadata { classic: Some(classic), ..MemberMetadata::default() };
        group.apply(ConsumerRecord::Member(number.to_string(), Some(metadata)));
    }
    group
}

fn named(names: &[String]) -> Vec<Protocol> {
    names.iter().map(|name| Protocol { name: name.clone(), metadata: Bytes::new() }).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn join(protocols: &[String]) -> JoinRequest {
    JoinRequest { protocols: named(protocols), ..Rig::new(GroupConfig::default()).join("new") }
}

#[test]
fn classic_member_needs_protocol_shared_by_all() {
    let admits = |members: &[&[&str]], offered: &[&str]| {
        let members: Vec<_> = members.iter().map(|one| names(one)).collect();
        group(&members).admit(&join(&names(offered)), 100).is_ok()
    };
    assert!(admits(&[], &["range"]));
    assert!(!admits(&[], &[]));
    assert!(admits(&[&["range", "sticky"], &["sticky"]], &["range", "sticky"]));
    assert!(!admits(&[&["range"], &["sticky"]], &["range", "sticky"]), "one shared with each is not enough");
}

#[test]
fn the_cost_of_comparing_protocols_is_linear() {
    let many =
        |prefix: &str, count| (0..count).map(|number| format!("{prefix}{number:06}")).collect::<Vec<_>>();
    let growth = growth(4_000, |count| {
        let (group, request) = (group(&[many("a", count)]), join(&many("b", count)));
        move || {
            assert_eq!(group.admit(&request, 100).unwrap_err(), GroupError::InconsistentGroupProtocol);
        }
    });
    assert!(growth < 24.0, "{growth}");
}
