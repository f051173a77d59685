//! The group's epoch and its target assignment.

use std::collections::BTreeMap;

use levada_wire::Uuid;

use super::assign::{ASSIGNORS, Candidate, assign};
use super::hash::metadata_hash;
use super::{AssignmentPace, ConsumerGroup, Draft, Member};
use crate::group::records::{ConsumerRecord, EpochValue, Partitions, TargetEpoch};
use crate::group::topics::Topics;

impl ConsumerGroup {
    /// The assignor most members prefer.
    pub(super) fn assignor(&self) -> &str {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(assignor) = &member.metadata.assignor {
                *votes.entry(assignor).or_default() += 1;
            }
        }
        let known = votes.into_iter().filter(|(name, _)| ASSIGNORS.contains(name));
        known.max_by_key(|(_, votes)| *votes).map_or(ASSIGNORS[0], |(name, _)| name)
    }

    fn candidate(&self, id: &str, member: &Member, topics: &dyn Topics) -> Candidate {
        Candidate {
            id: id.to_owned(),
            instance_id: member.metadata.instance_id.clone(),
            topics: self.subscribed_ids(member, topics),
            before: self.targets.get(id).cloned().unwrap_or_default(),
        }
    }
}

impl Draft {
    /// Compares the topics again and raises the epoch if they have changed, or if `must`.
    pub(super) fn raise_epoch(&mut self, must: bool, topics: &dyn Topics) {
        let metadata_hash = metadata_hash(&self.group.subscribed(), topics);
        if must || metadata_hash != self.group.metadata_hash {
            let epoch = self.group.epoch.wrapping_add(1);
            self.write(ConsumerRecord::Epoch(Some(EpochValue { epoch, metadata_hash })));
        }
        if self.group.has_topics_record {
            self.write(ConsumerRecord::Topics(None));
        }
        self.group.stale = false;
    }

    /// Computes the target assignment of the group's epoch, unless there is one, or the last one
    /// was computed less than an interval ago.
    pub(super) fn assign(&mut self, topics: &dyn Topics, pace: AssignmentPace) {
        let group = &self.group;
        let since_ms = pace.now_ms.saturating_sub(group.target_since_ms);
        // A clock that was set back does not delay the assignment.
        let is_early = group.target_since_ms != 0 && (0..i64::from(pace.interval_ms)).contains(&since_ms);
        if group.epoch <= group.target_epoch || is_early {
            return;
        }
        let candidates: Vec<Candidate> =
            group.members.iter().map(|(id, member)| group.candidate(id, member, topics)).collect();
        let wanted = candidates.iter().flat_map(|member| member.topics.iter());
        let counts: BTreeMap<Uuid, i32> =
            wanted.filter_map(|topic| Some((*topic, topics.by_id(*topic)?.1))).collect();
        let targets = assign(group.assignor(), candidates, &counts);
        let changed: Vec<(String, Partitions)> =
            targets.into_iter().filter(|(id, target)| group.targets.get(id) != Some(target)).collect();
        let epoch = group.epoch;
        for (member_id, target) in changed {
            self.write(ConsumerRecord::Target(member_id, Some(target)));
        }
        self.write(ConsumerRecord::TargetEpoch(Some(TargetEpoch { epoch, timestamp_ms: pace.now_ms })));
    }
}
