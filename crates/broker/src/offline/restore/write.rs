//! Data directories of a restored node.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use levada_base::Append;
use levada_base::batch::Builder;
use levada_config::{BrokerConfig, Values};
use levada_log::checkpoint::{OffsetCheckpoint, PartitionMetadata};
use levada_log::disk::{Disk, ReadFiles, RealDisk};
use levada_log::{LogConfig, OpenOptions, Writer};
use levada_metadata::controller::Decision;
use levada_metadata::image::ResourceKind;
use levada_metadata::records::{
    ConfigRecord, NO_LEADER, PartitionRecord, ProducerIdsRecord, Record, TopicRecord,
};
use levada_metadata::store::{Store as MetadataStore, StoreOptions};
use levada_metadata::uuid;
use levada_tiered::record::{METADATA_TOPIC, encode};
use levada_tiered::{RemoteRecord, RemoteSegment, SegmentState, SegmentUpdate, metadata_partition};
use levada_wire::Uuid;

use super::{
    RestoreError, RestorePlan, Restored, RestoredPartition, RestoredTopic, StorageError, check_role,
};
use crate::broker::store_options;
use crate::controller::remote_log_metadata_configs;
use crate::offline::{directories_of, format};
use crate::replica::TopicPartition;
use crate::replica::data_dir::{LOCK_FILE, lock};
use crate::replica::log_config::{log_config, topic_config};

/// Number of records in a batch of the metadata topic.
const BATCH_RECORDS: usize = 500;
/// Distance from the highest producer id in the store to the first one that the node assigns:
/// running producers may have ids that they have not used yet.
const PRODUCER_ID_DISTANCE: i64 = 1_000_000_000;

/// The node under restoration.
struct Node<'a> {
    config: &'a BrokerConfig,
    /// The directory of the partitions, and its id.
    dir: PathBuf,
    dir_id: Uuid,
    now_ms: i64,
    log_starts: BTreeMap<TopicPartition, i64>,
    records: Vec<Record>,
    /// The highest producer id in the logs.
    producer_id: Option<i64>,
}

/// Writes the data directories of a node whose configuration is `config`: the cluster of the plan,
/// or else `cluster_id`, or a new one. `progress` gets the number of written partitions and of all.
/// Blocks for the disk.
///
/// # Errors
/// A directory that is not empty, or a failing disk. The directories are then to be removed.
pub fn restore(
    config: &BrokerConfig,
    plan: &RestorePlan,
    (cluster_id, now_ms): (Option<&str>, i64),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Restored, RestoreError> {
    check_role(config)?;
    let cluster_id = match (&plan.cluster_id, cluster_id) {
        (Some(owner), Some(asked)) if owner != asked => {
            let (owner, asked) = (owner.clone(), asked.to_owned());
            return Err(RestoreError::OtherCluster { owner, asked });
        }
        (owner, asked) => owner.as_deref().or(asked),
    };
    let dirs = directories_of(config);
    for dir in &dirs {
        refuse_used(dir)?;
    }
    let formatted = format(config, cluster_id, (Vec::new(), now_ms), false)?;
    let _locks = dirs.iter().map(|dir| lock(dir)).collect::<Result<Vec<_>, _>>()?;
    let options = store_options(config, Arc::new(RealDisk), dirs[0].clone());
    let (mut metadata, _) = MetadataStore::open(&StoreOptions { serves_tiers: true, ..options }, now_ms)?;
    let dir = config.log_dirs.first().unwrap_or(&dirs[0]).clone();
    let found = formatted.iter().find(|one| one.path == dir).map(|one| one.identity.directory_id);
    let mut node = Node {
        config,
        dir,
        dir_id: Uuid::from_bytes(found.unwrap_or_default()),
        now_ms,
        log_starts: BTreeMap::new(),
        records: Vec::new(),
        producer_id: None,
    };
    let count = plan.partitions().count();
    let mut done = 0;
    for topic in &plan.topics {
        node.add_topic(topic, &mut || {
            done += 1;
            progress(done, count);
        })?;
    }
    node.add_metadata_topic(plan)?;
    let records = node.finish()?;
    metadata.update(now_ms, |_, _| Decision { records, outcome: () })?;
    let cluster_id = metadata.identity().cluster_id.clone();
    Ok(Restored { cluster_id, dirs })
}

/// Refuses a directory that contains anything but a lock file.
fn refuse_used(dir: &Path) -> Result<(), RestoreError> {
    let entries = match RealDisk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|source| StorageError::Unreadable { path: dir.to_owned(), source })?,
    };
    let is_ours = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name == LOCK_FILE || name == "lost+found"
    };
    if entries.iter().all(|entry| is_ours(&entry.path)) {
        Ok(())
    } else {
        Err(RestoreError::NotEmpty { path: dir.to_owned() })
    }
}

impl Node<'_> {
    fn add_topic(&mut self, topic: &RestoredTopic, progress: &mut dyn FnMut()) -> Result<(), RestoreError> {
        let settings = topic.settings();
        let values: Values = settings.iter().cloned().collect();
        let logs = log_config(self.config, &topic_config(self.config, &topic.name, Some(&values)));
        self.record_topic(&topic.name, topic.id, settings);
        for index in 0..topic.partition_count() {
            let restored = topic.partitions.iter().find(|partition| partition.index == index);
            let epoch = match restored {
                Some(partition) => {
                    self.write_log(topic, partition, logs.clone())?;
                    progress();
                    partition.state.epochs.last().map_or(0, |(epoch, _)| *epoch)
                }
                None => 0,
            };
            self.record_partition(topic.id, index, epoch);
        }
        Ok(())
    }

    /// Writes the log of a partition, which begins and ends after its remote part.
    fn write_log(
        &mut self,
        topic: &RestoredTopic,
        partition: &RestoredPartition,
        config: LogConfig,
    ) -> Result<(), RestoreError> {
        let mut writer = self.open((&topic.name, topic.id, partition.index), config)?;
        writer.restart_after(&partition.state, self.now_ms)?.remove()?;
        let highest = writer.producer_states().iter().map(|state| state.producer_id).max();
        self.producer_id = self.producer_id.max(highest);
        writer.close()?;
        self.log_starts.insert((topic.name.clone(), partition.index), partition.state.log_start);
        Ok(())
    }

    fn open(&self, (topic, id, index): (&str, Uuid, i32), config: LogConfig) -> Result<Writer, RestoreError> {
        let dir = self.dir.join(format!("{topic}-{index}"));
        RealDisk.create_dir(&dir).map_err(|source| StorageError::Unreadable { path: dir.clone(), source })?;
        PartitionMetadata { topic_id: id.to_bytes() }.store(&RealDisk, &dir)?;
        Ok(Writer::open(OpenOptions { config, ..OpenOptions::new(dir) }, self.now_ms)?.0)
    }

    /// Writes the metadata topic with the segments of the plan.
    fn add_metadata_topic(&mut self, plan: &RestorePlan) -> Result<(), RestoreError> {
        let (id, count) = (uuid::random(), self.config.remote_log.topic_partitions);
        let mut records: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
        for segment in plan.partitions().flat_map(|partition| &partition.segments) {
            let index = metadata_partition(&segment.id.partition, count);
            for record in events(segment, self.config.node_id, self.now_ms) {
                let bytes = encode(&record).map_err(|error| RestoreError::Metadata(error.to_string()))?;
                records.entry(index).or_default().push(bytes.to_vec());
            }
        }
        let settings = remote_log_metadata_configs(&self.config.remote_log);
        let values: Values = settings.iter().cloned().collect();
        let logs = log_config(self.config, &topic_config(self.config, METADATA_TOPIC, Some(&values)));
        self.record_topic(METADATA_TOPIC, id, settings);
        for index in 0..count {
            if let Some(values) = records.remove(&index) {
                let mut writer = self.open((METADATA_TOPIC, id, index), logs.clone())?;
                self.append(&mut writer, &values)?;
                writer.close()?;
            }
            self.record_partition(id, index, 0);
        }
        Ok(())
    }

    fn append(&self, writer: &mut Writer, values: &[Vec<u8>]) -> Result<(), RestoreError> {
        let failed = |error: &dyn std::fmt::Display| RestoreError::Metadata(error.to_string());
        for values in values.chunks(BATCH_RECORDS) {
            let mut batch = Builder::new();
            for value in values {
                batch.push(self.now_ms, None, Some(value));
            }
            let batch = batch.build().map_err(|error| failed(&error))?;
            for appended in writer.append(&mut [Append::client(batch)], self.now_ms) {
                appended.map_err(|error| failed(&error))?;
            }
        }
        Ok(())
    }

    fn record_topic(&mut self, name: &str, topic_id: Uuid, settings: Vec<(String, String)>) {
        self.records.push(TopicRecord { name: name.to_owned(), topic_id }.into());
        self.records.extend(settings.into_iter().map(|(key, value)| {
            Record::from(ConfigRecord {
                resource_type: ResourceKind::Topic.id(),
                resource_name: name.to_owned(),
                name: key,
                value: Some(value),
            })
        }));
    }

    /// Records a partition without a leader: the node leads it from its next start on, in a leader
    /// epoch after `leader_epoch`.
    fn record_partition(&mut self, topic_id: Uuid, partition_id: i32, leader_epoch: i32) {
        let node = vec![self.config.node_id];
        self.records.push(Record::from(PartitionRecord {
            partition_id,
            topic_id,
            replicas: node.clone(),
            isr: node,
            leader: NO_LEADER,
            leader_epoch,
            directories: vec![self.dir_id],
            ..PartitionRecord::default()
        }));
    }

    /// Writes the checkpoint, and returns the records of the metadata.
    fn finish(mut self) -> Result<Vec<Record>, RestoreError> {
        OffsetCheckpoint::LogStart.store(&RealDisk, &self.dir, &self.log_starts)?;
        if let Some(highest) = self.producer_id {
            let next_producer_id = highest.saturating_add(PRODUCER_ID_DISTANCE);
            self.records.push(ProducerIdsRecord { broker_id: -1, broker_epoch: -1, next_producer_id }.into());
        }
        Ok(self.records)
    }
}

/// The events of a copied segment.
fn events(segment: &RemoteSegment, broker_id: i32, now_ms: i64) -> [RemoteRecord; 2] {
    let begun = RemoteSegment {
        broker_id,
        event_timestamp_ms: now_ms,
        state: SegmentState::CopyStarted,
        ..segment.clone()
    };
    let finished = SegmentUpdate {
        id: segment.id.clone(),
        broker_id,
        event_timestamp_ms: now_ms,
        custom_metadata: None,
        state: SegmentState::CopyFinished,
    };
    [RemoteRecord::Segment(begun), RemoteRecord::Update(finished)]
}
