//! Committed offsets of groups, and pending offsets of open transactions.
//!
//! The store changes only by records that are in the log, so that its results survive a restart.

pub(super) mod expiry;

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::Uuid;

use self::expiry::Retention;
use super::error::GroupError;
use super::records::{OffsetKey, OffsetValue};
use super::request::{FetchTopic, FetchedPartition, FetchedTopic};
use super::topics::{GoneTopic, same_topic};

/// Committed offsets by group, topic and partition.
#[derive(Debug, Default)]
pub(super) struct OffsetStore {
    committed: BTreeMap<String, GroupOffsets>,
    /// Commits of open transactions, by producer.
    pending: BTreeMap<i64, BTreeMap<OffsetKey, Stored>>,
    /// Producers whose open transaction has a commit for this partition. Never an empty set.
    open: BTreeMap<OffsetKey, BTreeSet<i64>>,
}

type GroupOffsets = BTreeMap<String, BTreeMap<i32, Stored>>;

/// A committed offset and where in the log its record is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    value: OffsetValue,
    record_offset: i64,
}

impl OffsetStore {
    /// Applies a record of the log. A record of a transaction waits for the transaction's end.
    pub(super) fn apply(
        &mut self,
        record_offset: i64,
        transaction: Option<i64>,
        key: OffsetKey,
        value: Option<OffsetValue>,
    ) {
        let Some(value) = value else { return self.remove(&key) };
        let stored = Stored { value, record_offset };
        match transaction {
            None => self.put(key, stored),
            Some(producer_id) => {
                self.open.entry(key.clone()).or_default().insert(producer_id);
                self.pending.entry(producer_id).or_default().insert(key, stored);
            }
        }
    }

    /// Ends a transaction: its commits become valid, or are dropped.
    pub(super) fn end_transaction(&mut self, producer_id: i64, committed: bool) {
        for (key, stored) in self.pending.remove(&producer_id).unwrap_or_default() {
            if let Some(producers) = self.open.get_mut(&key) {
                producers.remove(&producer_id);
                if producers.is_empty() {
                    self.open.remove(&key);
                }
            }
            // A plain commit made after the transaction's counts for more than when the transaction
            // ends.
            let newer = self.stored(&key).is_none_or(|other| other.record_offset < stored.record_offset);
            if committed && newer {
                self.put(key, stored);
            }
        }
    }

    /// Looks up offsets: the requested ones, or all of the group.
    pub(super) fn fetch(
        &self,
        group_id: &str,
        topics: Option<&[FetchTopic]>,
        require_stable: bool,
    ) -> Vec<FetchedTopic> {
        let group = self.committed.get(group_id);
        let Some(topics) = topics else {
            let all = group.into_iter().flatten().map(|(name, partitions)| FetchedTopic {
                name: name.clone(),
                topic_id: Uuid::ZERO,
                partitions: self.fetch_partitions(
                    (group_id, name),
                    partitions.iter().map(|(index, stored)| (*index, Some(stored))),
                    require_stable,
                ),
            });
            return all.collect();
        };
        let asked = topics.iter().map(|topic| {
            let partitions = group.and_then(|group| group.get(&topic.name));
            let known = topic.partitions.iter().map(|index| {
                let stored = partitions.and_then(|partitions| partitions.get(index));
                (*index, stored.filter(|stored| same_topic(stored.value.topic_id, topic.topic_id)))
            });
            FetchedTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: self.fetch_partitions((group_id, &topic.name), known, require_stable),
            }
        });
        asked.collect()
    }

    /// The committed offsets of a group: topic, partition, offset.
    pub(super) fn committed(&self, group_id: &str) -> impl Iterator<Item = (&str, i32, i64)> {
        let topics = self.committed.get(group_id).into_iter().flatten();
        topics.flat_map(|(topic, partitions)| {
            let offset = |(index, stored): (&i32, &Stored)| (topic.as_str(), *index, stored.value.offset);
            partitions.iter().map(offset)
        })
    }

    fn fetch_partitions<'a>(
        &self,
        (group_id, topic): (&str, &str),
        partitions: impl Iterator<Item = (i32, Option<&'a Stored>)>,
        require_stable: bool,
    ) -> Vec<FetchedPartition> {
        let fetched = partitions.map(|(index, stored)| {
            let unstable = require_stable && self.is_pending(group_id, topic, index);
            match stored.filter(|_| !unstable) {
                Some(Stored { value, .. }) => FetchedPartition {
                    index,
                    offset: value.offset,
                    leader_epoch: value.leader_epoch,
                    metadata: value.metadata.clone(),
                    error: None,
                },
                None => FetchedPartition {
                    index,
                    offset: -1,
                    leader_epoch: -1,
                    metadata: String::new(),
                    error: unstable.then_some(GroupError::UnstableOffsetCommit),
                },
            }
        });
        fetched.collect()
    }

    /// Every offset of the group, committed or pending: a deletion of the group removes these.
    pub(super) fn keys_of_group(&self, group_id: &str) -> Vec<OffsetKey> {
        let committed = self.committed.get(group_id).into_iter().flatten();
        let committed = committed.flat_map(|(topic, partitions)| {
            partitions.keys().map(|&partition| key(group_id, topic, partition))
        });
        let keys: BTreeSet<OffsetKey> = committed.chain(self.pending_of_group(group_id).cloned()).collect();
        keys.into_iter().collect()
    }

    /// Every offset committed or pending for these topics: a deletion of the topics removes these.
    pub(super) fn keys_of_topics(&self, gone: &[GoneTopic]) -> Vec<OffsetKey> {
        let mut keys: BTreeSet<OffsetKey> = BTreeSet::new();
        for topic in gone {
            for (group_id, topics) in &self.committed {
                let known = topics.get(&topic.name).into_iter().flatten();
                let lost = known.filter(|(index, stored)| topic.had(**index, stored.value.topic_id));
                keys.extend(lost.map(|(index, _)| key(group_id, &topic.name, *index)));
            }
            let pending = self.pending.values().flatten().filter(|(key, stored)| {
                key.topic == topic.name && topic.had(key.partition, stored.value.topic_id)
            });
            keys.extend(pending.map(|(key, _)| key.clone()));
        }
        keys.into_iter().collect()
    }

    /// The group's expired offsets, and true if nothing of the group remains without them.
    pub(super) fn expired(
        &self,
        group_id: &str,
        retention: Option<&Retention<'_>>,
        now_ms: i64,
        retention_ms: i64,
    ) -> (Vec<OffsetKey>, bool) {
        let idle = self.pending_of_group(group_id).next().is_none();
        let Some(topics) = self.committed.get(group_id) else { return (Vec::new(), idle) };
        let Some(retention) = retention else { return (Vec::new(), false) };
        let (mut expired, mut all) = (Vec::new(), idle);
        for (topic, partitions) in topics {
            for (&partition, stored) in partitions {
                let due =
                    !retention.is_in_use(topic) && retention.is_over(&stored.value, now_ms, retention_ms);
                if due && !self.is_pending(group_id, topic, partition) {
                    expired.push(key(group_id, topic, partition));
                } else {
                    all = false;
                }
            }
        }
        (expired, all)
    }

    /// True if an offset is committed or pending.
    pub(super) fn has(&self, key: &OffsetKey) -> bool {
        self.stored(key).is_some() || self.open.contains_key(key)
    }

    /// True if anything is stored for the group.
    pub(super) fn has_group(&self, group_id: &str) -> bool {
        self.committed.contains_key(group_id) || self.pending_of_group(group_id).next().is_some()
    }

    fn put(&mut self, key: OffsetKey, stored: Stored) {
        let group = self.committed.entry(key.group_id).or_default();
        group.entry(key.topic).or_default().insert(key.partition, stored);
    }

    fn remove(&mut self, key: &OffsetKey) {
        if let Some(topics) = self.committed.get_mut(&key.group_id) {
            if let Some(partitions) = topics.get_mut(&key.topic) {
                partitions.remove(&key.partition);
                if partitions.is_empty() {
                    topics.remove(&key.topic);
                }
            }
            if topics.is_empty() {
                self.committed.remove(&key.group_id);
            }
        }
        for producer_id in self.open.remove(key).unwrap_or_default() {
            if let Some(pending) = self.pending.get_mut(&producer_id) {
                pending.remove(key);
            }
        }
    }

    fn stored(&self, key: &OffsetKey) -> Option<&Stored> {
        self.committed.get(&key.group_id)?.get(&key.topic)?.get(&key.partition)
    }

    fn is_pending(&self, group_id: &str, topic: &str, partition: i32) -> bool {
        !self.open.is_empty() && self.open.contains_key(&key(group_id, topic, partition))
    }

    fn pending_of_group<'a>(&'a self, group_id: &str) -> impl Iterator<Item = &'a OffsetKey> + use<'a> {
        let group_id = group_id.to_owned();
        let from = key(&group_id, "", i32::MIN);
        self.open.range(from..).map(|(key, _)| key).take_while(move |key| key.group_id == group_id)
    }
}

fn key(group_id: &str, topic: &str, partition: i32) -> OffsetKey {
    OffsetKey { group_id: group_id.to_owned(), topic: topic.to_owned(), partition }
}
