//! Description of a group for administrators, and validation of operations on its offsets.

use bytes::Bytes;

use super::{ClassicGroup, State};
use crate::group::coordinator::{DescribedGroup, DescribedMember, ListedGroup};
use crate::group::error::GroupError;
use crate::group::offsets::expiry::{Age, Retention};

/// The type of every classic group.
const CLASSIC: &str = "classic";

impl ClassicGroup {
    /// Entry in the response to ListGroups.
    pub(in crate::group) fn listed(&self) -> ListedGroup {
        ListedGroup {
            group_id: self.id.clone(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            state: self.state.name(),
            group_type: CLASSIC,
        }
    }

    /// Number of members, and of rebalances as the generation counts them.
    pub(in crate::group) fn counts(&self) -> (usize, i32) {
        (self.members.len(), self.generation)
    }

    /// Entry in the response to DescribeGroups.
    pub(in crate::group) fn described(&self) -> DescribedGroup {
        let protocol = self.protocol_name.as_deref().filter(|_| self.state == State::Stable);
        let members = self.members.values().map(|member| DescribedMember {
            member_id: member.id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: protocol.map_or_else(Bytes::new, |protocol| member.metadata(Some(protocol))),
            assignment: member.assignment.clone(),
        });
        DescribedGroup {
            error: None,
            is_consumer: false,
            group_id: self.id.clone(),
            state: self.state.name(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_data: protocol.unwrap_or_default().to_owned(),
            members: members.collect(),
        }
    }

    /// Checks that the group may be deleted.
    pub(in crate::group) fn validate_delete(&self) -> Result<(), GroupError> {
        match self.state {
            State::Empty => Ok(()),
            State::Dead => Err(GroupError::GroupIdNotFound),
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                Err(GroupError::NonEmptyGroup)
            }
        }
    }

    /// Checks that offsets of the group may be removed. The topics of members of other protocols
    /// are unknown.
    pub(in crate::group) fn validate_offset_delete(&self) -> Result<(), GroupError> {
        match self.state {
            State::Dead => Err(GroupError::GroupIdNotFound),
            State::Empty => Ok(()),
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                if self.is_consumer() {
                    Ok(())
                } else {
                    Err(GroupError::NonEmptyGroup)
                }
            }
        }
    }

    /// True if a member uses the topic, as far as that can be known.
    pub(in crate::group) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscribed.as_ref().map_or(self.is_consumer(), |topics| topics.contains(topic))
    }

    /// The group's offsets that may expire, and the start of their age; none while that is
    /// open.
    pub(in crate::group) fn retention(&self) -> Option<Retention<'_>> {
        let age = match (&self.protocol_type, self.state) {
            // Consumers that assign their partitions themselves show no other sign of life.
            (None, _) => Age::SinceCommit,
            (Some(_), State::Empty) => self.state_since_ms.map_or(Age::SinceCommit, Age::Since),
            (Some(_), State::Stable) if self.is_consumer() && self.subscribed.is_some() => Age::SinceCommit,
            _ => return None,
        };
        Some(Retention { age, in_use: self.subscribed.as_ref(), all_in_use: self.is_consumer() })
    }
}
