//! Records of the topic `__remote_log_metadata`, byte for byte as Kafka's topic-based manager of
//! remote log metadata. See `docs/format/remote-log-metadata.md`.
//!
//! A record has no key. Its value is a frame version (1), the number of the kind and the record's
//! version (0), all as unsigned varints, then the fields in Kafka's flexible encoding. Decoding
//! copies texts and lists, and allocates for received bytes only.

use std::collections::BTreeMap;

use levada_wire::primitives::{
    BufferTarget, Bytes, BytesMut, DecodeError, DecodeLimits, Decoder, EncodeError, Encoder, StrBytes,
    TagOutcome, TaggedField, TaggedFields,
};

use crate::segment::{
    PartitionDelete, PartitionDeleteState, RemoteSegment, RemoteSegmentId, SegmentState, SegmentUpdate,
    TopicIdPartition,
};

/// Name of the metadata topic.
pub const METADATA_TOPIC: &str = "__remote_log_metadata";

const FRAME_VERSION: u32 = 1;
const VERSION: u32 = 0;
const SEGMENT: u32 = 0;
const UPDATE: u32 = 1;
const PARTITION_DELETE: u32 = 2;
const SNAPSHOT: u32 = 3;
/// Tag of the only tagged field: true if the segment has no transaction index.
const TXN_INDEX_EMPTY: u32 = 0;

/// One record of the metadata topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteRecord {
    /// A segment, written as its copy begins.
    Segment(RemoteSegment),
    /// A change of a segment's state.
    Update(SegmentUpdate),
    /// A step in the deletion of a partition's segments.
    PartitionDelete(PartitionDelete),
    /// A segment in a snapshot of one partition. The record does not name the partition, which is
    /// empty here. Kafka has the format and does not write it to the topic.
    Snapshot(RemoteSegment),
}

impl RemoteRecord {
    /// Partition of the log that the record is about. Empty for a snapshot.
    pub fn partition(&self) -> &TopicIdPartition {
        match self {
            Self::Segment(segment) | Self::Snapshot(segment) => &segment.id.partition,
            Self::Update(update) => &update.id.partition,
            Self::PartitionDelete(delete) => &delete.partition,
        }
    }
}

/// Reason why a value is not a record of the metadata topic.
#[derive(Debug, thiserror::Error)]
pub enum RemoteRecordError {
    /// The fields are cut short, too long or not of their type.
    #[error("a field of the record is not valid: {0}")]
    Decode(#[from] DecodeError),
    /// A field is too long to be encoded.
    #[error("a field of the record cannot be encoded: {0}")]
    Encode(#[from] EncodeError),
    /// The frame, the kind or its version is unknown.
    #[error(
        "frame {frame}, kind {kind}, version {version} is not known; frame 1, kinds 0 to 3, version 0 are"
    )]
    Unknown {
        /// Version of the frame.
        frame: u32,
        /// Number of the kind.
        kind: u32,
        /// Version of the kind.
        version: u32,
    },
    /// A value is outside of its range.
    #[error("{field} is {value}, which is not valid")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: i64,
    },
}

/// Decodes the value of a record.
pub fn decode(value: Bytes) -> Result<RemoteRecord, RemoteRecordError> {
    let mut input = Decoder::new(value, DecodeLimits::default())?;
    let frame = input.read_unsigned_varint()?;
    let kind = input.read_unsigned_varint()?;
    let version = input.read_unsigned_varint()?;
    if frame != FRAME_VERSION || version != VERSION {
        return Err(RemoteRecordError::Unknown { frame, kind, version });
    }
    let record = match kind {
        SEGMENT => {
            let id = read_segment_id(&mut input)?;
            RemoteRecord::Segment(read_segment(&mut input, id)?)
        }
        UPDATE => RemoteRecord::Update(read_update(&mut input)?),
        PARTITION_DELETE => RemoteRecord::PartitionDelete(read_partition_delete(&mut input)?),
        SNAPSHOT => {
            let id = RemoteSegmentId { partition: TopicIdPartition::default(), id: input.read_uuid()? };
            RemoteRecord::Snapshot(read_segment(&mut input, id)?)
        }
        _ => return Err(RemoteRecordError::Unknown { frame, kind, version }),
    };
    input.finish()?;
    Ok(record)
}

/// Encodes the value of a record.
pub fn encode(record: &RemoteRecord) -> Result<Bytes, RemoteRecordError> {
    let mut buffer = BytesMut::new();
    let mut out = Encoder::new(&mut buffer);
    out.write_unsigned_varint(FRAME_VERSION)?;
    out.write_unsigned_varint(match record {
        RemoteRecord::Segment(_) => SEGMENT,
        RemoteRecord::Update(_) => UPDATE,
        RemoteRecord::PartitionDelete(_) => PARTITION_DELETE,
        RemoteRecord::Snapshot(_) => SNAPSHOT,
    })?;
    out.write_unsigned_varint(VERSION)?;
    match record {
        RemoteRecord::Segment(segment) => {
            write_segment_id(&mut out, &segment.id)?;
            write_segment(&mut out, segment)?;
        }
        RemoteRecord::Snapshot(segment) => {
            out.write_uuid(segment.id.id)?;
            write_segment(&mut out, segment)?;
        }
        RemoteRecord::Update(update) => write_update(&mut out, update)?,
        RemoteRecord::PartitionDelete(delete) => {
            write_partition(&mut out, &delete.partition)?;
            out.write_i32(delete.broker_id)?;
            out.write_i64(delete.event_timestamp_ms)?;
            out.write_i8(delete.state.id())?;
            write_no_tags(&mut out)?;
        }
    }
    Ok(buffer.freeze())
}

/// Partition of the metadata topic for the records of `partition`, among `partitions` (at least 1).
pub fn metadata_partition(partition: &TopicIdPartition, partitions: i32) -> i32 {
    let bits = u128::from_be_bytes(partition.topic_id.to_bytes());
    let halves = [bits as u64, (bits >> 64) as u64];
    let hash = |half: u64| (half ^ (half >> 32)) as u32;
    // Java's hash of the list (lower half, upper half, partition).
    let parts = [hash(halves[0]), hash(halves[1]), partition.partition as u32];
    let list = parts.iter().fold(1_u32, |sum, part| sum.wrapping_mul(31).wrapping_add(*part));
    let positive = murmur2(list.to_be_bytes()) & 0x7fff_ffff;
    (positive % partitions.max(1) as u32) as i32
}

/// Kafka's murmur2 of four bytes.
fn murmur2(bytes: [u8; 4]) -> u32 {
    const MIX: u32 = 0x5bd1_e995;
    let word = u32::from_le_bytes(bytes).wrapping_mul(MIX);
    let word = (word ^ (word >> 24)).wrapping_mul(MIX);
    let hash = ((0x9747_b28c_u32 ^ 4).wrapping_mul(MIX)) ^ word;
    let hash = (hash ^ (hash >> 13)).wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

type Out<'a> = Encoder<BufferTarget<'a>>;

fn read_partition(input: &mut Decoder) -> Result<TopicIdPartition, RemoteRecordError> {
    // A deliberate copy: a slice would keep the whole fetched batch in memory.
    let topic = input.read_compact_string().map(StrBytes::into_string)?;
    let partition = TopicIdPartition { topic, topic_id: input.read_uuid()?, partition: input.read_i32()? };
    skip_tags(input)?;
    Ok(partition)
}

fn write_partition(out: &mut Out<'_>, partition: &TopicIdPartition) -> Result<(), EncodeError> {
    out.write_compact_string(&StrBytes::from(partition.topic.as_str()))?;
    out.write_uuid(partition.topic_id)?;
    out.write_i32(partition.partition)?;
    write_no_tags(out)
}

fn read_segment_id(input: &mut Decoder) -> Result<RemoteSegmentId, RemoteRecordError> {
    let id = RemoteSegmentId { partition: read_partition(input)?, id: input.read_uuid()? };
    skip_tags(input)?;
    Ok(id)
}

fn write_segment_id(out: &mut Out<'_>, id: &RemoteSegmentId) -> Result<(), EncodeError> {
    write_partition(out, &id.partition)?;
    out.write_uuid(id.id)?;
    write_no_tags(out)
}

fn read_segment(input: &mut Decoder, id: RemoteSegmentId) -> Result<RemoteSegment, RemoteRecordError> {
    let (start_offset, end_offset) = (input.read_i64()?, input.read_i64()?);
    let broker_id = input.read_i32()?;
    let (max_timestamp_ms, event_timestamp_ms) = (input.read_i64()?, input.read_i64()?);
    let length = input.read_compact_array_len()?;
    let epochs = input.read_vec(length, |input| {
        let epoch = (input.read_i32()?, input.read_i64()?);
        input.read_tagged_fields_with(|_, _| Ok(TagOutcome::Retained))?;
        Ok(epoch)
    })?;
    // Of an epoch that is there twice, Kafka keeps the last.
    let epochs: Vec<_> = epochs.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
    let size = input.read_i32()?;
    let custom_metadata = read_custom_metadata(input)?;
    let state = read_state(input)?;
    let mut txn_index_empty = false;
    input.read_tagged_fields_with(|tag, field| {
        if tag != TXN_INDEX_EMPTY {
            return Ok(TagOutcome::Retained);
        }
        txn_index_empty = field.read_bool()?;
        Ok(TagOutcome::Decoded)
    })?;
    check_range("start offset", start_offset, start_offset >= 0)?;
    check_range("end offset", end_offset, end_offset >= start_offset)?;
    check_range("segment size", i64::from(size), size >= 0)?;
    check_range("number of leader epochs", 0, !epochs.is_empty())?;
    Ok(RemoteSegment {
        id,
        start_offset,
        end_offset,
        max_timestamp_ms,
        broker_id,
        event_timestamp_ms,
        size,
        epochs,
        custom_metadata,
        state,
        txn_index_empty,
    })
}

fn write_segment(out: &mut Out<'_>, segment: &RemoteSegment) -> Result<(), EncodeError> {
    out.write_i64(segment.start_offset)?;
    out.write_i64(segment.end_offset)?;
    out.write_i32(segment.broker_id)?;
    out.write_i64(segment.max_timestamp_ms)?;
    out.write_i64(segment.event_timestamp_ms)?;
    out.write_compact_array_len(segment.epochs.len())?;
    for (epoch, start) in &segment.epochs {
        out.write_i32(*epoch)?;
        out.write_i64(*start)?;
        write_no_tags(out)?;
    }
    out.write_i32(segment.size)?;
    out.write_compact_nullable_bytes(segment.custom_metadata.as_deref())?;
    out.write_i8(segment.state.id())?;
    let empty = TaggedField::new(TXN_INDEX_EMPTY, Bytes::from_static(&[1]));
    let tags = if segment.txn_index_empty { vec![empty] } else { Vec::new() };
    out.write_tagged_fields(&TaggedFields::from_sorted(tags)?)
}

fn read_update(input: &mut Decoder) -> Result<SegmentUpdate, RemoteRecordError> {
    let update = SegmentUpdate {
        id: read_segment_id(input)?,
        broker_id: input.read_i32()?,
        event_timestamp_ms: input.read_i64()?,
        custom_metadata: read_custom_metadata(input)?,
        state: read_state(input)?,
    };
    skip_tags(input)?;
    Ok(update)
}

fn write_update(out: &mut Out<'_>, update: &SegmentUpdate) -> Result<(), EncodeError> {
    write_segment_id(out, &update.id)?;
    out.write_i32(update.broker_id)?;
    out.write_i64(update.event_timestamp_ms)?;
    out.write_compact_nullable_bytes(update.custom_metadata.as_deref())?;
    out.write_i8(update.state.id())?;
    write_no_tags(out)
}

fn read_partition_delete(input: &mut Decoder) -> Result<PartitionDelete, RemoteRecordError> {
    let partition = read_partition(input)?;
    let (broker_id, event_timestamp_ms) = (input.read_i32()?, input.read_i64()?);
    let id = input.read_i8()?;
    let state = PartitionDeleteState::from_id(id)
        .ok_or(RemoteRecordError::Range { field: "state of the deletion", value: i64::from(id) })?;
    skip_tags(input)?;
    Ok(PartitionDelete { partition, broker_id, event_timestamp_ms, state })
}

fn read_custom_metadata(input: &mut Decoder) -> Result<Option<Bytes>, DecodeError> {
    Ok(input.read_compact_nullable_bytes()?.map(|bytes| Bytes::copy_from_slice(&bytes)))
}

fn read_state(input: &mut Decoder) -> Result<SegmentState, RemoteRecordError> {
    let id = input.read_i8()?;
    SegmentState::from_id(id)
        .ok_or(RemoteRecordError::Range { field: "state of the segment", value: i64::from(id) })
}

fn check_range(field: &'static str, value: i64, valid: bool) -> Result<(), RemoteRecordError> {
    if valid { Ok(()) } else { Err(RemoteRecordError::Range { field, value }) }
}

fn skip_tags(input: &mut Decoder) -> Result<(), DecodeError> {
    input.read_tagged_fields_with(|_, _| Ok(TagOutcome::Retained)).map(drop)
}

fn write_no_tags(out: &mut Out<'_>) -> Result<(), EncodeError> {
    out.write_tagged_fields(&TaggedFields::default())
}

#[cfg(test)]
mod tests;
