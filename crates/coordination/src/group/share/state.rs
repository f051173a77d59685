//! State of partitions at the share coordinator, as the group records it: being initialized,
//! initialized, or to be deleted. This record changes only here; the coordinator's host does the
//! work at the share coordinator in between.

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::Uuid;

use super::{ShareDraft, ShareGroup};
use crate::group::records::{NamedPartitions, Partitions, ShareRecord, StatePartitions};
use crate::group::topics::Topics;

/// Name of a topic that no longer exists.
const UNKNOWN_TOPIC: &str = "<UNKNOWN>";

impl ShareGroup {
    /// The partitions of subscribed topics without state, by topic. Partitions whose initialization
    /// has begun are excluded, unless it began longer ago than the interval.
    pub(super) fn uninitialized(
        &self,
        topics: &dyn Topics,
        steady_ms: i64,
        retry_interval_ms: i64,
    ) -> Partitions {
        let is_recent = steady_ms.saturating_sub(self.state_since_ms) < retry_interval_ms;
        let begun = self.state.as_ref().map(|state| &state.initializing).filter(|_| is_recent);
        let there = self.state.as_ref().map(|state| &state.initialized);
        let mut missing = Partitions::new();
        for name in self.subscribed.keys() {
            let Some((id, count)) = topics.by_name(name) else { continue };
            let complete = there.and_then(|there| there.get(&id)).map(|topic| topic.partitions.len());
            if complete.is_some_and(|there| i32::try_from(there).is_ok_and(|there| there >= count)) {
                continue;
            }
            let known = [begun, there].into_iter().flatten().filter_map(|known| known.get(&id));
            let known: BTreeSet<i32> = known.flat_map(|topic| &topic.partitions).copied().collect();
            let new: BTreeSet<i32> = (0..count).filter(|index| !known.contains(index)).collect();
            if !new.is_empty() {
                missing.insert(id, new);
            }
        }
        missing
    }

    /// The partitions that members may be assigned.
    pub(in crate::group) fn initialized_partitions(&self) -> Partitions {
        let topics = self.state.iter().flat_map(|state| &state.initialized);
        topics.map(|(id, topic)| (*id, topic.partitions.clone())).collect()
    }

    /// The group once the state of these partitions is initialized. Omits partitions whose state
    /// has been deleted in the meantime, and partitions of topics that no longer exist.
    pub(in crate::group) fn initialized(
        &self,
        partitions: &Partitions,
        topics: &dyn Topics,
        steady_ms: i64,
    ) -> ShareDraft {
        let mut state = self.state.clone().unwrap_or_default();
        let begun = partitions.iter().filter_map(|(id, indexes)| {
            let begun = &state.initializing.get(id)?.partitions;
            topics.by_id(*id)?;
            let begun: BTreeSet<i32> = begun.intersection(indexes).copied().collect();
            (!begun.is_empty()).then_some((*id, begun))
        });
        let begun: Partitions = begun.collect();
        add(&mut state.initialized, &begun, topics);
        remove(&mut state.initializing, partitions);
        self.with_state(state, topics, steady_ms)
    }

    /// The group after the initialization of these partitions has failed: it may begin again.
    pub(in crate::group) fn uninitialize(
        &self,
        partitions: &Partitions,
        topics: &dyn Topics,
        steady_ms: i64,
    ) -> ShareDraft {
        let mut state = self.state.clone().unwrap_or_default();
        remove(&mut state.initializing, partitions);
        self.with_state(state, topics, steady_ms)
    }

    /// True if the group has state of one of these topics.
    pub(in crate::group) fn has_state_of(&self, gone: &BTreeSet<Uuid>) -> bool {
        self.state.as_ref().is_some_and(|state| {
            let with_partitions = state.initializing.keys().chain(state.initialized.keys());
            with_partitions.chain(state.deleting.keys()).any(|id| gone.contains(id))
        })
    }

    /// The group without state of deleted topics. The share coordinator deletes the state of such
    /// topics independently.
    pub(in crate::group) fn without_topics(
        &self,
        gone: &BTreeSet<Uuid>,
        topics: &dyn Topics,
        steady_ms: i64,
    ) -> ShareDraft {
        let mut state = self.state.clone().unwrap_or_default();
        state.initializing.retain(|id, _| !gone.contains(id));
        state.initialized.retain(|id, _| !gone.contains(id));
        state.deleting.retain(|id, _| !gone.contains(id));
        self.with_state(state, topics, steady_ms)
    }

    /// The group before its deletion, and the partitions whose state must be deleted first: all,
    /// including those whose deletion has begun before. None if the group has no state.
    pub(in crate::group) fn begin_deletion(
        &self,
        topics: &dyn Topics,
        steady_ms: i64,
    ) -> Option<(ShareDraft, Partitions)> {
        let before = self.state.as_ref()?;
        let mut delete = Partitions::new();
        let mut deleting = BTreeMap::new();
        for (id, topic) in before.initialized.iter().chain(&before.initializing) {
            delete.entry(*id).or_default().extend(&topic.partitions);
            deleting.insert(*id, topic.name.clone());
        }
        for id in before.deleting.keys() {
            // Removed topics have no state any more.
            let Some((name, count)) = topics.by_id(*id) else { continue };
            delete.entry(*id).or_default().extend(0..count);
            deleting.insert(*id, name);
        }
        let mut draft = ShareDraft::of(self, steady_ms);
        draft.write(ShareRecord::State(Some(StatePartitions { deleting, ..StatePartitions::default() })));
        Some((draft, delete))
    }

    /// The group with another state, which is written if it differs. Topics whose state is being
    /// deleted have their present names.
    pub(super) fn with_state(
        &self,
        mut state: StatePartitions,
        topics: &dyn Topics,
        steady_ms: i64,
    ) -> ShareDraft {
        let mut draft = ShareDraft::of(self, steady_ms);
        if self.state.as_ref().unwrap_or(&StatePartitions::default()) != &state {
            for (id, name) in &mut state.deleting {
                *name = name_of(*id, topics);
            }
            draft.write(ShareRecord::State(Some(state)));
        }
        draft
    }
}

impl ShareDraft {
    /// Records that the initialization of partitions begins. State of a topic that was to be
    /// deleted is kept then.
    pub(super) fn begin_initializing(&mut self, partitions: &Partitions, topics: &dyn Topics) {
        if partitions.is_empty() {
            return;
        }
        let mut state = self.group.state.clone().unwrap_or_default();
        add(&mut state.initializing, partitions, topics);
        let StatePartitions { initializing, deleting, .. } = &mut state;
        deleting.retain(|id, _| !initializing.contains_key(id));
        for (id, name) in deleting {
            *name = name_of(*id, topics);
        }
        self.write(ShareRecord::State(Some(state)));
    }
}

/// The name of a topic, including one that no longer exists.
pub(super) fn name_of(id: Uuid, topics: &dyn Topics) -> String {
    topics.by_id(id).map_or_else(|| UNKNOWN_TOPIC.to_owned(), |(name, _)| name)
}

fn add(named: &mut NamedPartitions, partitions: &Partitions, topics: &dyn Topics) {
    for (id, indexes) in partitions {
        let topic = named.entry(*id).or_default();
        topic.name = name_of(*id, topics);
        topic.partitions.extend(indexes);
    }
}

fn remove(named: &mut NamedPartitions, partitions: &Partitions) {
    for (id, indexes) in partitions {
        if let Some(topic) = named.get_mut(id) {
            topic.partitions.retain(|index| !indexes.contains(index));
            if topic.partitions.is_empty() {
                named.remove(id);
            }
        }
    }
}
