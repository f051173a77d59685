//! A share group (KIP-932): members share partitions, and a partition may be with many members.
//!
//! As in consumer groups, the group's state is the state of its records, and a request works on a
//! copy, a [`ShareDraft`], which replaces the group once its records are in the log. Reconciliation
//! is a single step: no member has to give a partition up before another takes it.
//!
//! Only partitions whose state the share coordinator has initialized are assigned. The group knows
//! the other ones that its members subscribe to, and the coordinator's host has their state
//! initialized (`share/state.rs`).
//!
//! Differences to Kafka 4.3, which there keeps wrong state or raises the epoch with every
//! heartbeat: the end of an initialization does not count for partitions whose deletion has begun
//! since, nor for topics that are gone; state of topics that are gone asks for no assignment; a
//! clock that was set back delays no assignment. A start offset counts as set once the record of it
//! is in the log.

mod assign;
mod beat;
mod offsets;
mod state;
mod target;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::assign::SHARE_ASSIGNOR;
pub(in crate::group) use self::beat::BeatLimits;
pub(in crate::group) use self::offsets::{AlteredOffsets, DeletedOffsets};
use super::records::{
    EpochValue, Partitions, Record, ShareCurrentValue, ShareMemberMetadata, ShareRecord, StatePartitions,
    TargetEpoch,
};
use super::topics::Topics;

/// State of a member that has its target assignment.
const STABLE: i8 = 0;
/// The epochs of a new group, and of its target assignment.
const FIRST_EPOCH: i32 = 1;

/// A share group and its members.
#[derive(Clone, Debug)]
pub(super) struct ShareGroup {
    id: String,
    epoch: i32,
    metadata_hash: i64,
    target: TargetEpoch,
    members: BTreeMap<String, ShareMember>,
    targets: BTreeMap<String, Partitions>,
    /// Number of subscribers of each topic. No number is zero.
    subscribed: BTreeMap<String, usize>,
    /// Partitions with state; `None` if the log has no record of it.
    state: Option<StatePartitions>,
    /// Time of the last record of `state`, by the monotonic clock.
    state_since_ms: i64,
    /// True if topics may have changed since the hash was last compared.
    stale: bool,
    /// True if some initialized partitions of subscribed topics are assigned to no member.
    has_unassigned: bool,
}

/// A member: its subscription, which copies of the group share, and its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShareMember {
    metadata: Arc<ShareMemberMetadata>,
    current: ShareCurrentValue,
}

impl Default for ShareMember {
    fn default() -> Self {
        let current = ShareCurrentValue { previous_epoch: -1, ..ShareCurrentValue::default() };
        Self { metadata: Arc::default(), current }
    }
}

impl ShareMember {
    fn is_reconciled(&self, epoch: i32) -> bool {
        self.current.state == STABLE && self.current.epoch == epoch
    }
}

impl ShareGroup {
    /// A group that has never had a member.
    pub(super) fn new(id: String) -> Self {
        Self {
            id,
            epoch: FIRST_EPOCH,
            metadata_hash: 0,
            target: TargetEpoch { epoch: FIRST_EPOCH, timestamp_ms: 0 },
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
            subscribed: BTreeMap::new(),
            state: None,
            state_since_ms: 0,
            stale: true,
            has_unassigned: false,
        }
    }

    /// The group's id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The group's epoch.
    pub(super) fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Ids of the members.
    pub(super) fn member_ids(&self) -> impl Iterator<Item = &String> {
        self.members.keys()
    }

    /// Notes that topics were created, deleted or extended.
    pub(super) fn topics_changed(&mut self, topics: &dyn Topics) {
        self.stale = true;
        self.settle(topics);
    }

    /// Completes the load, after every record of the log has been applied. The times of
    /// initializations in progress start now.
    pub(super) fn loaded(&mut self, topics: &dyn Topics, steady_ms: i64) {
        self.state_since_ms = steady_ms;
        self.topics_changed(topics);
    }

    /// Searches for partitions that no member has. To be called after the last of some records.
    pub(super) fn settle(&mut self, topics: &dyn Topics) {
        self.has_unassigned = self.finds_unassigned(topics);
    }

    /// Applies a record.
    pub(super) fn apply(&mut self, record: ShareRecord) {
        match record {
            ShareRecord::Epoch(value) => {
                let first = EpochValue { epoch: FIRST_EPOCH, metadata_hash: 0 };
                let EpochValue { epoch, metadata_hash } = value.unwrap_or(first);
                (self.epoch, self.metadata_hash) = (epoch, metadata_hash);
            }
            ShareRecord::Member(member_id, Some(metadata)) => self.subscribe(member_id, metadata),
            ShareRecord::Member(member_id, None) => {
                if let Some(member) = self.members.remove(&member_id) {
                    self.count_out(&member.metadata);
                }
            }
            ShareRecord::TargetEpoch(value) => {
                self.target = value.unwrap_or(TargetEpoch { epoch: -1, timestamp_ms: 0 });
            }
            ShareRecord::Target(member_id, Some(target)) => {
                self.targets.insert(member_id, target);
            }
            ShareRecord::Target(member_id, None) => {
                self.targets.remove(&member_id);
            }
            ShareRecord::Current(member_id, Some(current)) => {
                self.members.entry(member_id).or_default().current = current;
            }
            ShareRecord::Current(member_id, None) => {
                if let Some(member) = self.members.get_mut(&member_id) {
                    member.current = ShareMember::default().current;
                }
            }
            ShareRecord::State(state) => self.state = state,
        }
    }

    fn subscribe(&mut self, member_id: String, metadata: ShareMemberMetadata) {
        for topic in &metadata.topics {
            *self.subscribed.entry(topic.clone()).or_default() += 1;
        }
        let before =
            std::mem::replace(&mut self.members.entry(member_id).or_default().metadata, Arc::new(metadata));
        self.count_out(&before);
    }

    fn count_out(&mut self, metadata: &ShareMemberMetadata) {
        for topic in &metadata.topics {
            if let Some(count) = self.subscribed.get_mut(topic) {
                *count -= 1;
                if *count == 0 {
                    self.subscribed.remove(topic);
                }
            }
        }
    }
}

/// A share group in the making: the group as it will be, and the records that make it so.
#[derive(Debug)]
pub(super) struct ShareDraft {
    /// The group as it will be.
    pub(super) group: ShareGroup,
    /// Records to append.
    pub(super) records: Vec<Record>,
    /// The time, by the monotonic clock.
    steady_ms: i64,
}

impl ShareDraft {
    /// A draft that begins with the state of the group.
    pub(super) fn of(group: &ShareGroup, steady_ms: i64) -> Self {
        Self { group: group.clone(), records: Vec::new(), steady_ms }
    }

    /// Writes a record, and applies it to the draft.
    fn write(&mut self, record: ShareRecord) {
        self.records.push(Record::Share(self.group.id.clone(), record.clone()));
        if matches!(record, ShareRecord::State(_)) {
            self.group.state_since_ms = self.steady_ms;
        }
        self.group.apply(record);
    }
}

#[cfg(test)]
pub(in crate::group) mod tests;
