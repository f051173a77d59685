//! Fetch, versions 4 to 18: the request, and the response as a gather list in which records are
//! holes. From version 12 on tagged fields follow each partition's records, so bytes and holes
//! alternate. A broker that fetches itself encodes the request and decodes the response (`ask`,
//! `answer`).

use bytes::{Bytes, BytesMut};
use kafka_wire_core::DecodeError as Malformed;

use crate::api::ApiKey;
use crate::codec::{DecodeError, EncodeError};
use crate::cursor::Cursor;
use crate::gather::{Gather, HoleLen, Holes};
use crate::messages::{StrBytes, Uuid};
use crate::produce::{LeaderEpoch, NodeEndpoint, node_endpoints};
use crate::writer::Writer;

mod answer;
mod ask;

pub use ask::LOWEST_ENCODED;

/// A decoded Fetch request. Strings share the memory of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// Id of the cluster that the client expects (from version 12).
    pub cluster_id: Option<StrBytes>,
    /// The replica that fetches, -1 for a consumer; from version 15 the tagged replica state.
    pub replica_id: i32,
    /// The epoch of the replica's broker (from version 15), -1 if none.
    pub replica_epoch: i64,
    /// Time to wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Bytes of records that the broker waits for, up to the longest wait.
    pub min_bytes: i32,
    /// Return no more than this, except that the first batch is returned whole.
    pub max_bytes: i32,
    /// 0 read uncommitted, 1 read committed.
    pub isolation_level: i8,
    /// The fetch session, 0 for none (from version 7).
    pub session_id: i32,
    /// The session's epoch: 0 opens a session, -1 means no session (from version 7; -1 before).
    pub session_epoch: i32,
    /// Partitions to fetch, by topic.
    pub topics: Vec<FetchTopic>,
    /// Partitions to drop from the session (from version 7).
    pub forgotten: Vec<ForgottenTopic>,
    /// The consumer's rack (from version 11), empty if unknown.
    pub rack_id: StrBytes,
}

/// One topic of a [`FetchRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchTopic {
    /// The name; empty from version 13 on.
    pub name: StrBytes,
    /// The id; zero before version 13.
    pub topic_id: Uuid,
    /// Fetches, by partition.
    pub partitions: Vec<FetchPartition>,
}

/// One partition of a [`FetchTopic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// Index of the partition.
    pub index: i32,
    /// The leader epoch of the client (from version 9), -1 if none.
    pub current_leader_epoch: i32,
    /// Offset of the first record to return.
    pub fetch_offset: i64,
    /// Epoch of the last record fetched (from version 12), -1 if none.
    pub last_fetched_epoch: i32,
    /// A follower's log start (from version 5), -1 for consumers.
    pub log_start_offset: i64,
    /// Maximum number of bytes wanted from this partition.
    pub max_bytes: i32,
    /// A follower's log directory (from version 17), otherwise zero.
    pub replica_directory_id: Uuid,
    /// A follower's high watermark (from version 18), `i64::MAX` if not sent.
    pub high_watermark: i64,
}

/// Partitions to remove from the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgottenTopic {
    /// The name; empty from version 13 on.
    pub name: StrBytes,
    /// The id; zero before version 13.
    pub topic_id: Uuid,
    /// Indexes of the partitions.
    pub partitions: Vec<i32>,
}

impl FetchRequest {
    /// Decodes the `body` that follows the header.
    ///
    /// # Errors
    /// The peer sent a version that is not served or malformed bytes.
    pub fn decode(body: Bytes, version: i16) -> Result<Self, DecodeError> {
        let api = ApiKey::Fetch;
        if !api.serves(version) {
            return Err(DecodeError::UnsupportedVersion { api, version });
        }
        let flexible = api.is_flexible(version);
        let mut cursor = Cursor::new(body);
        let replica_id = if version < 15 { cursor.i32()? } else { -1 };
        let mut request = Self {
            cluster_id: None,
            replica_id,
            replica_epoch: -1,
            max_wait_ms: cursor.i32()?,
            min_bytes: cursor.i32()?,
            max_bytes: cursor.i32()?,
            isolation_level: cursor.i8()?,
            session_id: if version >= 7 { cursor.i32()? } else { 0 },
            session_epoch: if version >= 7 { cursor.i32()? } else { -1 },
            topics: Vec::new(),
            forgotten: Vec::new(),
            rack_id: StrBytes::default(),
        };
        for _ in 0..cursor.count(flexible)? {
            request.topics.push(decode_topic(&mut cursor, version, flexible)?);
        }
        if version >= 7 {
            for _ in 0..cursor.count(flexible)? {
                request.forgotten.push(decode_forgotten(&mut cursor, version, flexible)?);
            }
        }
        if version >= 11 {
            request.rack_id = cursor.string(flexible)?;
        }
        if flexible {
            cursor.tags(|tag, field| request.decode_tag(tag, field, version))?;
        }
        Ok(request)
    }

    fn decode_tag(&mut self, tag: u32, field: &mut Cursor<Bytes>, version: i16) -> Result<bool, Malformed> {
        match tag {
            0 => self.cluster_id = field.nullable_string(true)?,
            1 if version >= 15 => {
                self.replica_id = field.i32()?;
                self.replica_epoch = field.i64()?;
                field.skip_tags()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn decode_topic(cursor: &mut Cursor<Bytes>, version: i16, flexible: bool) -> Result<FetchTopic, Malformed> {
    let (name, topic_id) = decode_topic_key(cursor, version, flexible)?;
    let mut partitions = Vec::new();
    for _ in 0..cursor.count(flexible)? {
        let mut partition = FetchPartition {
            index: cursor.i32()?,
            current_leader_epoch: if version >= 9 { cursor.i32()? } else { -1 },
            fetch_offset: cursor.i64()?,
            last_fetched_epoch: if version >= 12 { cursor.i32()? } else { -1 },
            log_start_offset: if version >= 5 { cursor.i64()? } else { -1 },
            max_bytes: cursor.i32()?,
            replica_directory_id: Uuid::ZERO,
            high_watermark: i64::MAX,
        };
        if flexible {
            cursor.tags(|tag, field| partition.decode_tag(tag, field, version))?;
        }
        partitions.push(partition);
    }
    if flexible {
        cursor.skip_tags()?;
    }
    Ok(FetchTopic { name, topic_id, partitions })
}

impl FetchPartition {
    fn decode_tag(&mut self, tag: u32, field: &mut Cursor<Bytes>, version: i16) -> Result<bool, Malformed> {
        match tag {
            0 if version >= 17 => self.replica_directory_id = field.uuid()?,
            1 if version >= 18 => self.high_watermark = field.i64()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn decode_forgotten(
    cursor: &mut Cursor<Bytes>,
    version: i16,
    flexible: bool,
) -> Result<ForgottenTopic, Malformed> {
    let (name, topic_id) = decode_topic_key(cursor, version, flexible)?;
    let mut partitions = Vec::new();
    for _ in 0..cursor.count(flexible)? {
        partitions.push(cursor.i32()?);
    }
    if flexible {
        cursor.skip_tags()?;
    }
    Ok(ForgottenTopic { name, topic_id, partitions })
}

fn decode_topic_key(
    cursor: &mut Cursor<Bytes>,
    version: i16,
    flexible: bool,
) -> Result<(StrBytes, Uuid), Malformed> {
    if version >= 13 {
        Ok((StrBytes::default(), cursor.uuid()?))
    } else {
        Ok((cursor.string(flexible)?, Uuid::ZERO))
    }
}

/// A Fetch response for any version: fields that a version lacks are omitted, as in Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponse<H> {
    /// Time for which the client should pause because of a quota, ms.
    pub throttle_time_ms: i32,
    /// An error of the whole request (from version 7).
    pub error_code: i16,
    /// The session, 0 for none (from version 7).
    pub session_id: i32,
    /// Results by topic.
    pub topics: Vec<FetchedTopic<H>>,
    /// Addresses of the leaders named in the results (from version 16).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// One topic of a [`FetchResponse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedTopic<H> {
    /// The name (before version 13).
    pub name: StrBytes,
    /// The id (from version 13).
    pub topic_id: Uuid,
    /// Results by partition.
    pub partitions: Vec<FetchedPartition<H>>,
}

/// The result for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition<H> {
    /// Index of the partition.
    pub index: i32,
    /// Kafka's error code, 0 for none.
    pub error_code: i16,
    /// The high watermark, -1 on error.
    pub high_watermark: i64,
    /// The last stable offset, -1 on error.
    pub last_stable_offset: i64,
    /// First offset of the log, -1 on error (from version 5).
    pub log_start_offset: i64,
    /// Aborted transactions that overlap the records, by first offset; `None` if not requested.
    pub aborted: Option<Vec<AbortedTransaction>>,
    /// The replica to fetch from instead, -1 for none (from version 11).
    pub preferred_read_replica: i32,
    /// The offset at which the follower's log diverged from the leader's (from version 12).
    pub diverging_epoch: Option<EpochEnd>,
    /// The leader to use instead (from version 12).
    pub current_leader: Option<LeaderEpoch>,
    /// The snapshot to load instead of records (from version 12; metadata log only).
    pub snapshot_id: Option<SnapshotId>,
    /// Whole batches; `None` is sent as no records (length 0), never as null.
    pub records: Option<H>,
}

impl<H> FetchedPartition<H> {
    /// A partition without records, error or offsets.
    pub fn new(index: i32) -> Self {
        Self {
            index,
            error_code: 0,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            aborted: None,
            preferred_read_replica: -1,
            diverging_epoch: None,
            current_leader: None,
            snapshot_id: None,
            records: None,
        }
    }
}

/// A transaction that a consumer must skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Producer id of the transaction.
    pub producer_id: i64,
    /// First offset of the transaction in this partition.
    pub first_offset: i64,
}

/// The end of an epoch in the leader's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch not above the requested one.
    pub epoch: i32,
    /// The offset after its last record.
    pub end_offset: i64,
}

/// The name of a snapshot of the metadata log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    /// The offset after the last record that the snapshot covers.
    pub end_offset: i64,
    /// The epoch of that record.
    pub epoch: i32,
}

impl<H: HoleLen> FetchResponse<H> {
    /// Encodes the whole frame, size prefix and header included; records become holes, in order.
    ///
    /// # Errors
    /// The frame, or a length of ours, does not fit its prefix.
    pub fn encode(self, correlation_id: i32, version: i16) -> Result<Gather<H>, EncodeError> {
        let flexible = ApiKey::Fetch.is_flexible(version);
        let mut w = Writer { out: BytesMut::with_capacity(128), flexible };
        let mut holes = Holes::new();
        w.i32(0);
        w.i32(correlation_id);
        w.tags(&[]);
        w.i32(self.throttle_time_ms);
        if version >= 7 {
            w.i16(self.error_code);
            w.i32(self.session_id);
        }
        w.length(self.topics.len() as u64)?;
        for topic in self.topics {
            if version >= 13 {
                w.uuid(topic.topic_id);
            } else {
                w.string(&topic.name)?;
            }
            w.length(topic.partitions.len() as u64)?;
            for partition in topic.partitions {
                encode_partition(&mut w, &mut holes, partition, version)?;
            }
            w.tags(&[]);
        }
        match node_endpoints(&self.node_endpoints)? {
            Some(endpoints) if version >= 16 => w.tags(&[(0, &endpoints)]),
            _ => w.tags(&[]),
        }
        let bytes = w.out.len() as u64 - 4 + holes.len();
        let size = i32::try_from(bytes).map_err(|_| EncodeError::TooLarge { bytes })?;
        w.out[..4].copy_from_slice(&size.to_be_bytes());
        Ok(holes.into_gather(w.out))
    }
}

fn encode_partition<H: HoleLen>(
    w: &mut Writer,
    holes: &mut Holes<H>,
    partition: FetchedPartition<H>,
    version: i16,
) -> Result<(), EncodeError> {
    w.i32(partition.index);
    w.i16(partition.error_code);
    w.i64(partition.high_watermark);
    w.i64(partition.last_stable_offset);
    if version >= 5 {
        w.i64(partition.log_start_offset);
    }
    match &partition.aborted {
        None => w.null(),
        Some(aborted) => {
            w.length(aborted.len() as u64)?;
            for transaction in aborted {
                w.i64(transaction.producer_id);
                w.i64(transaction.first_offset);
                w.tags(&[]);
            }
        }
    }
    if version >= 11 {
        w.i32(partition.preferred_read_replica);
    }
    w.length(partition.records.as_ref().map_or(0, HoleLen::len))?;
    if let Some(records) = partition.records {
        holes.push(w.out.len(), records);
    }
    if w.flexible {
        encode_partition_tags(w, partition.diverging_epoch, partition.current_leader, partition.snapshot_id);
    }
    Ok(())
}

fn encode_partition_tags(
    w: &mut Writer,
    diverging: Option<EpochEnd>,
    leader: Option<LeaderEpoch>,
    snapshot: Option<SnapshotId>,
) {
    let diverging = diverging.map(|end| {
        let mut value = [0; 13];
        value[..4].copy_from_slice(&end.epoch.to_be_bytes());
        value[4..12].copy_from_slice(&end.end_offset.to_be_bytes());
        value
    });
    let leader = leader.map(LeaderEpoch::encode);
    let snapshot = snapshot.map(|id| {
        let mut value = [0; 13];
        value[..8].copy_from_slice(&id.end_offset.to_be_bytes());
        value[8..12].copy_from_slice(&id.epoch.to_be_bytes());
        value
    });
    let values = [
        diverging.as_ref().map(<[u8; 13]>::as_slice),
        leader.as_ref().map(<[u8; 9]>::as_slice),
        snapshot.as_ref().map(<[u8; 13]>::as_slice),
    ];
    let mut fields: [(u32, &[u8]); 3] = [(0, &[]); 3];
    let mut count = 0;
    for (tag, value) in (0..).zip(values) {
        if let Some(value) = value {
            fields[count] = (tag, value);
            count += 1;
        }
    }
    w.tags(&fields[..count]);
}

#[cfg(test)]
mod tests;
