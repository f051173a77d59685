//! Start offsets that administrators set or delete.

use std::collections::BTreeSet;

use levada_wire::Uuid;

use super::{ShareDraft, ShareGroup};
use crate::group::error::GroupError;
use crate::group::records::Partitions;
use crate::group::request::{AlteredTopic, DeletedTopic, StartOffsetTopic, StartOffsets};
use crate::group::topics::Topics;

/// Start offsets to be set.
#[derive(Debug)]
pub(in crate::group) struct AlteredOffsets {
    /// The group, which has noted that the initialization begins.
    pub(in crate::group) draft: ShareDraft,
    /// The partitions and their offsets.
    pub(in crate::group) offsets: StartOffsets,
    /// The outcome if that succeeds.
    pub(in crate::group) topics: Vec<AlteredTopic>,
}

/// Start offsets to be deleted, with the state of their partitions.
#[derive(Debug)]
pub(in crate::group) struct DeletedOffsets {
    /// The group, which has noted that the deletion begins.
    pub(in crate::group) draft: ShareDraft,
    /// Partitions whose state is to be deleted.
    pub(in crate::group) partitions: Partitions,
    /// The topics of these partitions.
    pub(in crate::group) topics: Vec<DeletedTopic>,
    /// Topics without state, with their errors.
    pub(in crate::group) refused: Vec<DeletedTopic>,
}

impl ShareGroup {
    /// Checks that the group may be deleted, and that its offsets may be changed.
    pub(in crate::group) fn validate_delete(&self) -> Result<(), GroupError> {
        if self.members.is_empty() { Ok(()) } else { Err(GroupError::NonEmptyGroup) }
    }

    /// Begins to set start offsets. The group is empty.
    pub(in crate::group) fn alter_offsets(
        &self,
        requested: &[StartOffsetTopic],
        topics: &dyn Topics,
        steady_ms: i64,
    ) -> AlteredOffsets {
        let (mut offsets, mut initialize) = (StartOffsets::new(), Partitions::new());
        let altered = requested.iter().map(|topic| {
            let known = topics.by_name(&topic.name);
            let partitions = topic.partitions.iter().map(|&(index, start_offset)| {
                let existing = known.filter(|(_, count)| (0..*count).contains(&index));
                if let Some((id, _)) = existing {
                    offsets.entry(id).or_default().insert(index, start_offset);
                    initialize.entry(id).or_default().insert(index);
                }
                (index, existing.is_none().then_some(GroupError::UnknownTopicOrPartition))
            });
            let partitions = partitions.collect();
            AlteredTopic {
                name: topic.name.clone(),
                topic_id: known.map_or(Uuid::ZERO, |(id, _)| id),
                partitions,
            }
        });
        let altered = altered.collect();
        let mut draft = ShareDraft::of(self, steady_ms);
        draft.begin_initializing(&initialize, topics);
        AlteredOffsets { draft, offsets, topics: altered }
    }

    /// Begins to delete the state of topics. The group is empty.
    pub(in crate::group) fn delete_offsets(
        &self,
        names: &[String],
        topics: &dyn Topics,
        steady_ms: i64,
    ) -> DeletedOffsets {
        let (mut partitions, mut deleted, mut refused) = (Partitions::new(), Vec::new(), Vec::new());
        let Some(before) = &self.state else {
            // As in Kafka: a group that has never had state says nothing about the topics.
            let draft = ShareDraft::of(self, steady_ms);
            return DeletedOffsets { draft, partitions, topics: deleted, refused };
        };
        let mut state = before.clone();
        for name in names {
            let topic = |topic_id, error| DeletedTopic { name: name.clone(), topic_id, error };
            let Some((id, count)) = topics.by_name(name) else {
                refused.push(topic(Uuid::ZERO, Some(GroupError::UnknownTopicOrPartition)));
                continue;
            };
            let indexes = match state.initialized.remove(&id) {
                Some(initialized) => initialized.partitions,
                None if state.deleting.contains_key(&id) => (0..count).collect(),
                None => {
                    refused.push(topic(Uuid::ZERO, Some(GroupError::NoShareOffsets)));
                    continue;
                }
            };
            state.deleting.insert(id, name.clone());
            if partitions.insert(id, indexes).is_none() {
                deleted.push(topic(id, None));
            }
        }
        let draft = self.with_state(state, topics, steady_ms);
        DeletedOffsets { draft, partitions, topics: deleted, refused }
    }

    /// The group once the state of these topics is deleted.
    pub(in crate::group) fn deleted_offsets(
        &self,
        deleted: &[DeletedTopic],
        topics: &dyn Topics,
        steady_ms: i64,
    ) -> ShareDraft {
        let mut state = self.state.clone().unwrap_or_default();
        let ids: BTreeSet<Uuid> = deleted.iter().map(|topic| topic.topic_id).collect();
        state.deleting.retain(|id, _| !ids.contains(id));
        self.with_state(state, topics, steady_ms)
    }
}
