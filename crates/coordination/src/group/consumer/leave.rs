//! Members that leave, permanently or temporarily, or are removed; the end of a group.

use super::{ConsumerGroup, Draft, LEFT_FOR_A_WHILE};
use crate::group::error::GroupError;
use crate::group::records::{ConsumerRecord, EpochPartitions, Record};
use crate::group::topics::Topics;

impl ConsumerGroup {
    /// Removes a member; `for_a_while` if it is static and will return.
    pub(in crate::group) fn leave(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        for_a_while: bool,
        topics: &dyn Topics,
    ) -> Result<Draft, GroupError> {
        if let Some(instance) = instance_id {
            let current = self.static_members.get(instance).ok_or(GroupError::UnknownMemberId)?;
            if current != member_id {
                return Err(GroupError::FencedInstanceId);
            }
        }
        let member = self.members.get(member_id).ok_or(GroupError::UnknownMemberId)?;
        if !for_a_while {
            return self.without(member_id, topics).ok_or(GroupError::UnknownMemberId);
        }
        let mut draft = Draft::of(self);
        let mut current = member.current.clone();
        current.epoch = LEFT_FOR_A_WHILE;
        current.revoking = EpochPartitions::new();
        draft.write(ConsumerRecord::Current(member_id.to_owned(), Some(current)));
        Ok(draft)
    }

    /// The group without a member; none if it has no such member.
    pub(in crate::group) fn without(&self, member_id: &str, topics: &dyn Topics) -> Option<Draft> {
        self.members.get(member_id)?;
        let mut draft = Draft::of(self);
        draft.remove(member_id);
        draft.settle_departure(topics);
        Some(draft)
    }

    /// True if a member's state has not changed since an earlier state of the group.
    pub(in crate::group) fn is_where(&self, before: &Self, member_id: &str) -> bool {
        let current = |group: &Self| group.members.get(member_id).map(|member| member.current.clone());
        current(self) == current(before)
    }

    /// True if a member is still in the epoch in which it had to revoke partitions. False for a
    /// static member that has left temporarily: only its session limits its absence.
    pub(in crate::group) fn is_revoking(&self, member_id: &str) -> bool {
        self.members.get(member_id).is_some_and(|member| {
            let current = &member.current;
            current.state == super::reconcile::UNREVOKED && current.epoch != LEFT_FOR_A_WHILE
        })
    }

    /// The tombstones of the whole group.
    pub(in crate::group) fn tombstones(&self) -> Vec<Record> {
        let mut draft = Draft::of(self);
        let members: Vec<String> = self.members.keys().cloned().collect();
        let each = |draft: &mut Draft, record: fn(String) -> ConsumerRecord| {
            members.iter().for_each(|member_id| draft.write(record(member_id.clone())));
        };
        each(&mut draft, |member_id| ConsumerRecord::Current(member_id, None));
        each(&mut draft, |member_id| ConsumerRecord::Target(member_id, None));
        draft.write(ConsumerRecord::TargetEpoch(None));
        each(&mut draft, |member_id| ConsumerRecord::Member(member_id, None));
        draft.forget_regexes();
        if self.has_topics_record {
            draft.write(ConsumerRecord::Topics(None));
        }
        draft.write(ConsumerRecord::Epoch(None));
        draft.records
    }
}

impl Draft {
    /// Removes a member.
    pub(super) fn remove(&mut self, member_id: &str) {
        self.write(ConsumerRecord::Current(member_id.to_owned(), None));
        self.write(ConsumerRecord::Target(member_id.to_owned(), None));
        self.write(ConsumerRecord::Member(member_id.to_owned(), None));
    }

    /// Consequences of the removal of members.
    pub(super) fn settle_departure(&mut self, topics: &dyn Topics) {
        self.forget_regexes();
        self.raise_epoch(true, topics);
        // Expressions have not been matched again: the next heartbeats do it.
        self.group.topics_changed();
    }
}
