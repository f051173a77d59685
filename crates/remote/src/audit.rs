//! Comparison of a store's objects with the metadata of its segments. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use levada_tiered::{
    PartitionDeleteState, RemoteRecord, RemoteSegment, SegmentCache, SegmentState, TopicIdPartition,
    metadata_partition,
};
use levada_wire::Uuid;

use crate::error::RemoteError;
use crate::objects::ObjectEntry;
use crate::store::Store;

/// Segments that the metadata topic has, by partition.
#[derive(Debug, Default)]
pub struct Inventory {
    partitions: BTreeMap<TopicIdPartition, SegmentCache>,
    /// Partitions of the metadata topic whose records are here, of this number.
    read: BTreeSet<i32>,
    count: i32,
}

/// Result of a comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Segments whose copy is finished.
    pub segments: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Segments whose copy or deletion has begun and not finished. Their objects may be missing.
    pub unfinished: u64,
    /// Objects in the store.
    pub objects: u64,
    /// Objects that a finished segment needs and the store does not have.
    pub missing: Vec<String>,
    /// Objects with records whose length is not the one of the segment: key, length, expected
    /// length.
    pub wrong_size: Vec<(String, u64, u64)>,
    /// Objects of segments that the metadata does not have: garbage of a failed copy or deletion.
    pub orphans: Vec<ObjectEntry>,
    /// Objects whose segments belong to partitions of the metadata topic that were not read.
    pub unknown: u64,
    /// Objects whose names are not those of segment objects.
    pub foreign: u64,
}

impl Inventory {
    /// An inventory for a metadata topic with `count` partitions.
    pub fn new(count: i32) -> Self {
        Self { count, ..Self::default() }
    }

    /// Marks a partition of the metadata topic as read, so that a segment without records is known
    /// to be absent.
    pub fn mark_read(&mut self, metadata_partition: i32) {
        self.read.insert(metadata_partition);
    }

    /// Applies a record of the metadata topic. An event of an unknown segment is left out, as in a
    /// broker.
    pub fn apply(&mut self, record: &RemoteRecord) {
        let partition = record.partition();
        if let RemoteRecord::PartitionDelete(delete) = record {
            if delete.state == PartitionDeleteState::Finished {
                self.partitions.remove(partition);
            }
            return;
        }
        // The cache is unchanged by events that do not fit.
        let _ = self.partitions.entry(partition.clone()).or_default().apply(record);
    }

    /// All segments that are not deleted.
    pub fn segments(&self) -> impl Iterator<Item = &RemoteSegment> {
        self.partitions.values().flat_map(SegmentCache::list).map(AsRef::as_ref)
    }

    /// The copied segment of a topic with the highest offset.
    pub fn newest_of(&self, topic: &str) -> Option<&RemoteSegment> {
        let is_copy = |segment: &&RemoteSegment| {
            segment.state == SegmentState::CopyFinished && segment.id.partition.topic == topic
        };
        self.segments().filter(is_copy).max_by_key(|segment| segment.end_offset)
    }

    /// True if `read` includes the partition of the metadata topic that has the records of this
    /// partition.
    fn covers(&self, topic_id: Uuid, partition: i32) -> bool {
        let named = TopicIdPartition { topic_id, topic: String::new(), partition };
        self.read.contains(&metadata_partition(&named, self.count))
    }
}

impl Audit {
    /// True if a consumer may miss records: an object is missing or has the wrong length.
    pub fn is_damaged(&self) -> bool {
        !self.missing.is_empty() || !self.wrong_size.is_empty()
    }
}

/// Compares the objects of `store` with `inventory`. Lists the whole store, and reads the manifests
/// of segments whose records have another length.
pub fn audit(store: &Store, inventory: &Inventory) -> Result<Audit, RemoteError> {
    let mut objects = BTreeMap::new();
    store.list(&mut |entry| {
        objects.insert(entry.key, entry.length);
    })?;
    let mut found = Audit { objects: objects.len() as u64, ..Audit::default() };
    for segment in inventory.segments() {
        compare(store, segment, &mut objects, &mut found)?;
    }
    for (key, length) in objects {
        match store.owner(&key) {
            None => found.foreign += 1,
            Some((topic_id, partition)) if inventory.covers(topic_id, partition) => {
                found.orphans.push(ObjectEntry { key, length });
            }
            Some(_) => found.unknown += 1,
        }
    }
    Ok(found)
}

/// Takes the objects of one segment out of `objects`.
fn compare(
    store: &Store,
    segment: &RemoteSegment,
    objects: &mut BTreeMap<String, u64>,
    found: &mut Audit,
) -> Result<(), RemoteError> {
    let keys = store.keys(segment)?;
    let lengths: Vec<Option<u64>> = keys.iter().map(|key| objects.remove(key)).collect();
    if segment.state != SegmentState::CopyFinished {
        found.unfinished += 1;
        return Ok(());
    }
    let size = u64::from(segment.size.unsigned_abs());
    found.segments += 1;
    found.bytes += size;
    let log = store.log_key(segment)?;
    for (key, length) in keys.into_iter().zip(lengths) {
        match length {
            None if store.needs(segment, &key) => found.missing.push(key),
            // Without its manifest a segment is damaged anyway.
            Some(length) if key == log && length != size => {
                let expected = log_length(store, segment)?;
                found.wrong_size.extend(
                    expected.filter(|expected| *expected != length).map(|expected| (key, length, expected)),
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// Length of the object with the segment's records; none if it is not known, because the segment is
/// encrypted or its manifest is missing or damaged.
fn log_length(store: &Store, segment: &RemoteSegment) -> Result<Option<u64>, RemoteError> {
    match store.log_length(segment) {
        Err(error) if error.is_of_store() => Err(error),
        length => Ok(length.ok()),
    }
}

#[cfg(test)]
mod tests;
