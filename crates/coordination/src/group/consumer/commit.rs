//! Validation of commits, lookups and removals of offsets.

use super::{ConsumerGroup, Member};
use crate::group::error::GroupError;
use crate::group::request::CommitTopic;
use crate::group::topics::Topics;

/// Members of consumer groups must commit with this version at least: it has their epoch.
const KNOWS_MEMBER_EPOCHS: i16 = 9;

impl ConsumerGroup {
    /// Checks that a commit may be stored. A member may commit, in an older epoch, partitions that
    /// it has owned since that epoch.
    pub(in crate::group) fn commit(
        &self,
        member_id: &str,
        epoch: i32,
        api_version: Option<i16>,
        commits: &[CommitTopic],
        topics: &dyn Topics,
    ) -> Result<(), GroupError> {
        if epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        let member = self.members.get(member_id).ok_or(GroupError::UnknownMemberId)?;
        let old = api_version.is_some_and(|version| version < KNOWS_MEMBER_EPOCHS);
        if old && member.metadata.classic.is_none() {
            return Err(GroupError::UnsupportedVersion);
        }
        if epoch == member.current.epoch {
            return Ok(());
        }
        let since_then = |topic: &CommitTopic, index: i32| {
            let id = topics.by_name(&topic.name).map_or(topic.topic_id, |(id, _)| id);
            let side = [&member.current.assigned, &member.current.revoking];
            let since = side.iter().find_map(|partitions| partitions.get(&id)?.get(&index));
            since.is_some_and(|since| epoch >= *since)
        };
        let fits = epoch < member.current.epoch
            && commits
                .iter()
                .all(|topic| topic.partitions.iter().all(|partition| since_then(topic, partition.index)));
        if fits { Ok(()) } else { Err(stale(member)) }
    }

    /// Checks that offsets may be fetched; a request without a member id always may.
    pub(in crate::group) fn fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), GroupError> {
        if member_id.is_none() && epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|member_id| self.members.get(member_id));
        let member = member.ok_or(GroupError::UnknownMemberId)?;
        if epoch == member.current.epoch { Ok(()) } else { Err(stale(member)) }
    }

    /// True if a member uses the topic.
    pub(in crate::group) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.metadata.topics.contains(topic))
            || self.regexes.values().any(|regex| regex.topics.contains(topic))
    }
}

fn stale(member: &Member) -> GroupError {
    match member.metadata.classic {
        Some(_) => GroupError::IllegalGeneration,
        None => GroupError::StaleMemberEpoch,
    }
}
