//! The messages of refused heartbeats.

use super::*;

#[test]
fn assignor_and_upgrade_refusals_have_kafkas_messages() {
    let refused = Refused { kind: "consumer", group: "g", member: "m", members_max: 1 };
    let assignor = explanation(GroupError::UnsupportedAssignor, &refused, Some("sticky".into()));
    let expected = "ServerAssignor sticky is not supported. Supported assignors: uniform, range.";
    assert_eq!(assignor.as_deref(), Some(expected));
    let upgrade = explanation(GroupError::NoUpgrade("online upgrade is disabled"), &refused, None);
    let expected = "Cannot upgrade classic group g to consumer group because online upgrade is disabled.";
    assert_eq!(upgrade.as_deref(), Some(expected));
    assert_eq!(explanation(GroupError::NotCoordinator, &refused, None), None);
}
