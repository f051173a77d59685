//! Static members: a member with an instance id that leaves temporarily keeps its tasks, and the
//! next member with the id replaces it.

use std::collections::BTreeMap;

use super::{StreamsDraft, StreamsGroup, StreamsMember};
use crate::group::error::GroupError;
use crate::group::records::{HeldTasks, StreamsMemberMetadata, StreamsRecord};
use crate::group::request::StreamsHeartbeatRequest;

/// Epoch of a static member that has left temporarily.
const AWAY: i32 = -2;

impl StreamsGroup {
    /// The member with this instance id.
    fn static_member(&self, instance: &str) -> Option<(&str, &StreamsMember)> {
        let mut members = self.members.iter();
        let is_it = |member: &StreamsMember| member.metadata.instance_id.as_deref() == Some(instance);
        members.find(|(_, member)| is_it(member)).map(|(id, member)| (id.as_str(), member))
    }

    /// The id of the static member that the request replaces.
    ///
    /// # Errors
    /// Another member has the instance id, or none has it and the request does not join.
    pub(super) fn replaced(&self, request: &StreamsHeartbeatRequest) -> Result<Option<String>, GroupError> {
        let Some(instance) = &request.instance_id else { return Ok(None) };
        let is_joining = request.member_epoch == 0;
        match self.static_member(instance) {
            None if is_joining => Ok(None),
            None => Err(GroupError::UnknownMemberId),
            Some((_, member)) if is_joining && member.current.epoch != AWAY => {
                Err(GroupError::UnreleasedInstanceId)
            }
            Some((id, _)) if is_joining => Ok(Some(id.to_owned())),
            Some((id, _)) if id != request.member_id => Err(GroupError::FencedInstanceId),
            Some(_) => Ok(None),
        }
    }

    /// Checks that one more member may join. A returning static member does not count.
    pub(super) fn check_room(
        &self,
        request: &StreamsHeartbeatRequest,
        max_size: usize,
    ) -> Result<(), GroupError> {
        let instance = request.instance_id.as_deref();
        let is_known = self.members.contains_key(&request.member_id)
            || instance.is_some_and(|instance| self.static_member(instance).is_some());
        let has_room = is_known || self.members.len() < max_size;
        if has_room { Ok(()) } else { Err(GroupError::GroupMaxSizeReached) }
    }

    /// Marks a static member as temporarily absent; it keeps its tasks.
    fn leave_for_a_while(&self, member_id: &str, member: &StreamsMember) -> StreamsDraft {
        let mut draft = StreamsDraft::of(self);
        let mut current = member.current.clone();
        current.epoch = AWAY;
        current.revoking = HeldTasks::default();
        // The member that takes its place may commit in any epoch.
        current.assigned.active.values_mut().flat_map(BTreeMap::values_mut).for_each(|since| *since = 0);
        draft.write(StreamsRecord::Current(member_id.to_owned(), Some(current)));
        draft
    }

    /// Removes a member that leaves by request. Returns the draft, and true if the member is
    /// removed: a static member may leave temporarily.
    ///
    /// # Errors
    /// The group has no such member, or another member has the instance id.
    pub(in crate::group) fn depart(
        &self,
        request: &StreamsHeartbeatRequest,
    ) -> Result<(StreamsDraft, bool), GroupError> {
        let member_id = &request.member_id;
        self.replaced(request)?;
        let member = self.members.get(member_id).filter(|_| request.instance_id.is_some());
        let Some(member) = member.filter(|_| request.member_epoch == AWAY) else {
            return Ok((self.leave(member_id, request.shutdown_application)?, true));
        };
        let mut draft = self.leave_for_a_while(member_id, member);
        if request.shutdown_application && draft.group.shutdown_by.is_none() {
            draft.group.shutdown_by = Some(member_id.clone());
        }
        Ok((draft, false))
    }
}

impl StreamsDraft {
    /// Replaces a static member by the member of the request, which is returned.
    pub(super) fn replace(&mut self, old: &str, request: &StreamsHeartbeatRequest) -> StreamsMember {
        let member_id = &request.member_id;
        let mut member = self.group.members.get(old).cloned().unwrap_or_default();
        let target = self.group.targets.get(old).cloned().unwrap_or_default();
        (member.current.epoch, member.current.previous_epoch) = (0, 0);
        self.write(StreamsRecord::Current(old.to_owned(), None));
        self.write(StreamsRecord::Target(old.to_owned(), None));
        self.write(StreamsRecord::Member(old.to_owned(), None));
        self.write(StreamsRecord::Member(member_id.clone(), Some((*member.metadata).clone())));
        self.write(StreamsRecord::Target(member_id.clone(), Some(target)));
        self.write(StreamsRecord::Current(member_id.clone(), Some(member.current.clone())));
        member
    }
}

/// True if a change of a static member matters to the assignment.
pub(super) fn is_relevant(before: &StreamsMemberMetadata, after: &StreamsMemberMetadata) -> bool {
    before.topology_epoch != after.topology_epoch
        || before.rack_id != after.rack_id
        || before.client_tags != after.client_tags
        || before.process_id != after.process_id
}
