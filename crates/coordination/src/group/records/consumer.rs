//! The records of consumer groups (KIP-848): keys 3 to 8 and 16, all with values of version 0.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use levada_wire::Uuid;
use levada_wire::primitives::{
    BufferTarget, DecodeError, DecodeLimits, Decoder, EncodeError, Encoder, TagOutcome,
};
use levada_wire::record_json;
use serde::Serialize;

use super::{RecordError, nullable_string, string, text};
use crate::group::request::Protocol;

/// Partitions by topic.
pub type Partitions = BTreeMap<Uuid, BTreeSet<i32>>;

/// Partitions by topic, each with the epoch in which it was assigned.
pub type EpochPartitions = BTreeMap<Uuid, BTreeMap<i32, i32>>;

/// A record of a consumer group; a record without a value removes its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerRecord {
    /// Epoch of the group; `None` for a tombstone.
    Epoch(Option<EpochValue>),
    /// Topics as brokers before 4.1 knew them; kept only to be removed.
    Topics(Option<Bytes>),
    /// A member and its subscription.
    Member(String, Option<MemberMetadata>),
    /// The epoch of the target assignment.
    TargetEpoch(Option<TargetEpoch>),
    /// Target assignment of a member.
    Target(String, Option<Partitions>),
    /// Current assignment of a member.
    Current(String, Option<CurrentValue>),
    /// Topics that a regular expression matches.
    Regex(String, Option<RegexValue>),
}

/// The epoch of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EpochValue {
    /// Raised with every change that requires a new assignment.
    pub epoch: i32,
    /// Hash of all topics that members subscribe to; 0 for none.
    pub metadata_hash: i64,
}

/// A member and its subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemberMetadata {
    /// Instance id of a static member.
    pub instance_id: Option<String>,
    /// The member's rack; stored only.
    pub rack_id: Option<String>,
    /// Client id of the member.
    pub client_id: String,
    /// Address of the member.
    pub client_host: String,
    /// Names of the subscribed topics.
    pub topics: BTreeSet<String>,
    /// The expression it selects topics by.
    pub regex: Option<String>,
    /// Time that it may take to give partitions up; -1 if unknown.
    pub rebalance_timeout_ms: i32,
    /// Server-side assignor that the member requests.
    pub assignor: Option<String>,
    /// The member's protocols if it uses the classic protocol.
    pub classic: Option<ClassicMember>,
}

/// A member of the classic protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassicMember {
    /// Time without a heartbeat after which a member is removed.
    pub session_timeout_ms: i32,
    /// Protocols of the member, best first.
    pub protocols: Vec<Protocol>,
}

/// The epoch of a target assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TargetEpoch {
    /// The group epoch it was made for.
    pub epoch: i32,
    /// Time of the evaluation; 0 if unknown.
    pub timestamp_ms: i64,
}

/// Current assignment of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CurrentValue {
    /// Epoch of the member.
    pub epoch: i32,
    /// Previous epoch of the member.
    pub previous_epoch: i32,
    /// 0 stable, 1 unrevoked, 2 unreleased partitions; others are unknown.
    pub state: i8,
    /// Partitions that are assigned to the member.
    #[serde(serialize_with = "record_json::by_topic")]
    pub assigned: EpochPartitions,
    /// Partitions that the member must revoke.
    #[serde(serialize_with = "record_json::by_topic")]
    pub revoking: EpochPartitions,
}

/// Topics that a regular expression matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegexValue {
    /// Names of the matching topics.
    pub topics: BTreeSet<String>,
    /// Offset of the metadata it was matched with.
    pub version: i64,
    /// Time of the match, ms since 1970.
    pub timestamp_ms: i64,
}

const EPOCH_KEY: i16 = 3;
const TOPICS_KEY: i16 = 4;
const MEMBER_KEY: i16 = 5;
const TARGET_EPOCH_KEY: i16 = 6;
const TARGET_KEY: i16 = 7;
const CURRENT_KEY: i16 = 8;
const REGEX_KEY: i16 = 16;

/// Decodes the rest of a key, after its version: the group and, for most types, an entity in the
/// group. None for a key of no consumer group.
pub(super) fn decode(
    version: i16,
    key: &mut Decoder,
    value: Option<Bytes>,
) -> Result<Option<(String, ConsumerRecord)>, RecordError> {
    if !matches!(version, EPOCH_KEY..=CURRENT_KEY | REGEX_KEY) {
        return Ok(None);
    }
    let malformed = |cause| RecordError::Malformed { part: "record key", cause };
    let group_id = string(key.read_string()).map_err(malformed)?;
    let mut name = || string(key.read_string()).map_err(malformed);
    let record = match version {
        EPOCH_KEY => ConsumerRecord::Epoch(read("group epoch", value, epoch)?),
        TOPICS_KEY => ConsumerRecord::Topics(value),
        MEMBER_KEY => ConsumerRecord::Member(name()?, read("member", value, member)?),
        TARGET_EPOCH_KEY => ConsumerRecord::TargetEpoch(read("target epoch", value, target_epoch)?),
        TARGET_KEY => ConsumerRecord::Target(name()?, read("target assignment", value, target)?),
        CURRENT_KEY => ConsumerRecord::Current(name()?, read("current assignment", value, current)?),
        _ => ConsumerRecord::Regex(name()?, read("regular expression", value, regex)?),
    };
    Ok(Some((group_id, record)))
}

pub(super) fn read<T>(
    part: &'static str,
    value: Option<Bytes>,
    fields: impl FnOnce(&mut Decoder) -> Result<T, DecodeError>,
) -> Result<Option<T>, RecordError> {
    let Some(value) = value else { return Ok(None) };
    let malformed = |cause| RecordError::Malformed { part, cause };
    let mut value = Decoder::new(value, DecodeLimits::default()).map_err(malformed)?;
    match value.read_i16().map_err(malformed)? {
        0 => fields(&mut value).map(Some).map_err(malformed),
        version => Err(RecordError::UnknownVersion { part, version }),
    }
}

impl ConsumerRecord {
    /// True if the record only removes an entry.
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Epoch(value) => value.is_none(),
            Self::Topics(value) => value.is_none(),
            Self::Member(_, value) => value.is_none(),
            Self::TargetEpoch(value) => value.is_none(),
            Self::Target(_, value) => value.is_none(),
            Self::Current(_, value) => value.is_none(),
            Self::Regex(_, value) => value.is_none(),
        }
    }

    /// Writes key and value; false for a tombstone.
    pub(super) fn encode(
        &self,
        group_id: &str,
        key: &mut BytesMut,
        value: &mut BytesMut,
    ) -> Result<bool, EncodeError> {
        let mut key = Encoder::new(key);
        let (version, name) = match self {
            Self::Epoch(_) => (EPOCH_KEY, None),
            Self::Topics(_) => (TOPICS_KEY, None),
            Self::Member(id, _) => (MEMBER_KEY, Some(id)),
            Self::TargetEpoch(_) => (TARGET_EPOCH_KEY, None),
            Self::Target(id, _) => (TARGET_KEY, Some(id)),
            Self::Current(id, _) => (CURRENT_KEY, Some(id)),
            Self::Regex(regex, _) => (REGEX_KEY, Some(regex)),
        };
        key.write_i16(version)?;
        key.write_string(&text(group_id))?;
        if let Some(name) = name {
            key.write_string(&text(name))?;
        }
        self.encode_value(value)
    }

    fn encode_value(&self, value: &mut BytesMut) -> Result<bool, EncodeError> {
        let mut out = Encoder::new(value);
        let out = &mut out;
        match self {
            Self::Epoch(Some(value)) => {
                out.write_i16(0)?;
                out.write_i32(value.epoch)?;
                tag(out, (value.metadata_hash != 0).then_some(&value.metadata_hash.to_be_bytes()))?;
            }
            Self::Topics(Some(bytes)) => out.write_raw_slice(bytes)?,
            Self::Member(_, Some(member)) => {
                out.write_i16(0)?;
                member.encode(out)?;
            }
            Self::TargetEpoch(Some(value)) => {
                out.write_i16(0)?;
                write_target_epoch(out, *value)?;
            }
            Self::Target(_, Some(partitions)) => {
                out.write_i16(0)?;
                write_target(out, partitions)?;
            }
            Self::Current(_, Some(current)) => {
                out.write_i16(0)?;
                current.encode(out)?;
            }
            Self::Regex(_, Some(value)) => {
                out.write_i16(0)?;
                write_strings(out, value.topics.iter())?;
                out.write_i64(value.version)?;
                out.write_i64(value.timestamp_ms)?;
                no_tags(out)?;
            }
            Self::Epoch(None)
            | Self::Topics(None)
            | Self::Member(_, None)
            | Self::TargetEpoch(None)
            | Self::Target(_, None)
            | Self::Current(_, None)
            | Self::Regex(_, None) => return Ok(false),
        }
        Ok(true)
    }
}

impl MemberMetadata {
    fn encode(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        out.write_compact_nullable_string(self.instance_id.as_deref().map(text).as_ref())?;
        out.write_compact_nullable_string(self.rack_id.as_deref().map(text).as_ref())?;
        out.write_compact_string(&text(&self.client_id))?;
        out.write_compact_string(&text(&self.client_host))?;
        write_strings(out, self.topics.iter())?;
        out.write_compact_nullable_string(self.regex.as_deref().map(text).as_ref())?;
        out.write_i32(self.rebalance_timeout_ms)?;
        out.write_compact_nullable_string(self.assignor.as_deref().map(text).as_ref())?;
        // Kafka writes a byte of 0 if there is none.
        let Some(classic) = &self.classic else { return tag(out, Some(&[0])) };
        let mut nested = BytesMut::new();
        let mut inner = Encoder::new(&mut nested);
        inner.write_unsigned_varint(1)?;
        inner.write_i32(classic.session_timeout_ms)?;
        inner.write_compact_array_len(classic.protocols.len())?;
        for protocol in &classic.protocols {
            inner.write_compact_string(&text(&protocol.name))?;
            inner.write_compact_bytes(&protocol.metadata)?;
            no_tags(&mut inner)?;
        }
        no_tags(&mut inner)?;
        tag(out, Some(&nested))
    }
}

impl CurrentValue {
    fn encode(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        out.write_i32(self.epoch)?;
        out.write_i32(self.previous_epoch)?;
        out.write_i8(self.state)?;
        for partitions in [&self.assigned, &self.revoking] {
            out.write_compact_array_len(partitions.len())?;
            for (topic, partitions) in partitions {
                write_topic(out, *topic, partitions.keys())?;
                let mut epochs = BytesMut::new();
                let mut inner = Encoder::new(&mut epochs);
                inner.write_compact_array_len(partitions.len())?;
                partitions.values().try_for_each(|epoch| inner.write_i32(*epoch))?;
                tag(out, Some(&epochs))?;
            }
        }
        no_tags(out)
    }
}

pub(super) type Out<'a> = Encoder<BufferTarget<'a>>;

/// The epoch of a target assignment, to the end of the value.
pub(super) fn write_target_epoch(out: &mut Out<'_>, value: TargetEpoch) -> Result<(), EncodeError> {
    out.write_i32(value.epoch)?;
    tag(out, (value.timestamp_ms != 0).then_some(&value.timestamp_ms.to_be_bytes()))
}

/// Partitions by topic, to the end of the value.
pub(super) fn write_target(out: &mut Out<'_>, partitions: &Partitions) -> Result<(), EncodeError> {
    out.write_compact_array_len(partitions.len())?;
    for (topic, partitions) in partitions {
        write_topic(out, *topic, partitions.iter())?;
        no_tags(out)?;
    }
    no_tags(out)
}

pub(super) fn write_strings<'a>(
    out: &mut Out<'_>,
    strings: impl ExactSizeIterator<Item = &'a String>,
) -> Result<(), EncodeError> {
    out.write_compact_array_len(strings.len())?;
    for string in strings {
        out.write_compact_string(&text(string))?;
    }
    Ok(())
}

fn write_topic<'a>(
    out: &mut Out<'_>,
    topic: Uuid,
    partitions: impl ExactSizeIterator<Item = &'a i32>,
) -> Result<(), EncodeError> {
    out.write_uuid(topic)?;
    out.write_compact_array_len(partitions.len())?;
    for partition in partitions {
        out.write_i32(*partition)?;
    }
    Ok(())
}

pub(super) fn no_tags(out: &mut Out<'_>) -> Result<(), EncodeError> {
    out.write_unsigned_varint(0)
}

/// Encodes the tagged fields at the end of a structure that has at most one, number 0.
fn tag(out: &mut Out<'_>, content: Option<&(impl AsRef<[u8]> + ?Sized)>) -> Result<(), EncodeError> {
    let Some(content) = content.map(AsRef::as_ref) else { return no_tags(out) };
    out.write_unsigned_varint(1)?;
    out.write_unsigned_varint(0)?;
    // Longer values would have failed when they were built.
    out.write_unsigned_varint(u32::try_from(content.len()).unwrap_or(u32::MAX))?;
    out.write_raw_slice(content)
}

/// Decodes the tagged fields, of which only number 0 is supported.
fn read_tag(
    value: &mut Decoder,
    mut known: impl FnMut(&mut Decoder) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let fields = value.read_tagged_fields_with(|tag, field| {
        if tag != 0 {
            return Ok(TagOutcome::Retained);
        }
        known(field)?;
        Ok(TagOutcome::Decoded)
    });
    fields.map(|_| ())
}

fn epoch(value: &mut Decoder) -> Result<EpochValue, DecodeError> {
    let mut read = EpochValue { epoch: value.read_i32()?, metadata_hash: 0 };
    read_tag(value, |field| {
        read.metadata_hash = field.read_i64()?;
        Ok(())
    })?;
    Ok(read)
}

pub(super) fn target_epoch(value: &mut Decoder) -> Result<TargetEpoch, DecodeError> {
    let mut read = TargetEpoch { epoch: value.read_i32()?, timestamp_ms: 0 };
    read_tag(value, |field| {
        read.timestamp_ms = field.read_i64()?;
        Ok(())
    })?;
    Ok(read)
}

fn member(value: &mut Decoder) -> Result<MemberMetadata, DecodeError> {
    let mut read = MemberMetadata {
        instance_id: nullable_string(value, true)?,
        rack_id: nullable_string(value, true)?,
        client_id: string(value.read_compact_string())?,
        client_host: string(value.read_compact_string())?,
        topics: read_strings(value)?,
        regex: nullable_string(value, true)?,
        rebalance_timeout_ms: value.read_i32()?,
        assignor: nullable_string(value, true)?,
        classic: None,
    };
    read_tag(value, |field| {
        if field.read_unsigned_varint()? != 0 {
            read.classic = Some(classic(field)?);
        }
        Ok(())
    })?;
    Ok(read)
}

fn classic(value: &mut Decoder) -> Result<ClassicMember, DecodeError> {
    let session_timeout_ms = value.read_i32()?;
    let count = value.read_compact_array_len()?;
    let protocols = value.read_vec(count, |value| {
        let name = string(value.read_compact_string())?;
        // A copy: the member must not keep the buffer of the log in memory.
        let metadata = Bytes::copy_from_slice(&value.read_compact_bytes()?);
        value.read_tagged_fields()?;
        Ok(Protocol { name, metadata })
    })?;
    value.read_tagged_fields()?;
    Ok(ClassicMember { session_timeout_ms, protocols })
}

pub(super) fn target(value: &mut Decoder) -> Result<Partitions, DecodeError> {
    let count = value.read_compact_array_len()?;
    let topics = value.read_vec(count, |value| {
        let (topic, partitions) = read_topic(value)?;
        value.read_tagged_fields()?;
        Ok((topic, partitions.into_iter().collect()))
    })?;
    value.read_tagged_fields()?;
    Ok(topics.into_iter().collect())
}

fn current(value: &mut Decoder) -> Result<CurrentValue, DecodeError> {
    let (epoch, previous_epoch, state) = (value.read_i32()?, value.read_i32()?, value.read_i8()?);
    let assigned = read_epoch_partitions(value, epoch)?;
    let revoking = read_epoch_partitions(value, epoch)?;
    value.read_tagged_fields()?;
    Ok(CurrentValue { epoch, previous_epoch, state, assigned, revoking })
}

/// Brokers before 4.2 did not write the epochs of partitions: then the member's own counts.
fn read_epoch_partitions(value: &mut Decoder, epoch: i32) -> Result<EpochPartitions, DecodeError> {
    let count = value.read_compact_array_len()?;
    let topics = value.read_vec(count, |value| {
        let (topic, partitions) = read_topic(value)?;
        let mut epochs = None;
        read_tag(value, |field| {
            if let Some(count) = field.read_compact_nullable_array_len()? {
                epochs = Some(field.read_vec(count, Decoder::read_i32)?);
            }
            Ok(())
        })?;
        let mut epochs = epochs.unwrap_or_default().into_iter();
        let with_epochs = partitions.into_iter().map(|partition| (partition, epochs.next().unwrap_or(epoch)));
        Ok((topic, with_epochs.collect()))
    })?;
    Ok(topics.into_iter().collect())
}

fn regex(value: &mut Decoder) -> Result<RegexValue, DecodeError> {
    let read = RegexValue {
        topics: read_strings(value)?,
        version: value.read_i64()?,
        timestamp_ms: value.read_i64()?,
    };
    value.read_tagged_fields()?;
    Ok(read)
}

pub(super) fn read_strings(value: &mut Decoder) -> Result<BTreeSet<String>, DecodeError> {
    let count = value.read_compact_array_len()?;
    let strings = value.read_vec(count, |value| string(value.read_compact_string()))?;
    Ok(strings.into_iter().collect())
}

fn read_topic(value: &mut Decoder) -> Result<(Uuid, Vec<i32>), DecodeError> {
    let topic = value.read_uuid()?;
    let count = value.read_compact_array_len()?;
    Ok((topic, value.read_vec(count, Decoder::read_i32)?))
}
