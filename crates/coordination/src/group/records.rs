//! The records of `__consumer_offsets` in Kafka's bytes; `docs/format/consumer-offsets.md`
//! describes them.

use bytes::{Bytes, BytesMut};
use levada_wire::Uuid;
use levada_wire::primitives::{
    BufferTarget, DecodeError, DecodeLimits, Decoder, EncodeError, Encoder, KnownTags, StrBytes, TagOutcome,
    TaggedFields,
};
use levada_wire::record_json;
use serde::Serialize;

use crate::machine::EncodedRecord;

mod consumer;
mod share;
mod streams;

pub use self::consumer::{
    ClassicMember, ConsumerRecord, CurrentValue, EpochPartitions, EpochValue, MemberMetadata, Partitions,
    RegexValue, TargetEpoch,
};
pub use self::share::{
    NamedPartitions, NamedTopic, ShareCurrentValue, ShareMemberMetadata, ShareRecord, StatePartitions,
};
pub use self::streams::{
    CopartitionGroup, Endpoint, EpochTasks, HeldTasks, InternalTopic, StreamsCurrentValue, StreamsEpochValue,
    StreamsMemberMetadata, StreamsRecord, Subtopology, TaskSets, Tasks, Topology,
};

/// A record of `__consumer_offsets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A committed offset; no value removes it.
    Offset(OffsetKey, Option<OffsetValue>),
    /// A generation of a classic group; no value removes the group.
    Group(String, Option<GroupValue>),
    /// A record about a consumer group.
    Consumer(String, ConsumerRecord),
    /// A record about a share group.
    Share(String, ShareRecord),
    /// A record about a streams group.
    Streams(String, StreamsRecord),
    /// A kind of record that this broker does not use, with the version its key begins with.
    Other(i16),
}

/// Key of a record with an offset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OffsetKey {
    /// Id of the group.
    pub group_id: String,
    /// Name of the topic.
    pub topic: String,
    /// Index of the partition.
    pub partition: i32,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OffsetValue {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the last record read; -1 if unknown.
    pub leader_epoch: i32,
    /// Metadata from the client.
    pub metadata: String,
    /// Time of the commit.
    pub commit_timestamp_ms: i64,
    /// Time of expiration, if the client set one.
    pub expire_timestamp_ms: Option<i64>,
    /// The topic's id if the client named it; nil otherwise.
    #[serde(serialize_with = "record_json::uuid")]
    pub topic_id: Uuid,
}

/// A generation of a classic group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupValue {
    /// Type of the group; empty if it has never had a member.
    pub protocol_type: String,
    /// Generation of the group.
    pub generation: i32,
    /// The protocol that won the vote.
    pub protocol_name: Option<String>,
    /// Member id of the leader.
    pub leader: Option<String>,
    /// Time at which the group entered its state; -1 if unknown.
    pub state_timestamp_ms: i64,
    /// Members of the group.
    pub members: Vec<MemberValue>,
}

/// A member of a [`GroupValue`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberValue {
    /// Id of the member.
    pub member_id: String,
    /// Name of a static member.
    pub group_instance_id: Option<String>,
    /// Client id of the member.
    pub client_id: String,
    /// Address of the member.
    pub client_host: String,
    /// Time that the group waits for it to join again; -1 if unknown.
    pub rebalance_timeout_ms: i32,
    /// Time without a heartbeat after which the member is removed.
    pub session_timeout_ms: i32,
    /// Metadata of the member for the chosen protocol.
    #[serde(serialize_with = "record_json::bytes")]
    pub subscription: Bytes,
    /// Assignment of the member.
    #[serde(serialize_with = "record_json::bytes")]
    pub assignment: Bytes,
}

/// The reason why a record of `__consumer_offsets` could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A field does not fit the record, or is invalid.
    #[error("{part} is malformed: {cause}")]
    Malformed {
        /// Part and kind of the record.
        part: &'static str,
        /// Reason why the bytes cannot be decoded.
        cause: DecodeError,
    },
    /// The value has a version that this broker does not support.
    #[error("{part} has the unknown version {version}")]
    UnknownVersion {
        /// Part and kind of the record.
        part: &'static str,
        /// The version it claims.
        version: i16,
    },
}

impl RecordError {
    /// True if the record is of a form that newer brokers may write.
    pub(super) fn is_newer(&self) -> bool {
        matches!(self, Self::UnknownVersion { .. })
    }
}

/// A text or a blob is longer than the format permits.
#[derive(Debug, thiserror::Error)]
#[error("a field is too long for a record of __consumer_offsets: {0}")]
pub struct TooLong(#[from] EncodeError);

const OFFSET_KEY: i16 = 1;
const GROUP_KEY: i16 = 2;
/// Version that is written if the client set an expiration: later versions have no such field.
const OFFSET_VALUE_EXPIRING: i16 = 1;
const OFFSET_VALUE: i16 = 4;
const GROUP_VALUE: i16 = 3;
const TOPIC_ID_TAG: u32 = 0;

impl Record {
    /// Decodes a record. Memory grows with the contents of the record, not with its claimed
    /// lengths.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn decode(key: Bytes, value: Option<Bytes>) -> Result<Self, RecordError> {
        let malformed = |cause| RecordError::Malformed { part: "record key", cause };
        let mut key = Decoder::new(key, DecodeLimits::default()).map_err(malformed)?;
        match key.read_i16().map_err(malformed)? {
            0 | OFFSET_KEY => {
                let key = offset_key(&mut key).map_err(malformed)?;
                Ok(Self::Offset(key, value.map(OffsetValue::decode).transpose()?))
            }
            GROUP_KEY => {
                let group_id = string(key.read_string()).map_err(malformed)?;
                Ok(Self::Group(group_id, value.map(GroupValue::decode).transpose()?))
            }
            version => Self::decode_modern(version, &mut key, value),
        }
    }

    /// The rest of a record of a consumer group, a share group or a streams group, or of another
    /// kind.
    fn decode_modern(version: i16, key: &mut Decoder, value: Option<Bytes>) -> Result<Self, RecordError> {
        if let Some((group_id, record)) = consumer::decode(version, key, value.clone())? {
            return Ok(Self::Consumer(group_id, record));
        }
        if let Some((group_id, record)) = share::decode(version, key, value.clone())? {
            return Ok(Self::Share(group_id, record));
        }
        let streams = streams::decode(version, key, value)?;
        Ok(streams.map_or(Self::Other(version), |(group_id, record)| Self::Streams(group_id, record)))
    }

    /// The record in the bytes Kafka 4.3 writes.
    ///
    /// # Errors
    /// If a field is too long.
    pub fn encode(&self) -> Result<EncodedRecord, TooLong> {
        let (mut key, mut value) = (BytesMut::new(), BytesMut::new());
        let present = match self {
            Self::Offset(offset_key, offset) => {
                let mut out = Encoder::new(&mut key);
                out.write_i16(OFFSET_KEY)?;
                out.write_string(&text(&offset_key.group_id))?;
                out.write_string(&text(&offset_key.topic))?;
                out.write_i32(offset_key.partition)?;
                offset.as_ref().map(|offset| offset.encode(&mut value)).transpose()?
            }
            Self::Group(group_id, group) => {
                let mut out = Encoder::new(&mut key);
                out.write_i16(GROUP_KEY)?;
                out.write_string(&text(group_id))?;
                group.as_ref().map(|group| group.encode(&mut value)).transpose()?
            }
            Self::Consumer(group_id, record) => record.encode(group_id, &mut key, &mut value)?.then_some(()),
            Self::Share(group_id, record) => record.encode(group_id, &mut key, &mut value)?.then_some(()),
            Self::Streams(group_id, record) => record.encode(group_id, &mut key, &mut value)?.then_some(()),
            Self::Other(version) => {
                Encoder::new(&mut key).write_i16(*version)?;
                None
            }
        };
        Ok(EncodedRecord { key: key.freeze(), value: present.map(|()| value.freeze()) })
    }
}

impl OffsetValue {
    fn decode(value: Bytes) -> Result<Self, RecordError> {
        const PART: &str = "offset commit value";
        let malformed = |cause| RecordError::Malformed { part: PART, cause };
        let mut value = Decoder::new(value, DecodeLimits::default()).map_err(malformed)?;
        let version = value.read_i16().map_err(malformed)?;
        if !(0..=OFFSET_VALUE).contains(&version) {
            return Err(RecordError::UnknownVersion { part: PART, version });
        }
        Self::fields(&mut value, version).map_err(malformed)
    }

    fn fields(value: &mut Decoder, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut offset = Self {
            offset: value.read_i64()?,
            leader_epoch: if version >= 3 { value.read_i32()? } else { -1 },
            metadata: string(if flexible { value.read_compact_string() } else { value.read_string() })?,
            commit_timestamp_ms: value.read_i64()?,
            expire_timestamp_ms: None,
            topic_id: Uuid::ZERO,
        };
        if version == OFFSET_VALUE_EXPIRING {
            offset.expire_timestamp_ms = Some(value.read_i64()?).filter(|&at_ms| at_ms != -1);
        }
        if flexible {
            value.read_tagged_fields_with(|tag, field| {
                if tag != TOPIC_ID_TAG {
                    return Ok(TagOutcome::Retained);
                }
                offset.topic_id = field.read_uuid()?;
                Ok(TagOutcome::Decoded)
            })?;
        }
        Ok(offset)
    }

    fn encode(&self, value: &mut BytesMut) -> Result<(), EncodeError> {
        let mut out = Encoder::new(value);
        if let Some(expire_timestamp_ms) = self.expire_timestamp_ms {
            out.write_i16(OFFSET_VALUE_EXPIRING)?;
            out.write_i64(self.offset)?;
            out.write_string(&text(&self.metadata))?;
            out.write_i64(self.commit_timestamp_ms)?;
            return out.write_i64(expire_timestamp_ms);
        }
        out.write_i16(OFFSET_VALUE)?;
        out.write_i64(self.offset)?;
        out.write_i32(self.leader_epoch)?;
        out.write_compact_string(&text(&self.metadata))?;
        out.write_i64(self.commit_timestamp_ms)?;
        let topic_id = self.topic_id;
        let mut tags = KnownTags::<1>::new();
        if !topic_id.is_zero() {
            tags.claim(TOPIC_ID_TAG)?;
            tags.measure(TOPIC_ID_TAG, |out| out.write_uuid(topic_id))?;
        }
        out.write_merged_tagged_fields(tags, &TaggedFields::default(), |_, out| out.write_uuid(topic_id))
    }
}

impl GroupValue {
    fn decode(value: Bytes) -> Result<Self, RecordError> {
        const PART: &str = "group metadata value";
        let malformed = |cause| RecordError::Malformed { part: PART, cause };
        let mut value = Decoder::new(value, DecodeLimits::default()).map_err(malformed)?;
        let version = value.read_i16().map_err(malformed)?;
        if !(0..=4).contains(&version) {
            return Err(RecordError::UnknownVersion { part: PART, version });
        }
        Self::fields(&mut value, version).map_err(malformed)
    }

    fn fields(value: &mut Decoder, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let group = Self {
            protocol_type: string(if flexible { value.read_compact_string() } else { value.read_string() })?,
            generation: value.read_i32()?,
            protocol_name: nullable_string(value, flexible)?,
            leader: nullable_string(value, flexible)?,
            state_timestamp_ms: if version >= 2 { value.read_i64()? } else { -1 },
            members: {
                let count = if flexible { value.read_compact_array_len() } else { value.read_array_len() }?;
                value.read_vec(count, |value| MemberValue::fields(value, version))?
            },
        };
        if flexible {
            value.read_tagged_fields()?;
        }
        Ok(group)
    }

    fn encode(&self, value: &mut BytesMut) -> Result<(), EncodeError> {
        let mut out = Encoder::new(value);
        out.write_i16(GROUP_VALUE)?;
        out.write_string(&text(&self.protocol_type))?;
        out.write_i32(self.generation)?;
        out.write_nullable_string(self.protocol_name.as_deref().map(text).as_ref())?;
        out.write_nullable_string(self.leader.as_deref().map(text).as_ref())?;
        out.write_i64(self.state_timestamp_ms)?;
        out.write_array_len(self.members.len())?;
        self.members.iter().try_for_each(|member| member.encode(&mut out))
    }
}

impl MemberValue {
    fn fields(value: &mut Decoder, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let plain = |value: &mut Decoder| {
            string(if flexible { value.read_compact_string() } else { value.read_string() })
        };
        let blob =
            |value: &mut Decoder| if flexible { value.read_compact_bytes() } else { value.read_bytes() };
        let member = Self {
            member_id: plain(value)?,
            group_instance_id: if version >= 3 { nullable_string(value, flexible)? } else { None },
            client_id: plain(value)?,
            client_host: plain(value)?,
            rebalance_timeout_ms: if version >= 1 { value.read_i32()? } else { -1 },
            session_timeout_ms: value.read_i32()?,
            subscription: blob(value)?,
            assignment: blob(value)?,
        };
        if flexible {
            value.read_tagged_fields()?;
        }
        Ok(member)
    }

    fn encode(&self, out: &mut Encoder<BufferTarget<'_>>) -> Result<(), EncodeError> {
        out.write_string(&text(&self.member_id))?;
        out.write_nullable_string(self.group_instance_id.as_deref().map(text).as_ref())?;
        out.write_string(&text(&self.client_id))?;
        out.write_string(&text(&self.client_host))?;
        out.write_i32(self.rebalance_timeout_ms)?;
        out.write_i32(self.session_timeout_ms)?;
        out.write_bytes(&self.subscription)?;
        out.write_bytes(&self.assignment)
    }
}

fn offset_key(key: &mut Decoder) -> Result<OffsetKey, DecodeError> {
    Ok(OffsetKey {
        group_id: string(key.read_string())?,
        topic: string(key.read_string())?,
        partition: key.read_i32()?,
    })
}

fn string(read: Result<StrBytes, DecodeError>) -> Result<String, DecodeError> {
    read.map(StrBytes::into_string)
}

fn nullable_string(value: &mut Decoder, flexible: bool) -> Result<Option<String>, DecodeError> {
    let read = if flexible { value.read_compact_nullable_string() } else { value.read_nullable_string() };
    Ok(read?.map(StrBytes::into_string))
}

fn text(value: &str) -> StrBytes {
    StrBytes::from(value)
}

#[cfg(test)]
pub(in crate::group) mod tests;
