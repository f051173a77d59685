//! The group's epoch and its target assignment.

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::Uuid;

use super::assign::{Assignable, Subscriber, assign};
use super::{ShareDraft, ShareGroup};
use crate::group::hash::metadata_hash;
use crate::group::records::{EpochValue, Partitions, ShareRecord, TargetEpoch};
use crate::group::topics::Topics;

impl ShareGroup {
    /// True if initialized partitions of a subscribed topic are not in the target assignment. A
    /// deleted topic whose state still exists does not count.
    pub(super) fn finds_unassigned(&self, topics: &dyn Topics) -> bool {
        let Some(state) = self.state.as_ref().filter(|_| !self.members.is_empty()) else { return false };
        let mut initialized = state.initialized.iter();
        initialized.any(|(id, topic)| {
            let counts = self.subscribed.contains_key(&topic.name) && topics.by_id(*id).is_some();
            counts && self.target_partitions(*id) != topic.partitions
        })
    }

    /// Partitions of a topic that members are to have.
    fn target_partitions(&self, id: Uuid) -> BTreeSet<i32> {
        let held = self.targets.values().filter_map(|target| target.get(&id));
        held.flatten().copied().collect()
    }

    /// The subscribed topics that exist, with their initialized partitions.
    fn assignable(&self, topics: &dyn Topics) -> BTreeMap<String, Assignable> {
        let initialized = self.state.as_ref().map(|state| &state.initialized);
        let existing = self.subscribed.keys().filter_map(|name| {
            let (id, count) = topics.by_name(name)?;
            let known = initialized.and_then(|initialized| initialized.get(&id));
            let partitions = known.into_iter().flat_map(|topic| &topic.partitions);
            let partitions = partitions.copied().filter(|index| (0..count).contains(index)).collect();
            Some((name.clone(), Assignable { id, partitions }))
        });
        existing.collect()
    }

    fn subscribers(&self) -> Vec<Subscriber> {
        let members = self.members.iter().map(|(id, member)| Subscriber {
            id: id.clone(),
            topics: member.metadata.topics.clone(),
            before: self.targets.get(id).cloned().unwrap_or_default(),
        });
        members.collect()
    }
}

impl ShareDraft {
    /// Compares the topics again if they may have changed, and raises the epoch if they have, or if
    /// `must`. True if it has raised the epoch.
    pub(super) fn raise_epoch(&mut self, must: bool, topics: &dyn Topics) -> bool {
        if !must && !self.group.stale {
            return false;
        }
        self.group.stale = false;
        let subscribed: BTreeSet<String> = self.group.subscribed.keys().cloned().collect();
        let metadata_hash = metadata_hash(&subscribed, topics);
        let is_raised = must || metadata_hash != self.group.metadata_hash;
        if is_raised {
            let epoch = self.group.epoch.wrapping_add(1);
            self.write(ShareRecord::Epoch(Some(EpochValue { epoch, metadata_hash })));
        }
        is_raised
    }

    /// Computes the target assignment of the group's epoch, unless there is one, or the last one
    /// was computed less than an interval ago.
    pub(super) fn assign(&mut self, topics: &dyn Topics, interval_ms: i32, now_ms: i64) {
        let group = &self.group;
        let since_ms = now_ms.saturating_sub(group.target.timestamp_ms);
        // A clock that was set back does not delay the assignment.
        let is_early = group.target.timestamp_ms != 0 && (0..i64::from(interval_ms)).contains(&since_ms);
        if group.target.epoch >= group.epoch || is_early {
            return;
        }
        let targets = assign(group.subscribers(), &group.assignable(topics));
        let changed: Vec<(String, Partitions)> =
            targets.into_iter().filter(|(id, target)| group.targets.get(id) != Some(target)).collect();
        let epoch = group.epoch;
        for (member_id, target) in changed {
            self.write(ShareRecord::Target(member_id, Some(target)));
        }
        self.write(ShareRecord::TargetEpoch(Some(TargetEpoch { epoch, timestamp_ms: now_ms })));
    }
}
