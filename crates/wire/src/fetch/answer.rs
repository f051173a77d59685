//! Decodes Fetch responses for a replica that fetches, versions 4 to 18: offsets, errors, and the
//! tagged fields in which a leader names divergence, the current leader, a snapshot and the nodes'
//! addresses. Records share the frame's memory.

use bytes::Bytes;
use kafka_wire_core::DecodeError as Malformed;

use super::{AbortedTransaction, EpochEnd, FetchResponse, FetchedPartition, FetchedTopic, SnapshotId};
use crate::api::ApiKey;
use crate::codec::DecodeError;
use crate::cursor::Cursor;
use crate::messages::{StrBytes, Uuid};
use crate::produce::{LeaderEpoch, NodeEndpoint};

impl FetchResponse<Bytes> {
    /// Decodes a response frame, without its size: the correlation id and the response. Allocates
    /// nothing from a claimed count or length; bytes after the end are ignored.
    ///
    /// # Errors
    /// The version has no such response, or the peer sent malformed bytes.
    pub fn decode(frame: Bytes, version: i16) -> Result<(i32, Self), DecodeError> {
        let api = ApiKey::Fetch;
        if !api.serves(version) {
            return Err(DecodeError::UnsupportedVersion { api, version });
        }
        let flexible = api.is_flexible(version);
        let mut cursor = Cursor::new(frame);
        let correlation_id = cursor.i32()?;
        if flexible {
            cursor.skip_tags()?;
        }
        let mut response = Self {
            throttle_time_ms: cursor.i32()?,
            error_code: if version >= 7 { cursor.i16()? } else { 0 },
            session_id: if version >= 7 { cursor.i32()? } else { 0 },
            topics: Vec::new(),
            node_endpoints: Vec::new(),
        };
        for _ in 0..cursor.count(flexible)? {
            response.topics.push(decode_topic(&mut cursor, version, flexible)?);
        }
        if flexible {
            cursor.tags(|tag, field| match tag {
                0 if version >= 16 => {
                    response.node_endpoints = decode_nodes(field)?;
                    Ok(true)
                }
                _ => Ok(false),
            })?;
        }
        Ok((correlation_id, response))
    }
}

fn decode_topic(
    cursor: &mut Cursor<Bytes>,
    version: i16,
    flexible: bool,
) -> Result<FetchedTopic<Bytes>, Malformed> {
    let (name, topic_id) = if version >= 13 {
        (StrBytes::default(), cursor.uuid()?)
    } else {
        (cursor.string(flexible)?, Uuid::ZERO)
    };
    let mut partitions = Vec::new();
    for _ in 0..cursor.count(flexible)? {
        partitions.push(decode_partition(cursor, version, flexible)?);
    }
    if flexible {
        cursor.skip_tags()?;
    }
    Ok(FetchedTopic { name, topic_id, partitions })
}

fn decode_partition(
    cursor: &mut Cursor<Bytes>,
    version: i16,
    flexible: bool,
) -> Result<FetchedPartition<Bytes>, Malformed> {
    let mut partition =
        FetchedPartition { error_code: 0, high_watermark: -1, ..FetchedPartition::new(cursor.i32()?) };
    partition.error_code = cursor.i16()?;
    partition.high_watermark = cursor.i64()?;
    partition.last_stable_offset = cursor.i64()?;
    if version >= 5 {
        partition.log_start_offset = cursor.i64()?;
    }
    if let Some(count) = cursor.nullable_count(flexible)? {
        let mut aborted = Vec::new();
        for _ in 0..count {
            let (producer_id, first_offset) = (cursor.i64()?, cursor.i64()?);
            aborted.push(AbortedTransaction { producer_id, first_offset });
            if flexible {
                cursor.skip_tags()?;
            }
        }
        partition.aborted = Some(aborted);
    }
    if version >= 11 {
        partition.preferred_read_replica = cursor.i32()?;
    }
    partition.records = cursor.nullable_bytes(flexible)?.filter(|records| !records.is_empty());
    if flexible {
        cursor.tags(|tag, field| partition.decode_tag(tag, field))?;
    }
    Ok(partition)
}

impl FetchedPartition<Bytes> {
    /// Reads a known tagged field. A field that holds its default value counts as absent.
    fn decode_tag(&mut self, tag: u32, field: &mut Cursor<Bytes>) -> Result<bool, Malformed> {
        match tag {
            0 => {
                let (epoch, end_offset) = (field.i32()?, field.i64()?);
                self.diverging_epoch =
                    ((epoch, end_offset) != (-1, -1)).then_some(EpochEnd { epoch, end_offset });
            }
            1 => {
                let (leader_id, leader_epoch) = (field.i32()?, field.i32()?);
                let leader = LeaderEpoch { leader_id, leader_epoch };
                self.current_leader = ((leader_id, leader_epoch) != (-1, -1)).then_some(leader);
            }
            2 => {
                let (end_offset, epoch) = (field.i64()?, field.i32()?);
                self.snapshot_id =
                    ((end_offset, epoch) != (-1, -1)).then_some(SnapshotId { end_offset, epoch });
            }
            _ => return Ok(false),
        }
        field.skip_tags()?;
        Ok(true)
    }
}

fn decode_nodes(field: &mut Cursor<Bytes>) -> Result<Vec<NodeEndpoint>, Malformed> {
    let mut nodes = Vec::new();
    for _ in 0..field.count(true)? {
        let node_id = field.i32()?;
        let host = field.string(true)?;
        let port = field.i32()?;
        let rack = field.nullable_string(true)?;
        field.skip_tags()?;
        nodes.push(NodeEndpoint { node_id, host, port, rack });
    }
    Ok(nodes)
}
