//! The records of share groups (KIP-932): keys 10 to 15, all with values of version 0.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use levada_wire::Uuid;
use levada_wire::primitives::{DecodeError, Decoder, EncodeError, Encoder};
use levada_wire::record_json;
use serde::Serialize;

use super::consumer::{
    Out, no_tags, read, read_strings, target, target_epoch, write_strings, write_target, write_target_epoch,
};
use super::{EpochValue, Partitions, RecordError, TargetEpoch, nullable_string, string, text};

/// A record of a share group; a record without a value removes its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareRecord {
    /// A member and its subscription.
    Member(String, Option<ShareMemberMetadata>),
    /// Epoch of the group; `None` for a tombstone.
    Epoch(Option<EpochValue>),
    /// The epoch of the target assignment.
    TargetEpoch(Option<TargetEpoch>),
    /// Target assignment of a member.
    Target(String, Option<Partitions>),
    /// Current assignment of a member.
    Current(String, Option<ShareCurrentValue>),
    /// Partitions with state at the share coordinator.
    State(Option<StatePartitions>),
}

/// A member and its subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShareMemberMetadata {
    /// The member's rack; stored only.
    pub rack_id: Option<String>,
    /// Client id of the member.
    pub client_id: String,
    /// Address of the member.
    pub client_host: String,
    /// Names of the subscribed topics.
    pub topics: BTreeSet<String>,
}

/// Current assignment of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShareCurrentValue {
    /// Epoch of the member.
    pub epoch: i32,
    /// The epoch it was in before; -1 if it was in none.
    pub previous_epoch: i32,
    /// 0 stable; other states are unknown.
    pub state: i8,
    /// Partitions that it may read.
    #[serde(serialize_with = "record_json::by_topic")]
    pub assigned: Partitions,
}

/// Partitions of a group with state at the share coordinator, by topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatePartitions {
    /// Partitions whose state is being initialized.
    #[serde(serialize_with = "record_json::by_topic")]
    pub initializing: NamedPartitions,
    /// Partitions whose state exists: members may be assigned these.
    #[serde(serialize_with = "record_json::by_topic")]
    pub initialized: NamedPartitions,
    /// Names of the topics whose state is being deleted.
    #[serde(serialize_with = "record_json::by_topic")]
    pub deleting: BTreeMap<Uuid, String>,
}

/// Partitions by topic, with the topic's name.
pub type NamedPartitions = BTreeMap<Uuid, NamedTopic>;

/// A topic's name and some of its partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NamedTopic {
    /// The name, as of the time of the record.
    pub name: String,
    /// Partitions of the topic.
    pub partitions: BTreeSet<i32>,
}

const MEMBER_KEY: i16 = 10;
const EPOCH_KEY: i16 = 11;
const TARGET_EPOCH_KEY: i16 = 12;
const TARGET_KEY: i16 = 13;
const CURRENT_KEY: i16 = 14;
const STATE_KEY: i16 = 15;

/// The key's rest, after its version: the group and, for most kinds, the member. None for a key of
/// no share group.
pub(super) fn decode(
    version: i16,
    key: &mut Decoder,
    value: Option<Bytes>,
) -> Result<Option<(String, ShareRecord)>, RecordError> {
    if !matches!(version, MEMBER_KEY..=STATE_KEY) {
        return Ok(None);
    }
    let malformed = |cause| RecordError::Malformed { part: "record key", cause };
    let group_id = string(key.read_string()).map_err(malformed)?;
    let mut name = || string(key.read_string()).map_err(malformed);
    let record = match version {
        MEMBER_KEY => ShareRecord::Member(name()?, read("share member", value, member)?),
        EPOCH_KEY => ShareRecord::Epoch(read("share group epoch", value, epoch)?),
        TARGET_EPOCH_KEY => ShareRecord::TargetEpoch(read("share target epoch", value, target_epoch)?),
        TARGET_KEY => ShareRecord::Target(name()?, read("share target assignment", value, target)?),
        CURRENT_KEY => ShareRecord::Current(name()?, read("share assignment", value, current)?),
        _ => ShareRecord::State(read("share state partitions", value, state)?),
    };
    Ok(Some((group_id, record)))
}

impl ShareRecord {
    /// True if the record only removes an entry.
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Member(_, value) => value.is_none(),
            Self::Epoch(value) => value.is_none(),
            Self::TargetEpoch(value) => value.is_none(),
            Self::Target(_, value) => value.is_none(),
            Self::Current(_, value) => value.is_none(),
            Self::State(value) => value.is_none(),
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
            Self::Member(id, _) => (MEMBER_KEY, Some(id)),
            Self::Epoch(_) => (EPOCH_KEY, None),
            Self::TargetEpoch(_) => (TARGET_EPOCH_KEY, None),
            Self::Target(id, _) => (TARGET_KEY, Some(id)),
            Self::Current(id, _) => (CURRENT_KEY, Some(id)),
            Self::State(_) => (STATE_KEY, None),
        };
        key.write_i16(version)?;
        key.write_string(&text(group_id))?;
        if let Some(name) = name {
            key.write_string(&text(name))?;
        }
        if self.is_tombstone() {
            return Ok(false);
        }
        let mut out = Encoder::new(value);
        out.write_i16(0)?;
        self.encode_fields(&mut out)?;
        Ok(true)
    }

    fn encode_fields(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Member(_, Some(member)) => member.encode(out),
            Self::Epoch(Some(value)) => {
                out.write_i32(value.epoch)?;
                out.write_i64(value.metadata_hash)?;
                no_tags(out)
            }
            Self::TargetEpoch(Some(value)) => write_target_epoch(out, *value),
            Self::Target(_, Some(partitions)) => write_target(out, partitions),
            Self::Current(_, Some(current)) => {
                out.write_i32(current.epoch)?;
                out.write_i32(current.previous_epoch)?;
                out.write_i8(current.state)?;
                write_target(out, &current.assigned)
            }
            Self::State(Some(state)) => state.encode(out),
            Self::Member(_, None)
            | Self::Epoch(None)
            | Self::TargetEpoch(None)
            | Self::Target(_, None)
            | Self::Current(_, None)
            | Self::State(None) => Ok(()),
        }
    }
}

impl ShareMemberMetadata {
    fn encode(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        out.write_compact_nullable_string(self.rack_id.as_deref().map(text).as_ref())?;
        out.write_compact_string(&text(&self.client_id))?;
        out.write_compact_string(&text(&self.client_host))?;
        write_strings(out, self.topics.iter())?;
        no_tags(out)
    }
}

impl StatePartitions {
    fn encode(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        for topics in [&self.initializing, &self.initialized] {
            out.write_compact_array_len(topics.len())?;
            for (id, NamedTopic { name, partitions }) in topics {
                write_topic_name(out, *id, name)?;
                out.write_compact_array_len(partitions.len())?;
                partitions.iter().try_for_each(|partition| out.write_i32(*partition))?;
                no_tags(out)?;
            }
        }
        out.write_compact_array_len(self.deleting.len())?;
        for (id, name) in &self.deleting {
            write_topic_name(out, *id, name)?;
            no_tags(out)?;
        }
        no_tags(out)
    }
}

fn write_topic_name(out: &mut Out<'_>, id: Uuid, name: &str) -> Result<(), EncodeError> {
    out.write_uuid(id)?;
    out.write_compact_string(&text(name))
}

fn member(value: &mut Decoder) -> Result<ShareMemberMetadata, DecodeError> {
    let read = ShareMemberMetadata {
        rack_id: nullable_string(value, true)?,
        client_id: string(value.read_compact_string())?,
        client_host: string(value.read_compact_string())?,
        topics: read_strings(value)?,
    };
    value.read_tagged_fields()?;
    Ok(read)
}

fn epoch(value: &mut Decoder) -> Result<EpochValue, DecodeError> {
    let read = EpochValue { epoch: value.read_i32()?, metadata_hash: value.read_i64()? };
    value.read_tagged_fields()?;
    Ok(read)
}

fn current(value: &mut Decoder) -> Result<ShareCurrentValue, DecodeError> {
    Ok(ShareCurrentValue {
        epoch: value.read_i32()?,
        previous_epoch: value.read_i32()?,
        state: value.read_i8()?,
        assigned: target(value)?,
    })
}

fn state(value: &mut Decoder) -> Result<StatePartitions, DecodeError> {
    let initializing = read_named(value)?;
    let initialized = read_named(value)?;
    let count = value.read_compact_array_len()?;
    let deleting = value.read_vec(count, |value| {
        let topic = (value.read_uuid()?, string(value.read_compact_string())?);
        value.read_tagged_fields()?;
        Ok(topic)
    })?;
    value.read_tagged_fields()?;
    Ok(StatePartitions { initializing, initialized, deleting: deleting.into_iter().collect() })
}

fn read_named(value: &mut Decoder) -> Result<NamedPartitions, DecodeError> {
    let count = value.read_compact_array_len()?;
    let topics = value.read_vec(count, |value| {
        let id = value.read_uuid()?;
        let name = string(value.read_compact_string())?;
        let count = value.read_compact_array_len()?;
        let partitions = value.read_vec(count, Decoder::read_i32)?.into_iter().collect();
        value.read_tagged_fields()?;
        Ok((id, NamedTopic { name, partitions }))
    })?;
    Ok(topics.into_iter().collect())
}

#[cfg(test)]
mod tests;
