//! Manifest of a segment in the layout of Aiven's plug-in: JSON with the positions of the indexes.

use std::collections::BTreeMap;
use std::ops::Range;

use levada_base::id_text;
use levada_tiered::RemoteSegment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CHUNK_SIZE;
use super::chunks::Chunks;
use crate::layout::IndexKind;

/// Positions of the objects' contents. The names of the fields are the plug-in's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    version: String,
    chunk_index: ChunkIndex,
    segment_indexes: SegmentIndexes,
    compression: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encryption: Option<Value>,
    /// Facts about the segment, for people and for the restoration of a lost metadata topic.
    #[serde(default)]
    remote_log_segment_metadata: Option<Facts>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChunkIndex {
    #[serde(rename = "type")]
    kind: String,
    original_chunk_size: u32,
    original_file_size: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transformed_chunk_size: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    final_transformed_chunk_size: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transformed_chunks: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SegmentIndexes {
    offset: Place,
    timestamp: Place,
    producer_snapshot: Place,
    leader_epoch: Place,
    /// The plug-in needs the key, also without a value.
    transaction: Option<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    position: u32,
    size: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    remote_log_segment_id: SegmentIdText,
    start_offset: i64,
    end_offset: i64,
    max_timestamp_ms: i64,
    broker_id: i32,
    event_timestamp_ms: i64,
    segment_leader_epochs: BTreeMap<i32, i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SegmentIdText {
    topic_id_partition: PartitionText,
    id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartitionText {
    topic_id: String,
    topic_partition: TopicPartitionText,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TopicPartitionText {
    topic: String,
    partition: i32,
}

/// Lengths of the indexes, in their order in the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexLengths {
    pub(crate) offset: u32,
    pub(crate) time: u32,
    pub(crate) producer_snapshot: u32,
    pub(crate) leader_epochs: u32,
    pub(crate) transaction: Option<u32>,
}

impl Manifest {
    /// The manifest of a segment with plain records.
    pub(crate) fn plain(segment: &RemoteSegment, lengths: &IndexLengths) -> Self {
        // A segment's size is never negative.
        let size = segment.size.unsigned_abs();
        let last = if size == 0 { 0 } else { (size - 1) % CHUNK_SIZE + 1 };
        let mut end = 0;
        let mut place = |length: u32| {
            let place = Place { position: end, size: length };
            end += length;
            place
        };
        Self {
            version: "1".to_string(),
            chunk_index: ChunkIndex {
                kind: "fixed".to_string(),
                original_chunk_size: CHUNK_SIZE,
                original_file_size: size,
                transformed_chunk_size: Some(CHUNK_SIZE),
                final_transformed_chunk_size: Some(last),
                transformed_chunks: None,
            },
            segment_indexes: SegmentIndexes {
                offset: place(lengths.offset),
                timestamp: place(lengths.time),
                producer_snapshot: place(lengths.producer_snapshot),
                leader_epoch: place(lengths.leader_epochs),
                transaction: lengths.transaction.map(place),
            },
            compression: false,
            encryption: None,
            remote_log_segment_metadata: Some(Facts::of(segment)),
        }
    }

    /// Bytes of the manifest.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest has no map with keys that are not text")
    }

    /// The manifest in an object's bytes. The error is its cause in one line.
    pub(crate) fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if manifest.version != "1" {
            return Err(format!("the manifest has version {}; 1 is known", manifest.version));
        }
        Ok(manifest)
    }

    /// Reason why Levada cannot read the segment.
    pub(crate) fn unsupported(&self) -> Option<&'static str> {
        let reason = "the segment is encrypted by Aiven's plug-in, which Levada does not read";
        self.encryption.as_ref().map(|_| reason)
    }

    /// The chunks of compressed records; none if the records are plain. An error is the reason why
    /// the manifest is not that of a segment with `size` bytes.
    pub(crate) fn chunks(&self, size: u64) -> Result<Option<Chunks>, String> {
        let index = &self.chunk_index;
        if u64::from(index.original_file_size) != size {
            let found = index.original_file_size;
            return Err(format!("the manifest declares {found} bytes of records, the metadata {size}"));
        }
        let chunk = index.original_chunk_size;
        match (self.compression, &*index.kind, &index.transformed_chunks) {
            (false, "fixed", _) if chunk > 0 && index.transformed_chunk_size == Some(chunk) => Ok(None),
            (true, "variable", Some(text)) => Chunks::variable(u64::from(chunk), size, text).map(Some),
            _ => Err("the chunks in the manifest do not have the form that it declares".to_owned()),
        }
    }

    /// Length of the segment's records in bytes.
    pub(crate) fn size(&self) -> u32 {
        self.chunk_index.original_file_size
    }

    /// Offset of the segment's last record, if the manifest has it. Reads do not use it.
    pub(crate) fn end_offset(&self) -> Option<i64> {
        self.remote_log_segment_metadata.as_ref().map(|facts| facts.end_offset)
    }

    /// Range of an index in the object of all indexes; none if the segment does not have it.
    pub(crate) fn index(&self, kind: IndexKind) -> Option<Range<u64>> {
        let indexes = &self.segment_indexes;
        let place = match kind {
            IndexKind::Offset => indexes.offset,
            IndexKind::Time => indexes.timestamp,
            IndexKind::ProducerSnapshot => indexes.producer_snapshot,
            IndexKind::LeaderEpochs => indexes.leader_epoch,
            IndexKind::Transaction => indexes.transaction?,
        };
        let begin = u64::from(place.position);
        Some(begin..begin + u64::from(place.size))
    }

    /// Length of the object of all indexes.
    pub(crate) fn indexes_length(&self) -> u64 {
        let ends = IndexKind::ALL.iter().filter_map(|kind| self.index(*kind)).map(|range| range.end);
        ends.max().unwrap_or(0)
    }
}

impl Facts {
    fn of(segment: &RemoteSegment) -> Self {
        let partition = &segment.id.partition;
        Self {
            remote_log_segment_id: SegmentIdText {
                topic_id_partition: PartitionText {
                    topic_id: id_text(partition.topic_id.to_bytes()),
                    topic_partition: TopicPartitionText {
                        topic: partition.topic.clone(),
                        partition: partition.partition,
                    },
                },
                id: id_text(segment.id.id.to_bytes()),
            },
            start_offset: segment.start_offset,
            end_offset: segment.end_offset,
            max_timestamp_ms: segment.max_timestamp_ms,
            broker_id: segment.broker_id,
            event_timestamp_ms: segment.event_timestamp_ms,
            segment_leader_epochs: segment.epochs.iter().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests;
