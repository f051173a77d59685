//! Conversion between classic groups and consumer groups (the migration of KIP-848).

use super::reconcile::STABLE;
use super::{ConsumerGroup, Draft};
use crate::group::classic::{ClassicGroup, Migrant};
use crate::group::error::GroupError;
use crate::group::records::{ConsumerRecord, CurrentValue, EpochValue, Partitions, Record, TargetEpoch};
use crate::group::topics::Topics;

impl ConsumerGroup {
    /// A consumer group of a classic group's members: each member keeps the last assignment of the
    /// leader.
    ///
    /// # Errors
    /// Same as [`ClassicGroup::emigrate`].
    pub(in crate::group) fn from_classic(
        classic: &ClassicGroup,
        topics: &dyn Topics,
        max_size: usize,
    ) -> Result<Draft, GroupError> {
        let (epoch, members) = classic.emigrate(topics, max_size)?;
        let mut draft = Draft { group: Self::new(classic.id().to_owned()), records: Vec::new() };
        draft.records.push(Record::Group(classic.id().to_owned(), None));
        for member in &members {
            draft.write(ConsumerRecord::Member(member.id.clone(), Some(member.metadata.clone())));
        }
        let metadata_hash = super::hash::metadata_hash(&draft.group.subscribed(), topics);
        draft.write(ConsumerRecord::Epoch(Some(EpochValue { epoch, metadata_hash })));
        for member in &members {
            draft.write(ConsumerRecord::Target(member.id.clone(), Some(member.assigned.clone())));
        }
        draft.write(ConsumerRecord::TargetEpoch(Some(TargetEpoch { epoch, timestamp_ms: 0 })));
        for Migrant { id, assigned, .. } in members {
            let since = |partitions: std::collections::BTreeSet<i32>| {
                partitions.into_iter().map(|index| (index, epoch)).collect()
            };
            let assigned = assigned.into_iter().map(|(topic, partitions)| (topic, since(partitions)));
            let current = CurrentValue {
                epoch,
                previous_epoch: epoch,
                state: STABLE,
                assigned: assigned.collect(),
                ..CurrentValue::default()
            };
            draft.write(ConsumerRecord::Current(id, Some(current)));
        }
        Ok(draft)
    }

    /// Number of members the group has.
    pub(in crate::group) fn size(&self) -> usize {
        self.members.len()
    }

    /// True if there is a static member of that name.
    pub(in crate::group) fn has_instance(&self, instance: Option<&str>) -> bool {
        instance.is_some_and(|instance| self.static_members.contains_key(instance))
    }

    /// True if the group has members and all of them use the classic protocol.
    pub(in crate::group) fn is_all_classic(&self) -> bool {
        !self.members.is_empty() && self.members.values().all(|member| member.metadata.classic.is_some())
    }
}

impl Draft {
    /// The group as a classic one of this generation, and the records that make it so; the members
    /// must all be classic.
    pub(in crate::group) fn into_classic(
        self,
        generation: i32,
        topics: &dyn Topics,
        now_ms: i64,
    ) -> (ClassicGroup, Vec<Record>) {
        let Self { group, mut records } = self;
        let members = group.members.iter().map(|(id, member)| Migrant {
            id: id.clone(),
            metadata: (*member.metadata).clone(),
            assigned: group.targets.get(id).cloned().unwrap_or_else(Partitions::new),
        });
        let classic =
            ClassicGroup::immigrate(group.id.clone(), generation, members.collect(), topics, now_ms);
        records.extend(group.tombstones());
        records.push(classic.as_record());
        (classic, records)
    }
}
