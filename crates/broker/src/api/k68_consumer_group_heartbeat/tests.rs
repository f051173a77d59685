//! The messages of refused heartbeats.

use super::*;

#[test]
fn assignor_and_upgrade_refusals_have_kafkas_messages() {
    let refused = Refused { kind: "consumer", group: "g", member: "m", instance: None, members_max: 1 };
    let assignor = explanation(GroupError::UnsupportedAssignor, &refused, (Some("sticky".into()), None));
    let expected = "ServerAssignor sticky is not supported. Supported assignors: uniform, range.";
    assert_eq!(assignor.as_deref(), Some(expected));
    let upgrade = explanation(GroupError::NoUpgrade("online upgrade is disabled"), &refused, (None, None));
    let expected = "Cannot upgrade classic group g to consumer group because online upgrade is disabled.";
    assert_eq!(upgrade.as_deref(), Some(expected));
    let regex = explanation(GroupError::InvalidRegularExpression, &refused, (None, Some("a(".into())));
    assert_eq!(regex.as_deref(), Some("SubscribedTopicRegex \"a(\" is not a valid regular expression."));
    assert_eq!(explanation(GroupError::NotCoordinator, &refused, (None, None)), None);
}
