//! The image: the state of the metadata log as one immutable value.
//!
//! Readers hold an `Arc<Image>` and never lock. The writer clones the image (its parts are shared,
//! so this is a handful of reference counts), applies records, and publishes the result. Applying a
//! record copies the changed part; the rest stays shared.

mod access;
mod brokers;
mod dump;
mod quotas;
mod replay;
#[cfg(test)]
pub(crate) mod tests;
mod topics;

use std::collections::BTreeMap;
use std::sync::Arc;

use levada_wire::primitives::Uuid;

use super::features::KRAFT_VERSION;
use super::records::{ConfigRecord, DelegationTokenRecord, Opaque, Record};

pub use self::access::{Acls, Credentials};
pub use self::brokers::{BrokerRegistration, Brokers};
pub use self::quotas::{QuotaEntity, QuotaLimits, QuotaPart, Quotas};
pub use self::replay::Replay;
pub use self::topics::{PartitionRegistration, Topic, Topics};

/// Key of topics whose older segments move to a remote storage.
pub const REMOTE_STORAGE: &str = "remote.storage.enable";

/// The state of the cluster after one record of the metadata log.
#[derive(Clone, Debug, Default)]
pub struct Image {
    offset: i64,
    epoch: i32,
    timestamp_ms: i64,
    topics: Topics,
    brokers: Brokers,
    configs: Arc<BTreeMap<ConfigResource, Arc<BTreeMap<String, String>>>>,
    /// Values of resources of unknown types, by type, resource and key: only for snapshots.
    unknown_configs: Arc<BTreeMap<(i8, String, String), String>>,
    features: Arc<BTreeMap<String, i16>>,
    kraft_version: i16,
    next_producer_id: i64,
    quotas: Quotas,
    credentials: Credentials,
    acls: Acls,
    /// Delegation tokens by id.
    tokens: Arc<BTreeMap<String, DelegationTokenRecord>>,
    /// The latest record of each kind that is kept but not acted on, by the number of the kind.
    kept: Arc<BTreeMap<u16, Opaque>>,
}

impl Image {
    /// The state before the first record.
    pub fn empty() -> Self {
        Self { offset: -1, ..Self::default() }
    }

    /// Offset of the last record applied, -1 for none. Also the "finalized features epoch" clients
    /// see.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Leader epoch of the last record applied.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Time of the last record applied, in milliseconds since 1970.
    pub fn timestamp_ms(&self) -> i64 {
        self.timestamp_ms
    }

    /// All topics.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// The topic of that name.
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.by_name(name)
    }

    /// The topic of that id.
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.topics.by_id(id)
    }

    /// All registered nodes.
    pub fn brokers(&self) -> &Brokers {
        &self.brokers
    }

    /// Settings of one resource, `None` if there are none.
    pub fn configs(&self, resource: &ConfigResource) -> Option<&Arc<BTreeMap<String, String>>> {
        self.configs.get(resource)
    }

    /// True if older segments of the topic move to a remote storage.
    pub fn is_tiered(&self, topic: &str) -> bool {
        let own = self.configs(&ConfigResource::topic(topic));
        own.and_then(|own| own.get(REMOTE_STORAGE)).is_some_and(|value| value == "true")
    }

    /// Every resource with a stored configuration, in order.
    pub fn config_resources(&self) -> impl Iterator<Item = (&ConfigResource, &BTreeMap<String, String>)> {
        self.configs.iter().map(|(resource, values)| (resource, &**values))
    }

    /// Resources whose configuration differs from that in `before`. A broker's also counts if it
    /// was set to the same values again: this makes a broker reload its key stores.
    pub fn configs_changed_since<'a>(&'a self, before: &'a Self) -> Vec<&'a ConfigResource> {
        if Arc::ptr_eq(&self.configs, &before.configs) {
            return Vec::new();
        }
        // The image copies values before a record sets them, so that unchanged values are shared
        // with the earlier image.
        let is_set = |(resource, values): &(&'a ConfigResource, &Arc<BTreeMap<String, String>>)| {
            before.configs.get(*resource).is_none_or(|earlier| {
                let is_same = || resource.kind != ResourceKind::Broker && earlier == *values;
                !Arc::ptr_eq(earlier, values) && !is_same()
            })
        };
        let set = self.configs.iter().filter(is_set).map(|(resource, _)| resource);
        let unset = before.configs.keys().filter(|resource| !self.configs.contains_key(*resource));
        set.chain(unset).collect()
    }

    /// Finalized features and their levels, by name.
    pub fn features(&self) -> &BTreeMap<String, i16> {
        &self.features
    }

    /// The level of the quorum's own feature, which is in control records: 1 if the log names the
    /// voters, 0 if the configuration does.
    pub fn kraft_version(&self) -> i16 {
        self.kraft_version
    }

    /// The first producer id that no block contains yet.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// Client quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// SCRAM credentials.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Entries of access control.
    pub fn acls(&self) -> &Acls {
        &self.acls
    }

    /// Delegation tokens by id.
    pub fn tokens(&self) -> &Arc<BTreeMap<String, DelegationTokenRecord>> {
        &self.tokens
    }

    /// The latest record of each kind that is kept but not acted on.
    pub fn kept(&self) -> impl Iterator<Item = &Opaque> {
        self.kept.values()
    }

    /// Applies the record at `position`. On an error the image is unchanged.
    ///
    /// Transactions are not this function's business: [`Replay`] takes care that the records
    /// between a begin and an end record arrive here together.
    pub fn apply(&mut self, record: &Record, position: Position) -> Result<(), ApplyError> {
        match record {
            Record::Topic(topic) => self.topics.add(topic)?,
            Record::RemoveTopic(topic) => {
                let name = self.topics.remove(topic.topic_id)?;
                Arc::make_mut(&mut self.configs).remove(&ConfigResource::topic(&*name));
            }
            Record::Partition(partition) => self.topics.put_partition(partition)?,
            Record::PartitionChange(change) => self.topics.change_partition(change)?,
            Record::ClearElr(clear) => self.topics.clear_elr(&clear.topic_name)?,
            Record::Config(config) => self.set_config(config),
            // Earlier controllers of Kafka wrote this record too. The control record has the level.
            Record::FeatureLevel(feature) if feature.name == KRAFT_VERSION => {}
            Record::FeatureLevel(feature) => {
                let features = Arc::make_mut(&mut self.features);
                if feature.feature_level == 0 {
                    features.remove(&feature.name);
                } else {
                    features.insert(feature.name.clone(), feature.feature_level);
                }
            }
            Record::ProducerIds(ids) => {
                if ids.next_producer_id < self.next_producer_id {
                    return Err(ApplyError::ProducerIdsBackwards {
                        from: self.next_producer_id,
                        to: ids.next_producer_id,
                    });
                }
                self.next_producer_id = ids.next_producer_id;
            }
            Record::ClientQuota(quota) => self.quotas.apply(quota),
            Record::UserScramCredential(record) => self.credentials.put(record),
            Record::RemoveUserScramCredential(record) => self.credentials.remove(record)?,
            Record::AccessControlEntry(record) => self.acls.put(record)?,
            Record::RemoveAccessControlEntry(record) => self.acls.remove(record.id)?,
            Record::RegisterBroker(broker) => self.brokers.register(broker),
            Record::UnregisterBroker(broker) => self.brokers.unregister(broker)?,
            Record::BrokerRegistrationChange(change) => self.brokers.change(change)?,
            Record::FenceBroker(broker) => {
                self.brokers.set_fenced(broker.broker_id, broker.broker_epoch, true)?
            }
            Record::UnfenceBroker(broker) => {
                self.brokers.set_fenced(broker.broker_id, broker.broker_epoch, false)?;
            }
            Record::RegisterController(controller) => self.brokers.register_controller(controller),
            Record::UnregisterController(controller) => {
                self.brokers.unregister_controller(controller.controller_id);
            }
            Record::DelegationToken(token) => {
                Arc::make_mut(&mut self.tokens).insert(token.token_id.clone(), token.clone());
            }
            // Kafka's controller also removes tokens that it has removed before.
            Record::RemoveDelegationToken(token) => {
                Arc::make_mut(&mut self.tokens).remove(&token.token_id);
            }
            Record::Opaque(opaque) => {
                Arc::make_mut(&mut self.kept).insert(opaque.api_key, opaque.clone());
            }
            Record::NoOp(_)
            | Record::BeginTransaction(_)
            | Record::EndTransaction(_)
            | Record::AbortTransaction(_) => {}
        }
        self.advance(position);
        Ok(())
    }

    fn advance(&mut self, position: Position) {
        self.offset = position.offset;
        self.epoch = position.epoch;
        self.timestamp_ms = position.timestamp_ms;
    }

    fn set_config(&mut self, record: &ConfigRecord) {
        let (name, key) = (record.resource_name.clone(), record.name.clone());
        let Some(kind) = ResourceKind::from_id(record.resource_type) else {
            // Written by a later version. Kafka keeps the value too.
            let values = Arc::make_mut(&mut self.unknown_configs);
            let key = (record.resource_type, name, key);
            match &record.value {
                Some(value) => drop(values.insert(key, value.clone())),
                None => drop(values.remove(&key)),
            }
            return;
        };
        let resource = ConfigResource { kind, name };
        let configs = Arc::make_mut(&mut self.configs);
        let values = Arc::make_mut(configs.entry(resource.clone()).or_default());
        match &record.value {
            Some(value) => drop(values.insert(key, value.clone())),
            None => drop(values.remove(&key)),
        }
        if values.is_empty() {
            configs.remove(&resource);
        }
    }
}

/// Position of a record in the metadata log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Offset in the metadata log.
    pub offset: i64,
    /// Leader epoch of its batch.
    pub epoch: i32,
    /// Time of its batch, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

/// A resource with a configuration.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConfigResource {
    /// Kind of the resource.
    pub kind: ResourceKind,
    /// Topic name, node id as text, client or group name; empty for all brokers together.
    pub name: String,
}

impl ConfigResource {
    /// The topic of that name.
    pub fn topic(name: impl Into<String>) -> Self {
        Self { kind: ResourceKind::Topic, name: name.into() }
    }

    /// The resource of a single broker.
    pub fn broker(node_id: i32) -> Self {
        Self { kind: ResourceKind::Broker, name: node_id.to_string() }
    }

    /// The default for all brokers.
    pub fn all_brokers() -> Self {
        Self { kind: ResourceKind::Broker, name: String::new() }
    }
}

/// Kinds of configurable things, with Kafka's numbers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(i8)]
pub enum ResourceKind {
    /// A topic.
    Topic = 2,
    /// A broker, or all of them.
    Broker = 4,
    /// A broker's log levels; never stored.
    BrokerLogger = 8,
    /// A client metrics subscription.
    ClientMetrics = 16,
    /// A group.
    Group = 32,
}

impl ResourceKind {
    /// Kafka's number for this kind.
    pub fn id(self) -> i8 {
        self as i8
    }

    /// The kind with that number.
    pub fn from_id(id: i8) -> Option<Self> {
        [Self::Topic, Self::Broker, Self::BrokerLogger, Self::ClientMetrics, Self::Group]
            .into_iter()
            .find(|kind| kind.id() == id)
    }
}

/// A record that contradicts earlier records: the metadata log is damaged or invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ApplyError {
    #[error("topic {} does not exist", super::uuid::text(*topic_id))]
    NoTopic { topic_id: Uuid },
    #[error("topic {name} does not exist")]
    NoTopicNamed { name: String },
    #[error("topic {name} already exists")]
    TopicExists { name: String },
    #[error("partition {partition} of topic {topic} does not exist")]
    NoPartition { topic: String, partition: i32 },
    #[error("partition number {partition} of topic {topic} is negative")]
    NegativePartition { topic: String, partition: i32 },
    #[error("broker {broker_id} with epoch {broker_epoch} is not registered")]
    NoBroker { broker_id: i32, broker_epoch: i64 },
    #[error("user {user} has no credential for SCRAM mechanism {mechanism}")]
    NoCredential { user: String, mechanism: i8 },
    #[error("access control entry {} does not exist", super::uuid::text(*id))]
    NoAcl { id: Uuid },
    #[error("access control entry {} has an unknown enum value", super::uuid::text(*id))]
    UnknownAcl { id: Uuid },
    #[error("producer ids decrease from {from} to {to}")]
    ProducerIdsBackwards { from: i64, to: i64 },
    #[error("a metadata transaction begins inside the one that began at offset {open}")]
    NestedTransaction { open: i64 },
    #[error("metadata log: {record} ends a transaction without a BeginTransactionRecord")]
    NoTransaction { record: &'static str },
}
