//! Messages in Kafka's words that heartbeats of consumer, share and streams groups have in common.

use levada_coordination::group::GroupError;

/// A heartbeat that was refused.
pub(super) struct Refused<'a> {
    /// The kind of group, as in "streams".
    pub(super) kind: &'static str,
    pub(super) group: &'a str,
    pub(super) member: &'a str,
    /// Instance id of a static member.
    pub(super) instance: Option<&'a str>,
    /// Maximum number of members of a group of this kind.
    pub(super) members_max: u32,
}

impl Refused<'_> {
    /// A message for the error's code. Kafka sends none if the client only has to find the
    /// coordinator again.
    pub(super) fn explanation(&self, error: GroupError) -> Option<String> {
        let Self { kind, group, member, members_max, .. } = self;
        let instance = self.instance.unwrap_or_default();
        match error {
            GroupError::NotCoordinator | GroupError::CoordinatorNotAvailable => None,
            GroupError::UnknownMemberId => Some(format!("Member {member} is not a member of group {group}.")),
            GroupError::GroupIdNotFound => {
                let mut name = kind.to_string();
                name[..1].make_ascii_uppercase();
                Some(format!("{name} group {group} not found."))
            }
            GroupError::GroupMaxSizeReached => {
                Some(format!("The {kind} group has reached its maximum capacity of {members_max} members."))
            }
            GroupError::FencedInstanceId => Some(format!(
                "Member {member} of group {group} is fenced: another member has its instance id {instance}."
            )),
            GroupError::UnreleasedInstanceId => Some(format!(
                "Member {member} cannot join group {group}: another member has its instance id {instance} and has not left."
            )),
            error => Some(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_group_member_and_limit() {
        let refused =
            Refused { kind: "streams", group: "g", member: "m", instance: Some("i"), members_max: 7 };
        for (error, message) in [
            (GroupError::NotCoordinator, None),
            (GroupError::UnknownMemberId, Some("Member m is not a member of group g.")),
            (GroupError::GroupIdNotFound, Some("Streams group g not found.")),
            (
                GroupError::GroupMaxSizeReached,
                Some("The streams group has reached its maximum capacity of 7 members."),
            ),
            (
                GroupError::FencedInstanceId,
                Some("Member m of group g is fenced: another member has its instance id i."),
            ),
            (
                GroupError::UnreleasedInstanceId,
                Some("Member m cannot join group g: another member has its instance id i and has not left."),
            ),
            (GroupError::InvalidRequest("MemberId can't be empty."), Some("MemberId can't be empty.")),
        ] {
            assert_eq!(refused.explanation(error).as_deref(), message);
        }
    }
}
