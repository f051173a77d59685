//! Description of a share group for administrators.

use super::{SHARE_ASSIGNOR, ShareGroup};
use crate::group::coordinator::{DescribedShareGroup, DescribedShareMember, ListedGroup};

impl ShareGroup {
    /// The name of the group's state.
    fn state_name(&self) -> &'static str {
        if self.members.is_empty() { "Empty" } else { "Stable" }
    }

    /// Entry in the response to ListGroups.
    pub(in crate::group) fn listed(&self) -> ListedGroup {
        ListedGroup {
            group_id: self.id.clone(),
            protocol_type: "share".to_owned(),
            state: self.state_name(),
            group_type: "share",
        }
    }

    /// Number of members, and of rebalances as the group's epoch counts them.
    pub(in crate::group) fn counts(&self) -> (usize, i32) {
        (self.members.len(), self.epoch)
    }

    /// Entry in the response to ShareGroupDescribe.
    pub(in crate::group) fn described(&self) -> DescribedShareGroup {
        let members = self.members.iter().map(|(id, member)| DescribedShareMember {
            member_id: id.clone(),
            rack_id: member.metadata.rack_id.clone(),
            epoch: member.current.epoch,
            client_id: member.metadata.client_id.clone(),
            client_host: member.metadata.client_host.clone(),
            topics: member.metadata.topics.iter().cloned().collect(),
            assigned: member.current.assigned.clone(),
        });
        DescribedShareGroup {
            group_id: self.id.clone(),
            state: self.state_name(),
            epoch: self.epoch,
            target_epoch: self.target.epoch,
            assignor: SHARE_ASSIGNOR,
            members: members.collect(),
        }
    }
}
