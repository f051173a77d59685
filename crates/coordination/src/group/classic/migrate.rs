//! Conversion of a classic group into a consumer group, and the reverse.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::member::Member;
use super::{ClassicGroup, State};
use crate::group::embedded;
use crate::group::error::GroupError;
use crate::group::records::{ClassicMember, MemberMetadata, Partitions, Record};
use crate::group::topics::Topics;
use crate::group::turn::{PendingWrite, StepContext};

/// A member that moves from one kind of group to the other.
#[derive(Debug)]
pub(in crate::group) struct Migrant {
    /// Id of the member.
    pub(in crate::group) id: String,
    /// Subscription; `classic` is set.
    pub(in crate::group) metadata: MemberMetadata,
    /// Current or target assignment.
    pub(in crate::group) assigned: Partitions,
}

impl ClassicGroup {
    /// Converts the members to those of a consumer group of at most `max_size` members.
    ///
    /// # Errors
    /// If there are more, or a member is not a consumer with a subscription that the broker can
    /// read.
    pub(in crate::group) fn emigrate(
        &self,
        topics: &dyn Topics,
        max_size: usize,
    ) -> Result<(i32, Vec<Migrant>), GroupError> {
        if !self.is_consumer() {
            return Err(GroupError::NoUpgrade("the group does not use the consumer embedded protocol"));
        }
        if self.members.len() > max_size {
            return Err(GroupError::NoUpgrade("the group size exceeds the consumer group maximum size"));
        }
        let members = self.members.values().map(|member| {
            let chosen = self.protocol_name.as_deref().map(|name| member.metadata(Some(name)));
            let metadata = chosen.or_else(|| Some(member.protocols.first()?.metadata.clone()));
            let subscription = metadata.and_then(|metadata| embedded::subscription(&metadata));
            let subscription = subscription.ok_or(embedded::MALFORMED)?;
            let metadata = MemberMetadata {
                instance_id: member.group_instance_id.clone(),
                rack_id: subscription.rack_id,
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                topics: subscription.topics.into_iter().collect(),
                regex: Some(String::new()),
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                assignor: None,
                classic: Some(ClassicMember {
                    session_timeout_ms: member.session_timeout_ms,
                    protocols: member.protocols.clone(),
                }),
            };
            let assigned = embedded::assigned(&member.assignment, topics)?;
            Ok(Migrant { id: member.id.clone(), metadata, assigned })
        });
        Ok((self.generation, members.collect::<Result<Vec<Migrant>, GroupError>>()?))
    }

    /// A classic group of members that all use the classic protocol now.
    pub(in crate::group) fn immigrate(
        id: String,
        generation: i32,
        members: Vec<Migrant>,
        topics: &dyn Topics,
        now_ms: i64,
    ) -> Self {
        let mut group = Self::new(id, now_ms);
        let mut targets = BTreeMap::new();
        for Migrant { id, metadata, assigned } in members {
            let Some(classic) = metadata.classic else { continue };
            targets.insert(id.clone(), assigned);
            let member = Member {
                id,
                group_instance_id: metadata.instance_id,
                client_id: metadata.client_id,
                client_host: metadata.client_host,
                rebalance_timeout_ms: metadata.rebalance_timeout_ms,
                session_timeout_ms: classic.session_timeout_ms,
                protocols: classic.protocols,
                assignment: Bytes::new(),
                join: None,
                sync: None,
                is_new: false,
            };
            group.add(member, "consumer".to_owned());
        }
        group.state = State::Stable;
        group.generation = generation;
        group.protocol_name = group.elect_protocol();
        group.subscribed = group.read_subscriptions();
        let protocol = group.protocol_name.clone();
        for member in group.members.values_mut() {
            let target = targets.get(&member.id).cloned().unwrap_or_default();
            member.assignment = embedded::assignment(&target, topics, &member.metadata(protocol.as_deref()));
        }
        group
    }

    /// The group as a record.
    pub(in crate::group) fn as_record(&self) -> Record {
        let assignments = self.members.values().map(|member| (member.id.clone(), member.assignment.clone()));
        self.record(&assignments.collect())
    }

    /// Starts the sessions of a group that has just been created from a consumer group. If
    /// something has changed, members join again.
    pub(in crate::group) fn begin(
        &mut self,
        turn: &mut StepContext<'_>,
        rebalance: bool,
    ) -> Option<PendingWrite> {
        for member_id in self.members.keys() {
            self.renew_session(turn, member_id);
        }
        if rebalance { self.prepare_rebalance(turn) } else { None }
    }
}
