//! A consumer group (KIP-848): members state their subscriptions, and the broker assigns
//! partitions.
//!
//! The group's state is the state of its records. A request works on a copy, a [`Draft`], that
//! collects the records to write; the copy replaces the group once the records are in the log.
//! Until then the group does not change: the coordinator holds further requests. So memory is never
//! ahead of the log, and a failed append changes nothing.
//!
//! Two differences to Kafka 4.3: target assignments are computed immediately, not at intervals
//! (KIP-1263), and so are regular expressions, not by a background thread; but a new expression is
//! matched after the response to its member, as in Kafka. If topics change, a heartbeat matches a
//! few of the expressions again, and the heartbeat that matches the last one raises the epoch.

mod assign;
mod classic;
mod commit;
mod heartbeat;
mod leave;
mod migrate;
mod reconcile;
mod regexes;
mod target;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_wire::Uuid;

pub use self::assign::ASSIGNORS;
use super::hash;
use super::records::{
    ConsumerRecord, CurrentValue, EpochPartitions, MemberMetadata, Partitions, Record, RegexValue,
};
use super::topics::Topics;

/// Epoch of a static member that has left temporarily.
const LEFT_FOR_A_WHILE: i32 = -2;

/// A consumer group and its members.
#[derive(Clone, Debug)]
pub(super) struct ConsumerGroup {
    id: String,
    epoch: i32,
    metadata_hash: i64,
    /// True if the log has a record of topics from a version before 4.1, which must be removed.
    has_topics_record: bool,
    target_epoch: i32,
    /// Time of the target assignment; 0 if it is unknown.
    target_since_ms: i64,
    members: BTreeMap<String, Member>,
    /// Instance id of each static member, and the member id it has now.
    static_members: BTreeMap<String, String>,
    targets: BTreeMap<String, Partitions>,
    /// Owner of each partition, including partitions that are being revoked.
    owners: BTreeMap<(Uuid, i32), String>,
    regexes: BTreeMap<String, RegexValue>,
    /// True if topics may have changed since the hash was last compared.
    stale: bool,
    /// Known expressions that are to be matched again.
    rematch: BTreeSet<String>,
}

/// Minimum time between two target assignments of a group, and the present time.
#[derive(Clone, Copy, Debug)]
pub(super) struct AssignmentPace {
    pub(super) interval_ms: i32,
    pub(super) now_ms: i64,
}

/// A member: its subscription, which copies of the group share, and its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    metadata: Arc<MemberMetadata>,
    current: CurrentValue,
}

impl Default for Member {
    fn default() -> Self {
        // Kafka's values for a member that has not sent any.
        let metadata = MemberMetadata {
            regex: Some(String::new()),
            rebalance_timeout_ms: -1,
            ..MemberMetadata::default()
        };
        Self { metadata: Arc::new(metadata), current: CurrentValue::default() }
    }
}

impl Member {
    fn regex(&self) -> Option<&str> {
        self.metadata.regex.as_deref().filter(|regex| !regex.is_empty())
    }

    fn is_reconciled(&self, epoch: i32) -> bool {
        self.current.state == reconcile::STABLE && self.current.epoch == epoch
    }
}

impl ConsumerGroup {
    /// A group that has never had a member.
    pub(super) fn new(id: String) -> Self {
        Self {
            id,
            epoch: 1,
            metadata_hash: 0,
            has_topics_record: false,
            target_epoch: 0,
            target_since_ms: 0,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            targets: BTreeMap::new(),
            owners: BTreeMap::new(),
            regexes: BTreeMap::new(),
            stale: true,
            rematch: BTreeSet::new(),
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

    /// Notes that topics were created, deleted or extended.
    pub(super) fn topics_changed(&mut self) {
        self.stale = true;
        self.match_all_again();
    }

    /// Applies a record.
    pub(super) fn apply(&mut self, record: ConsumerRecord) {
        match record {
            ConsumerRecord::Epoch(value) => {
                self.epoch = value.map_or(1, |value| value.epoch);
                self.metadata_hash = value.map_or(0, |value| value.metadata_hash);
            }
            ConsumerRecord::Topics(value) => self.has_topics_record = value.is_some(),
            ConsumerRecord::Member(member_id, Some(metadata)) => {
                if let Some(instance) = &metadata.instance_id {
                    self.static_members.insert(instance.clone(), member_id.clone());
                }
                self.members.entry(member_id).or_default().metadata = Arc::new(metadata);
            }
            ConsumerRecord::Member(member_id, None) => self.forget(&member_id),
            ConsumerRecord::TargetEpoch(value) => {
                self.target_epoch = value.map_or(0, |value| value.epoch);
                self.target_since_ms = value.map_or(0, |value| value.timestamp_ms);
            }
            ConsumerRecord::Target(member_id, Some(target)) => {
                self.targets.insert(member_id, target);
            }
            ConsumerRecord::Target(member_id, None) => {
                self.targets.remove(&member_id);
            }
            ConsumerRecord::Current(member_id, current) => self.set_current(member_id, current),
            ConsumerRecord::Regex(regex, Some(value)) => {
                self.regexes.insert(regex, value);
            }
            ConsumerRecord::Regex(regex, None) => {
                self.regexes.remove(&regex);
                self.rematch.remove(&regex);
            }
        }
    }

    fn forget(&mut self, member_id: &str) {
        self.set_current(member_id.to_owned(), None);
        let Some(member) = self.members.remove(member_id) else { return };
        if let Some(instance) = &member.metadata.instance_id
            && self.static_members.get(instance).is_some_and(|current| current == member_id)
        {
            self.static_members.remove(instance);
        }
    }

    fn set_current(&mut self, member_id: String, current: Option<CurrentValue>) {
        if current.is_none() && !self.members.contains_key(&member_id) {
            return;
        }
        let member = self.members.entry(member_id.clone()).or_default();
        let before = std::mem::replace(&mut member.current, current.clone().unwrap_or_default());
        for partition in partitions_of(&before) {
            if self.owners.get(&partition).is_some_and(|owner| *owner == member_id) {
                self.owners.remove(&partition);
            }
        }
        for partition in current.iter().flat_map(partitions_of) {
            self.owners.insert(partition, member_id.clone());
        }
    }

    /// The topics that members subscribe to, by name or by expression.
    fn subscribed(&self) -> BTreeSet<String> {
        let named = self.members.values().flat_map(|member| member.metadata.topics.iter());
        let matched = self.regexes.values().flat_map(|regex| regex.topics.iter());
        named.chain(matched).cloned().collect()
    }

    /// The ids of the existing topics to which the member subscribes.
    fn subscribed_ids(&self, member: &Member, topics: &dyn Topics) -> BTreeSet<Uuid> {
        let matched = member.regex().and_then(|regex| self.regexes.get(regex));
        let names = member.metadata.topics.iter().chain(matched.into_iter().flat_map(|regex| &regex.topics));
        names.filter_map(|name| Some(topics.by_name(name)?.0)).collect()
    }
}

/// Partitions that the member owns or has yet to revoke.
fn partitions_of(current: &CurrentValue) -> impl Iterator<Item = (Uuid, i32)> + '_ {
    let of = |partitions: &EpochPartitions| {
        let pairs =
            partitions.iter().flat_map(|(topic, partitions)| partitions.keys().map(|index| (*topic, *index)));
        pairs.collect::<Vec<_>>()
    };
    of(&current.assigned).into_iter().chain(of(&current.revoking))
}

/// A group in the making: the group as it will be, and the records that make it so.
#[derive(Debug)]
pub(super) struct Draft {
    /// The group as it will be.
    pub(super) group: ConsumerGroup,
    /// Records to append.
    pub(super) records: Vec<Record>,
}

impl Draft {
    /// A draft that begins with the state of the group.
    pub(super) fn of(group: &ConsumerGroup) -> Self {
        Self { group: group.clone(), records: Vec::new() }
    }

    /// Writes a record, and applies it to the draft.
    fn write(&mut self, record: ConsumerRecord) {
        self.records.push(Record::Consumer(self.group.id.clone(), record.clone()));
        self.group.apply(record);
    }
}

#[cfg(test)]
pub(in crate::group) mod tests;
