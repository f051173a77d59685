//! Topics and partitions of an image.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use levada_wire::primitives::Uuid;

use super::ApplyError;
use crate::records::{LEADER_UNCHANGED, NO_LEADER, PartitionChangeRecord, PartitionRecord, TopicRecord};

/// Every topic, by name and by id.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    ids: Arc<BTreeMap<Arc<str>, Uuid>>,
    topics: Arc<HashMap<Uuid, Arc<Topic>>>,
}

/// One topic.
#[derive(Clone, Debug)]
pub struct Topic {
    name: Arc<str>,
    id: Uuid,
    partitions: BTreeMap<i32, PartitionRegistration>,
}

/// One partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionRegistration {
    /// Broker id, or [`NO_LEADER`].
    pub leader: i32,
    /// Grows whenever the leader changes.
    pub leader_epoch: i32,
    /// Grows with every change.
    pub partition_epoch: i32,
    /// 0 recovered, 1 recovering.
    pub leader_recovery_state: i8,
    /// Broker ids in order of preference.
    pub replicas: Vec<i32>,
    /// Log directory of each replica, in the order of `replicas`.
    pub directories: Vec<Uuid>,
    /// The replicas in sync.
    pub isr: Vec<i32>,
    /// Replicas that are being removed.
    pub removing_replicas: Vec<i32>,
    /// Replicas that are being added.
    pub adding_replicas: Vec<i32>,
    /// Replicas that may lead though not in sync.
    pub eligible_leader_replicas: Vec<i32>,
    /// Last known eligible leaders, broker ids.
    pub last_known_elr: Vec<i32>,
}

impl Topics {
    /// The topic of that name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(self.ids.get(name)?)
    }

    /// The topic of that id.
    pub fn by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.topics.get(&id)
    }

    /// All topics in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.ids.values().filter_map(|id| self.topics.get(id))
    }

    /// True if no topic or partition can be another than in `other`.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.topics, &other.topics)
    }

    /// Topics that are new, or may be another than in `before`, in the order of their names.
    pub fn changed_since(&self, before: &Self) -> impl Iterator<Item = &Arc<Topic>> {
        // Most images of a cluster have the same topics as before: then this walks over no topics.
        let all = (!self.is_same(before)).then(|| self.iter());
        let all = all.into_iter().flatten();
        all.filter(|topic| before.by_id(topic.id).is_none_or(|earlier| !Arc::ptr_eq(earlier, topic)))
    }

    /// Number of topics.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn add(&mut self, record: &TopicRecord) -> Result<(), ApplyError> {
        if self.ids.contains_key(&*record.name) || self.topics.contains_key(&record.topic_id) {
            return Err(ApplyError::TopicExists { name: record.name.clone() });
        }
        let name: Arc<str> = Arc::from(&*record.name);
        let topic = Topic { name: Arc::clone(&name), id: record.topic_id, partitions: BTreeMap::new() };
        Arc::make_mut(&mut self.ids).insert(name, record.topic_id);
        Arc::make_mut(&mut self.topics).insert(record.topic_id, Arc::new(topic));
        Ok(())
    }

    /// Removes a topic and returns its name.
    pub(super) fn remove(&mut self, topic_id: Uuid) -> Result<Arc<str>, ApplyError> {
        let topic =
            Arc::make_mut(&mut self.topics).remove(&topic_id).ok_or(ApplyError::NoTopic { topic_id })?;
        Arc::make_mut(&mut self.ids).remove(&topic.name);
        Ok(Arc::clone(&topic.name))
    }

    pub(super) fn put_partition(&mut self, record: &PartitionRecord) -> Result<(), ApplyError> {
        let topic = self.topic_mut(record.topic_id)?;
        let index = record.partition_id;
        if index < 0 {
            return Err(ApplyError::NegativePartition { topic: topic.name.to_string(), partition: index });
        }
        topic.partitions.insert(index, PartitionRegistration::from(record));
        Ok(())
    }

    pub(super) fn change_partition(&mut self, change: &PartitionChangeRecord) -> Result<(), ApplyError> {
        let topic = self.topic_mut(change.topic_id)?;
        let index = change.partition_id;
        let Some(partition) = topic.partitions.get_mut(&index) else {
            return Err(ApplyError::NoPartition { topic: topic.name.to_string(), partition: index });
        };
        partition.change(change);
        Ok(())
    }

    pub(super) fn clear_elr(&mut self, name: &str) -> Result<(), ApplyError> {
        let ids: Vec<Uuid> = if name.is_empty() {
            self.ids.values().copied().collect()
        } else {
            let id = self.ids.get(name).ok_or_else(|| ApplyError::NoTopicNamed { name: name.to_owned() })?;
            vec![*id]
        };
        for id in ids {
            for partition in self.topic_mut(id)?.partitions.values_mut() {
                partition.clear_elr();
            }
        }
        Ok(())
    }

    fn topic_mut(&mut self, topic_id: Uuid) -> Result<&mut Topic, ApplyError> {
        let topic =
            Arc::make_mut(&mut self.topics).get_mut(&topic_id).ok_or(ApplyError::NoTopic { topic_id })?;
        Ok(Arc::make_mut(topic))
    }
}

impl Topic {
    /// Name of the topic.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Id of the topic.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Number of partitions it has.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Registration of a partition.
    pub fn partition(&self, index: i32) -> Option<&PartitionRegistration> {
        self.partitions.get(&index)
    }

    /// All partitions in order.
    pub fn partitions(&self) -> impl Iterator<Item = (i32, &PartitionRegistration)> {
        self.partitions.iter().map(|(index, partition)| (*index, partition))
    }
}

impl PartitionRegistration {
    /// True if it has a leader.
    pub fn has_leader(&self) -> bool {
        self.leader != NO_LEADER
    }

    /// The record with all of these fields.
    pub fn to_record(&self, topic_id: Uuid, partition_id: i32) -> PartitionRecord {
        let unless_empty = |ids: &[i32]| (!ids.is_empty()).then(|| ids.to_vec());
        PartitionRecord {
            partition_id,
            topic_id,
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
            removing_replicas: self.removing_replicas.clone(),
            adding_replicas: self.adding_replicas.clone(),
            leader: self.leader,
            leader_recovery_state: self.leader_recovery_state,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            directories: self.directories.clone(),
            eligible_leader_replicas: unless_empty(&self.eligible_leader_replicas),
            last_known_elr: unless_empty(&self.last_known_elr),
        }
    }

    fn change(&mut self, change: &PartitionChangeRecord) {
        let replace = |field: &mut Vec<i32>, value: &Option<Vec<i32>>| {
            if let Some(value) = value {
                field.clone_from(value);
            }
        };
        replace(&mut self.isr, &change.isr);
        replace(&mut self.replicas, &change.replicas);
        replace(&mut self.removing_replicas, &change.removing_replicas);
        replace(&mut self.adding_replicas, &change.adding_replicas);
        replace(&mut self.eligible_leader_replicas, &change.eligible_leader_replicas);
        replace(&mut self.last_known_elr, &change.last_known_elr);
        if let Some(directories) = &change.directories {
            self.directories.clone_from(directories);
        }
        if change.leader_recovery_state >= 0 {
            self.leader_recovery_state = change.leader_recovery_state;
        }
        // The record does not contain the epochs: they follow from the change. A record with a
        // leader, even the same leader, begins a new leader epoch.
        if change.leader != LEADER_UNCHANGED {
            self.leader = change.leader;
            self.leader_epoch = self.leader_epoch.saturating_add(1);
        }
        self.partition_epoch = self.partition_epoch.saturating_add(1);
    }

    fn clear_elr(&mut self) {
        if self.eligible_leader_replicas.is_empty() && self.last_known_elr.is_empty() {
            return;
        }
        self.eligible_leader_replicas.clear();
        self.last_known_elr.clear();
        self.partition_epoch = self.partition_epoch.saturating_add(1);
    }
}

impl From<&PartitionRecord> for PartitionRegistration {
    fn from(record: &PartitionRecord) -> Self {
        Self {
            leader: record.leader,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
            leader_recovery_state: record.leader_recovery_state,
            replicas: record.replicas.clone(),
            directories: record.directories.clone(),
            isr: record.isr.clone(),
            removing_replicas: record.removing_replicas.clone(),
            adding_replicas: record.adding_replicas.clone(),
            eligible_leader_replicas: record.eligible_leader_replicas.clone().unwrap_or_default(),
            last_known_elr: record.last_known_elr.clone().unwrap_or_default(),
        }
    }
}
