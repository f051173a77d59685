//! Description of a consumer group for administrators, and validation of operations on it.

use std::collections::BTreeSet;

use super::{ConsumerGroup, Member, partitions_of};
use crate::group::coordinator::{DescribedConsumer, DescribedConsumerGroup, ListedGroup};
use crate::group::error::GroupError;
use crate::group::records::Partitions;

impl ConsumerGroup {
    /// The name of the group's state.
    pub(in crate::group) fn state(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.target_epoch {
            "Assigning"
        } else if self.members.values().all(|member| member.is_reconciled(self.target_epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// Entry in the response to ListGroups.
    pub(in crate::group) fn listed(&self) -> ListedGroup {
        ListedGroup {
            group_id: self.id.clone(),
            protocol_type: "consumer".to_owned(),
            state: self.state(),
            group_type: "consumer",
        }
    }

    /// Number of members, and of rebalances as the group's epoch counts them.
    pub(in crate::group) fn counts(&self) -> (usize, i32) {
        (self.members.len(), self.epoch)
    }

    /// Entry in the response to ConsumerGroupDescribe.
    pub(in crate::group) fn described(&self) -> DescribedConsumerGroup {
        let members = self.members.iter().map(|(id, member)| self.described_member(id, member));
        DescribedConsumerGroup {
            group_id: self.id.clone(),
            state: self.state(),
            epoch: self.epoch,
            target_epoch: self.target_epoch,
            assignor: self.assignor().to_owned(),
            members: members.collect(),
        }
    }

    fn described_member(&self, id: &str, member: &Member) -> DescribedConsumer {
        let metadata = &member.metadata;
        // As in Kafka, with the partitions that the member has yet to revoke.
        let mut assigned = Partitions::new();
        for (topic, index) in partitions_of(&member.current) {
            assigned.entry(topic).or_default().insert(index);
        }
        DescribedConsumer {
            member_id: id.to_owned(),
            instance_id: metadata.instance_id.clone(),
            rack_id: metadata.rack_id.clone(),
            epoch: member.current.epoch,
            client_id: metadata.client_id.clone(),
            client_host: metadata.client_host.clone(),
            topics: metadata.topics.iter().cloned().collect(),
            regex: metadata.regex.clone(),
            assigned,
            target: self.targets.get(id).cloned().unwrap_or_else(Partitions::new),
            is_classic: metadata.classic.is_some(),
        }
    }

    /// Checks that the group may be deleted.
    pub(in crate::group) fn validate_delete(&self) -> Result<(), GroupError> {
        if self.members.is_empty() { Ok(()) } else { Err(GroupError::NonEmptyGroup) }
    }

    /// The topics whose offsets are in use.
    pub(in crate::group) fn in_use(&self) -> BTreeSet<String> {
        self.subscribed()
    }

    /// The members, and the time that each has left to revoke partitions, if it uses the consumer
    /// protocol and must revoke any. Classic members have other limits.
    pub(in crate::group) fn watched(&self) -> impl Iterator<Item = (&str, Option<i32>)> {
        self.members.iter().map(|(id, member)| {
            let must = self.is_revoking(id) && member.metadata.classic.is_none();
            (id.as_str(), must.then_some(member.metadata.rebalance_timeout_ms))
        })
    }
}
