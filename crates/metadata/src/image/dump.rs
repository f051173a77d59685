//! Conversion of an image to records: the contents of a snapshot, in the order of Kafka's
//! controller.

use super::Image;
use crate::features::METADATA_VERSION;
use crate::records::{
    AccessControlEntryRecord, ClientQuotaRecord, ConfigRecord, FeatureLevelRecord, ProducerIdsRecord, Record,
    TopicRecord, UserScramCredentialRecord,
};

/// The image does not keep the broker that allocated producer ids.
const NOBODY: i32 = -1;

impl Image {
    /// Records that make this image out of an empty one, but for its position.
    pub fn to_records(&self) -> Vec<Record> {
        let mut records = self.feature_records();
        records.extend(self.brokers.controllers().cloned().map(Record::from));
        records.extend(self.brokers.iter().cloned().map(Record::from));
        for topic in self.topics.iter() {
            let (name, topic_id) = (topic.name().to_string(), topic.id());
            records.push(TopicRecord { name, topic_id }.into());
            let partitions = topic.partitions();
            records.extend(partitions.map(|(index, one)| Record::from(one.to_record(topic_id, index))));
        }
        records.extend(self.config_records());
        records.extend(self.unknown_config_records());
        records.extend(self.quota_records());
        if self.next_producer_id > 0 {
            let next_producer_id = self.next_producer_id;
            records.push(ProducerIdsRecord { broker_id: NOBODY, broker_epoch: -1, next_producer_id }.into());
        }
        records.extend(
            self.acls.iter().map(|(id, acl)| Record::from(AccessControlEntryRecord::of_acl(id, acl))),
        );
        records.extend(self.credential_records());
        records.extend(self.tokens.values().cloned().map(Record::from));
        records.extend(self.kept.values().cloned().map(Record::Opaque));
        records
    }

    /// The metadata version first: it may determine the form of later records.
    fn feature_records(&self) -> Vec<Record> {
        let (first, others): (Vec<_>, Vec<_>) =
            self.features.iter().partition(|(name, _)| *name == METADATA_VERSION);
        let record = |(name, level): (&String, &i16)| {
            FeatureLevelRecord { name: name.clone(), feature_level: *level }.into()
        };
        first.into_iter().chain(others).map(record).collect()
    }

    fn config_records(&self) -> impl Iterator<Item = Record> {
        self.configs.iter().flat_map(|(resource, values)| {
            values.iter().map(|(name, value)| {
                Record::from(ConfigRecord {
                    resource_type: resource.kind.id(),
                    resource_name: resource.name.clone(),
                    name: name.clone(),
                    value: Some(value.clone()),
                })
            })
        })
    }

    fn unknown_config_records(&self) -> impl Iterator<Item = Record> {
        self.unknown_configs.iter().map(|((resource_type, resource_name, name), value)| {
            Record::from(ConfigRecord {
                resource_type: *resource_type,
                resource_name: resource_name.clone(),
                name: name.clone(),
                value: Some(value.clone()),
            })
        })
    }

    fn quota_records(&self) -> impl Iterator<Item = Record> {
        self.quotas.iter().flat_map(|(entity, limits)| {
            limits.iter().map(|(key, value)| {
                Record::from(ClientQuotaRecord {
                    entity: entity.iter().cloned().collect(),
                    key: key.clone(),
                    value: *value,
                    remove: false,
                })
            })
        })
    }

    fn credential_records(&self) -> impl Iterator<Item = Record> {
        self.credentials.iter().map(|(user, mechanism, credential)| {
            Record::from(UserScramCredentialRecord {
                name: user.to_owned(),
                mechanism,
                salt: credential.salt.clone(),
                stored_key: credential.stored_key.clone(),
                server_key: credential.server_key.clone(),
                iterations: credential.iterations,
            })
        })
    }
}
