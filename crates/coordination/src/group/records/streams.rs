//! The records of streams groups (KIP-1071): keys 17 and 19 to 23, all with values of version 0.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use levada_wire::primitives::{DecodeError, Decoder, EncodeError, Encoder, TagOutcome};
use serde::Serialize;

use super::consumer::{Out, no_tags, read, target_epoch, write_target_epoch};
use super::{RecordError, TargetEpoch, nullable_string, string, text};

mod topology;

pub use self::topology::{CopartitionGroup, InternalTopic, Subtopology, Topology};

/// Tasks: partitions by subtopology.
pub type Tasks = BTreeMap<String, BTreeSet<i32>>;

/// Tasks by subtopology, each with the epoch in which it was assigned.
pub type EpochTasks = BTreeMap<String, BTreeMap<i32, i32>>;

/// A record of a streams group; a record without a value removes its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamsRecord {
    /// Epoch of the group; `None` for a tombstone.
    Epoch(Option<StreamsEpochValue>),
    /// Metadata of a member by its id; `None` for a tombstone.
    Member(String, Option<StreamsMemberMetadata>),
    /// The epoch of the target assignment.
    TargetEpoch(Option<TargetEpoch>),
    /// Target assignment of a member.
    Target(String, Option<TaskSets>),
    /// Current assignment of a member.
    Current(String, Option<StreamsCurrentValue>),
    /// Topology of the group; `None` for a tombstone.
    Topology(Option<Arc<Topology>>),
}

/// The epoch of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamsEpochValue {
    /// Raised with every change that requires a new assignment.
    pub epoch: i32,
    /// Hash of all topics of the topology; 0 for none.
    pub metadata_hash: i64,
    /// Epoch of the topology whose topics exist as it needs them; -1 for none.
    pub validated_topology_epoch: i32,
    /// Settings of the assignor.
    pub assignment_configs: BTreeMap<String, String>,
}

/// Metadata of a member of a streams group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamsMemberMetadata {
    /// Instance id of a static member.
    pub instance_id: Option<String>,
    /// The member's rack; stored only.
    pub rack_id: Option<String>,
    /// Client id of the member.
    pub client_id: String,
    /// Address of the member.
    pub client_host: String,
    /// Time that it may take to give tasks up; -1 if unknown.
    pub rebalance_timeout_ms: i32,
    /// The epoch of its topology.
    pub topology_epoch: i32,
    /// The process that it is a thread of.
    pub process_id: String,
    /// Address for interactive queries.
    pub user_endpoint: Option<Endpoint>,
    /// Tags, for assignors that know racks.
    pub client_tags: BTreeMap<String, String>,
}

/// Address for interactive queries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Endpoint {
    /// Host name or address of the process.
    pub host: String,
    /// TCP port of the process.
    pub port: u16,
}

/// Tasks of the three kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskSets {
    /// Tasks that process records.
    pub active: Tasks,
    /// Tasks that keep a copy of the state.
    pub standby: Tasks,
    /// Tasks that restore the state before they become active.
    pub warmup: Tasks,
}

/// Tasks of the three kinds, the active ones with the epochs in which they were assigned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeldTasks {
    /// Tasks that process records.
    pub active: EpochTasks,
    /// Tasks that keep a copy of the state.
    pub standby: Tasks,
    /// Tasks that restore the state before they become active.
    pub warmup: Tasks,
}

/// Current assignment of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamsCurrentValue {
    /// Epoch of the member.
    pub epoch: i32,
    /// Previous epoch of the member.
    pub previous_epoch: i32,
    /// 1 stable, 2 unrevoked, 3 unreleased tasks; others are unknown.
    pub state: i8,
    /// Tasks that are assigned to the member.
    pub assigned: HeldTasks,
    /// Tasks that the member must release.
    pub revoking: HeldTasks,
}

const EPOCH_KEY: i16 = 17;
const MEMBER_KEY: i16 = 19;
const TARGET_EPOCH_KEY: i16 = 20;
const TARGET_KEY: i16 = 21;
const CURRENT_KEY: i16 = 22;
const TOPOLOGY_KEY: i16 = 23;

const VALIDATED_TAG: u32 = 0;
const CONFIGS_TAG: u32 = 1;
const EPOCHS_TAG: u32 = 0;

/// The key's rest, after its version: the group and, for most kinds, the member. None for a key of
/// no streams group.
pub(super) fn decode(
    version: i16,
    key: &mut Decoder,
    value: Option<Bytes>,
) -> Result<Option<(String, StreamsRecord)>, RecordError> {
    if !matches!(version, EPOCH_KEY | MEMBER_KEY..=TOPOLOGY_KEY) {
        return Ok(None);
    }
    let malformed = |cause| RecordError::Malformed { part: "record key", cause };
    let group_id = string(key.read_string()).map_err(malformed)?;
    let mut name = || string(key.read_string()).map_err(malformed);
    let record = match version {
        EPOCH_KEY => StreamsRecord::Epoch(read("streams group epoch", value, epoch)?),
        MEMBER_KEY => StreamsRecord::Member(name()?, read("streams member", value, member)?),
        TARGET_EPOCH_KEY => StreamsRecord::TargetEpoch(read("streams target epoch", value, target_epoch)?),
        TARGET_KEY => StreamsRecord::Target(name()?, read("streams target assignment", value, target)?),
        CURRENT_KEY => StreamsRecord::Current(name()?, read("streams assignment", value, current)?),
        _ => StreamsRecord::Topology(read("topology", value, topology::topology)?.map(Arc::new)),
    };
    Ok(Some((group_id, record)))
}

impl StreamsRecord {
    /// True if the record only removes an entry.
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Epoch(value) => value.is_none(),
            Self::Member(_, value) => value.is_none(),
            Self::TargetEpoch(value) => value.is_none(),
            Self::Target(_, value) => value.is_none(),
            Self::Current(_, value) => value.is_none(),
            Self::Topology(value) => value.is_none(),
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
            Self::Member(id, _) => (MEMBER_KEY, Some(id)),
            Self::TargetEpoch(_) => (TARGET_EPOCH_KEY, None),
            Self::Target(id, _) => (TARGET_KEY, Some(id)),
            Self::Current(id, _) => (CURRENT_KEY, Some(id)),
            Self::Topology(_) => (TOPOLOGY_KEY, None),
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
            Self::Epoch(Some(value)) => value.encode(out),
            Self::Member(_, Some(member)) => member.encode(out),
            Self::TargetEpoch(Some(value)) => write_target_epoch(out, *value),
            Self::Target(_, Some(target)) => {
                [&target.active, &target.standby, &target.warmup]
                    .into_iter()
                    .try_for_each(|tasks| write_tasks(out, tasks))?;
                no_tags(out)
            }
            Self::Current(_, Some(current)) => {
                out.write_i32(current.epoch)?;
                out.write_i32(current.previous_epoch)?;
                out.write_i8(current.state)?;
                current.assigned.encode(out)?;
                current.revoking.encode(out)?;
                no_tags(out)
            }
            Self::Topology(Some(topology)) => topology.encode(out),
            Self::Epoch(None)
            | Self::Member(_, None)
            | Self::TargetEpoch(None)
            | Self::Target(_, None)
            | Self::Current(_, None)
            | Self::Topology(None) => Ok(()),
        }
    }
}

impl StreamsEpochValue {
    fn encode(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        out.write_i32(self.epoch)?;
        out.write_i64(self.metadata_hash)?;
        let validated = (self.validated_topology_epoch != -1)
            .then(|| self.validated_topology_epoch.to_be_bytes().to_vec());
        let mut configs = BytesMut::new();
        write_pairs(&mut Encoder::new(&mut configs), &self.assignment_configs)?;
        let configs = (!self.assignment_configs.is_empty()).then(|| configs.to_vec());
        write_tags(out, [(VALIDATED_TAG, validated), (CONFIGS_TAG, configs)])
    }
}

impl StreamsMemberMetadata {
    fn encode(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        out.write_compact_nullable_string(self.instance_id.as_deref().map(text).as_ref())?;
        out.write_compact_nullable_string(self.rack_id.as_deref().map(text).as_ref())?;
        out.write_compact_string(&text(&self.client_id))?;
        out.write_compact_string(&text(&self.client_host))?;
        out.write_i32(self.rebalance_timeout_ms)?;
        out.write_i32(self.topology_epoch)?;
        out.write_compact_string(&text(&self.process_id))?;
        match &self.user_endpoint {
            None => out.write_i8(-1)?,
            Some(endpoint) => {
                out.write_i8(1)?;
                out.write_compact_string(&text(&endpoint.host))?;
                out.write_u16(endpoint.port)?;
                no_tags(out)?;
            }
        }
        write_pairs(out, &self.client_tags)?;
        no_tags(out)
    }
}

impl HeldTasks {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty() && self.standby.is_empty() && self.warmup.is_empty()
    }

    fn encode(&self, out: &mut Out<'_>) -> Result<(), EncodeError> {
        out.write_compact_array_len(self.active.len())?;
        for (subtopology_id, tasks) in &self.active {
            out.write_compact_string(&text(subtopology_id))?;
            out.write_compact_array_len(tasks.len())?;
            tasks.keys().try_for_each(|partition| out.write_i32(*partition))?;
            let mut content = BytesMut::new();
            let mut epochs = Encoder::new(&mut content);
            epochs.write_compact_array_len(tasks.len())?;
            tasks.values().try_for_each(|epoch| epochs.write_i32(*epoch))?;
            write_tags(out, [(EPOCHS_TAG, Some(content.to_vec()))])?;
        }
        write_tasks(out, &self.standby)?;
        write_tasks(out, &self.warmup)
    }
}

/// The tagged fields at the end of a structure.
fn write_tags<const COUNT: usize>(
    out: &mut Out<'_>,
    tags: [(u32, Option<Vec<u8>>); COUNT],
) -> Result<(), EncodeError> {
    let present = || tags.iter().filter_map(|(tag, content)| Some((*tag, content.as_ref()?)));
    let length = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    out.write_unsigned_varint(length(present().count()))?;
    for (tag, content) in present() {
        out.write_unsigned_varint(tag)?;
        // Longer values would have failed when they were built.
        out.write_unsigned_varint(length(content.len()))?;
        out.write_raw_slice(content)?;
    }
    Ok(())
}

fn write_tasks(out: &mut Out<'_>, tasks: &Tasks) -> Result<(), EncodeError> {
    out.write_compact_array_len(tasks.len())?;
    for (subtopology_id, partitions) in tasks {
        out.write_compact_string(&text(subtopology_id))?;
        out.write_compact_array_len(partitions.len())?;
        partitions.iter().try_for_each(|partition| out.write_i32(*partition))?;
        no_tags(out)?;
    }
    Ok(())
}

fn write_pairs<'a>(
    out: &mut Out<'_>,
    pairs: impl IntoIterator<Item = (&'a String, &'a String), IntoIter: ExactSizeIterator>,
) -> Result<(), EncodeError> {
    let pairs = pairs.into_iter();
    out.write_compact_array_len(pairs.len())?;
    for (key, value) in pairs {
        out.write_compact_string(&text(key))?;
        out.write_compact_string(&text(value))?;
        no_tags(out)?;
    }
    Ok(())
}

fn epoch(value: &mut Decoder) -> Result<StreamsEpochValue, DecodeError> {
    let mut read = StreamsEpochValue {
        epoch: value.read_i32()?,
        metadata_hash: value.read_i64()?,
        validated_topology_epoch: -1,
        assignment_configs: BTreeMap::new(),
    };
    value.read_tagged_fields_with(|tag, field| {
        match tag {
            VALIDATED_TAG => read.validated_topology_epoch = field.read_i32()?,
            CONFIGS_TAG => {
                let count = field.read_compact_nullable_array_len()?;
                let configs = count.map(|count| field.read_vec(count, pair)).transpose()?;
                read.assignment_configs = configs.unwrap_or_default().into_iter().collect();
            }
            _ => return Ok(TagOutcome::Retained),
        }
        Ok(TagOutcome::Decoded)
    })?;
    Ok(read)
}

fn member(value: &mut Decoder) -> Result<StreamsMemberMetadata, DecodeError> {
    let read = StreamsMemberMetadata {
        instance_id: nullable_string(value, true)?,
        rack_id: nullable_string(value, true)?,
        client_id: string(value.read_compact_string())?,
        client_host: string(value.read_compact_string())?,
        rebalance_timeout_ms: value.read_i32()?,
        topology_epoch: value.read_i32()?,
        process_id: string(value.read_compact_string())?,
        user_endpoint: endpoint(value)?,
        client_tags: read_pairs(value)?.into_iter().collect(),
    };
    value.read_tagged_fields()?;
    Ok(read)
}

fn endpoint(value: &mut Decoder) -> Result<Option<Endpoint>, DecodeError> {
    if value.read_i8()? < 0 {
        return Ok(None);
    }
    let endpoint = Endpoint { host: string(value.read_compact_string())?, port: value.read_u16()? };
    value.read_tagged_fields()?;
    Ok(Some(endpoint))
}

fn read_pairs(value: &mut Decoder) -> Result<Vec<(String, String)>, DecodeError> {
    let count = value.read_compact_array_len()?;
    value.read_vec(count, pair)
}

fn pair(value: &mut Decoder) -> Result<(String, String), DecodeError> {
    let pair = (string(value.read_compact_string())?, string(value.read_compact_string())?);
    value.read_tagged_fields()?;
    Ok(pair)
}

fn target(value: &mut Decoder) -> Result<TaskSets, DecodeError> {
    let read =
        TaskSets { active: read_tasks(value)?, standby: read_tasks(value)?, warmup: read_tasks(value)? };
    value.read_tagged_fields()?;
    Ok(read)
}

fn current(value: &mut Decoder) -> Result<StreamsCurrentValue, DecodeError> {
    let (epoch, previous_epoch, state) = (value.read_i32()?, value.read_i32()?, value.read_i8()?);
    let (assigned, revoking) = (held_tasks(value, epoch)?, held_tasks(value, epoch)?);
    value.read_tagged_fields()?;
    Ok(StreamsCurrentValue { epoch, previous_epoch, state, assigned, revoking })
}

fn held_tasks(value: &mut Decoder, epoch: i32) -> Result<HeldTasks, DecodeError> {
    Ok(HeldTasks {
        active: read_epoch_tasks(value, epoch)?,
        standby: read_tasks(value)?,
        warmup: read_tasks(value)?,
    })
}

fn read_tasks(value: &mut Decoder) -> Result<Tasks, DecodeError> {
    let with_epochs = read_epoch_tasks(value, 0)?;
    Ok(with_epochs.into_iter().map(|(id, tasks)| (id, tasks.into_keys().collect())).collect())
}

/// Reads tasks by epoch; tasks without epochs get the epoch of the member.
fn read_epoch_tasks(value: &mut Decoder, epoch: i32) -> Result<EpochTasks, DecodeError> {
    let count = value.read_compact_array_len()?;
    let tasks = value.read_vec(count, |value| {
        let subtopology_id = string(value.read_compact_string())?;
        let count = value.read_compact_array_len()?;
        let partitions = value.read_vec(count, Decoder::read_i32)?;
        let mut epochs = None;
        value.read_tagged_fields_with(|tag, field| {
            if tag != EPOCHS_TAG {
                return Ok(TagOutcome::Retained);
            }
            let count = field.read_compact_nullable_array_len()?;
            epochs = count.map(|count| field.read_vec(count, Decoder::read_i32)).transpose()?;
            Ok(TagOutcome::Decoded)
        })?;
        let mut epochs = epochs.unwrap_or_default().into_iter();
        let with_epochs = partitions.into_iter().map(|partition| (partition, epochs.next().unwrap_or(epoch)));
        Ok((subtopology_id, with_epochs.collect()))
    })?;
    Ok(tasks.into_iter().collect())
}

#[cfg(test)]
pub(in crate::group) mod tests;
