//! LeaveGroup: members leave, or an administrator removes static members by instance id.

use super::{ClassicGroup, State};
use crate::group::error::GroupError;
use crate::group::request::{LeavingMember, LeftMember};
use crate::group::turn::{PendingWrite, StepContext};

impl ClassicGroup {
    /// Removes members; the remaining members rebalance once for all of them.
    pub(in crate::group) fn leave(
        &mut self,
        turn: &mut StepContext<'_>,
        members: Vec<LeavingMember>,
    ) -> (Vec<LeftMember>, Option<PendingWrite>) {
        let mut left = Vec::with_capacity(members.len());
        for LeavingMember { member_id, group_instance_id } in members {
            let error = self.leave_one(turn, &member_id, group_instance_id.as_deref()).err();
            left.push(LeftMember { member_id, group_instance_id, error });
        }
        if left.iter().all(|member| member.error.is_some()) {
            return (left, None);
        }
        let write = match self.state {
            State::Stable | State::CompletingRebalance => self.prepare_rebalance(turn),
            State::PreparingRebalance => self.complete_if_all_joined(turn),
            State::Empty | State::Dead => None,
        };
        (left, write)
    }

    fn leave_one(
        &mut self,
        turn: &mut StepContext<'_>,
        member_id: &str,
        group_instance_id: Option<&str>,
    ) -> Result<(), GroupError> {
        if member_id.is_empty() {
            let member_id = group_instance_id.and_then(|instance| self.static_members.get(instance)).cloned();
            self.remove(turn, &member_id.ok_or(GroupError::UnknownMemberId)?);
            return Ok(());
        }
        if !self.pending.contains(member_id) {
            self.validate(member_id, group_instance_id)?;
        }
        self.remove(turn, member_id);
        Ok(())
    }
}
