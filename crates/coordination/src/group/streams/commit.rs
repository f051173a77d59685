//! Validation of commits, lookups and removals of offsets.

use std::collections::BTreeSet;

use super::StreamsGroup;
use crate::group::error::GroupError;
use crate::group::request::CommitTopic;

/// Members of streams groups must commit with this version at least: it has their epoch.
const KNOWS_MEMBER_EPOCHS: i16 = 9;

impl StreamsGroup {
    /// Checks that a commit may be stored; without a version, it is part of a transaction. A member
    /// may commit, in an older epoch, partitions of tasks that it has had since that epoch.
    pub(in crate::group) fn commit(
        &self,
        member_id: &str,
        epoch: i32,
        api_version: Option<i16>,
        commits: &[CommitTopic],
    ) -> Result<(), GroupError> {
        if epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        let member = self.members.get(member_id).ok_or(GroupError::UnknownMemberId)?;
        if api_version.is_some_and(|version| version < KNOWS_MEMBER_EPOCHS) {
            return Err(GroupError::UnsupportedVersion);
        }
        let current = &member.current;
        if epoch == current.epoch {
            return Ok(());
        }
        let since_then = |topic: &CommitTopic| {
            let part = self.topology.as_ref().and_then(|topology| topology.reader_of(&topic.name));
            let held = [&current.assigned, &current.revoking];
            let since = |index: i32| held.iter().find_map(|held| held.active.get(&part?.id)?.get(&index));
            let mut partitions = topic.partitions.iter();
            partitions.all(|partition| since(partition.index).is_some_and(|since| epoch >= *since))
        };
        let fits = epoch < current.epoch && commits.iter().all(since_then);
        if fits { Ok(()) } else { Err(GroupError::StaleMemberEpoch) }
    }

    /// Checks that offsets may be fetched; a request without a member id always may.
    pub(in crate::group) fn fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), GroupError> {
        if member_id.is_none() && epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|member_id| self.members.get(member_id));
        let member = member.ok_or(GroupError::UnknownMemberId)?;
        if epoch == member.current.epoch { Ok(()) } else { Err(GroupError::StaleMemberEpoch) }
    }

    /// The topics whose offsets are in use: none without members.
    pub(in crate::group) fn in_use(&self) -> BTreeSet<String> {
        let topology = self.topology.as_ref().filter(|_| !self.members.is_empty());
        let parts = topology.into_iter().flat_map(|topology| &topology.subtopologies);
        parts.flat_map(|part| part.inputs().cloned()).collect()
    }

    /// Checks that the group may be deleted.
    pub(in crate::group) fn validate_delete(&self) -> Result<(), GroupError> {
        if self.members.is_empty() { Ok(()) } else { Err(GroupError::NonEmptyGroup) }
    }
}
