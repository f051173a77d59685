//! Conversion of a group to a record of `__consumer_offsets`, and back.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::member::Member;
use super::{ClassicGroup, State};
use crate::group::records::{GroupValue, MemberValue, Record};
use crate::group::request::Protocol;
use crate::group::turn::{PendingWrite, StepContext};

impl ClassicGroup {
    /// The group of a record. It waits for no member until [`ClassicGroup::loaded`].
    pub(in crate::group) fn from_record(id: String, value: GroupValue) -> Self {
        let mut group = Self::new(id, 0);
        group.state = if value.members.is_empty() { State::Empty } else { State::Stable };
        group.state_since_ms = Some(value.state_timestamp_ms).filter(|&since_ms| since_ms != -1);
        group.generation = value.generation;
        group.protocol_type = Some(value.protocol_type.clone()).filter(|kind| !kind.is_empty());
        group.protocol_name = value.protocol_name.clone();
        let protocol = value.protocol_name.unwrap_or_default();
        for member in value.members {
            let member = from_value(member, &protocol);
            // Levada writes no record with the same member twice; in such a record the last one
            // counts.
            if let Some(twice) = group.members.remove(&member.id) {
                group.count_protocols(&twice, false);
            }
            group.add(member, value.protocol_type.clone());
        }
        group.leader = value.leader.or(group.leader);
        group.subscribed = group.read_subscriptions();
        group
    }

    /// Completes the load of the log: the sessions of members begin now.
    pub(in crate::group) fn loaded(&mut self, turn: &mut StepContext<'_>) -> Option<PendingWrite> {
        for member_id in self.members.keys() {
            self.renew_session(turn, member_id);
        }
        // The limit may have been lowered since. Members get the chance to commit before some must
        // go.
        if self.members.len() > turn.config.max_size { self.prepare_rebalance(turn) } else { None }
    }

    /// The generation with these assignments.
    pub(super) fn record(&self, assignments: &BTreeMap<String, Bytes>) -> Record {
        let protocol = self.protocol_name.as_deref();
        let members = self.members.values().map(|member| MemberValue {
            member_id: member.id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(protocol),
            assignment: assignments.get(&member.id).cloned().unwrap_or_default(),
        });
        let value = GroupValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone(),
            state_timestamp_ms: self.state_since_ms.unwrap_or(-1),
            members: members.collect(),
        };
        Record::Group(self.id.clone(), Some(value))
    }

    /// The group before its first generation.
    pub(super) fn empty_record(&self) -> Record {
        let value = GroupValue {
            protocol_type: String::new(),
            generation: 0,
            protocol_name: None,
            leader: None,
            state_timestamp_ms: self.state_since_ms.unwrap_or(-1),
            members: Vec::new(),
        };
        Record::Group(self.id.clone(), Some(value))
    }
}

fn from_value(value: MemberValue, protocol: &str) -> Member {
    let rebalance_timeout_ms = match value.rebalance_timeout_ms {
        -1 => value.session_timeout_ms,
        timeout_ms => timeout_ms,
    };
    // Copies: the member may exist for long, and must not keep the buffer of the log in memory.
    let metadata = Bytes::copy_from_slice(&value.subscription);
    Member {
        id: value.member_id,
        group_instance_id: value.group_instance_id,
        client_id: value.client_id,
        client_host: value.client_host,
        rebalance_timeout_ms,
        session_timeout_ms: value.session_timeout_ms,
        protocols: vec![Protocol { name: protocol.to_owned(), metadata }],
        assignment: Bytes::copy_from_slice(&value.assignment),
        join: None,
        sync: None,
        is_new: false,
    }
}
