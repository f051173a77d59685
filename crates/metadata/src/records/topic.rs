//! Topics and partitions: TopicRecord, RemoveTopicRecord, PartitionRecord, PartitionChangeRecord
//! and ClearElrRecord.

use levada_wire::primitives::{DecodeError, Decoder, EncodeError, Uuid};
use levada_wire::record_json;
use serde::Serialize;

use super::body::{
    Body, Out, Tags, read_array, read_optional_array, read_tags, read_text, skip_tags, write_ids,
    write_no_tags, write_text, write_uuids,
};
use super::named;

/// `leader` of a [`PartitionChangeRecord`] that leaves the leader unchanged.
pub const LEADER_UNCHANGED: i32 = -2;
/// `leader` of a partition that has none.
pub const NO_LEADER: i32 = -1;

/// Creation of a topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopicRecord {
    /// Unique name.
    pub name: String,
    /// Unique for ever: a topic created again under the same name has another id.
    #[serde(serialize_with = "record_json::uuid")]
    pub topic_id: Uuid,
}

impl Body for TopicRecord {
    const API_KEY: u16 = 2;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self { name: read_text(input)?, topic_id: input.read_uuid()? };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        write_text(out, &self.name)?;
        out.write_uuid(self.topic_id)?;
        write_no_tags(out)
    }
}

/// A topic, its partitions and its configuration are removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RemoveTopicRecord {
    /// Id of the topic.
    #[serde(serialize_with = "record_json::uuid")]
    pub topic_id: Uuid,
}

impl Body for RemoveTopicRecord {
    const API_KEY: u16 = 9;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self { topic_id: input.read_uuid()? };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        out.write_uuid(self.topic_id)?;
        write_no_tags(out)
    }
}

/// The whole state of one partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PartitionRecord {
    /// Index within the topic.
    pub partition_id: i32,
    /// Id of the topic.
    #[serde(serialize_with = "record_json::uuid")]
    pub topic_id: Uuid,
    /// Broker ids in order of preference.
    pub replicas: Vec<i32>,
    /// The replicas in sync.
    pub isr: Vec<i32>,
    /// Replicas that a reassignment removes.
    pub removing_replicas: Vec<i32>,
    /// Replicas that a reassignment adds.
    pub adding_replicas: Vec<i32>,
    /// Broker id, or [`NO_LEADER`].
    pub leader: i32,
    /// 0 recovered, 1 recovering after an unclean election.
    #[serde(serialize_with = "named::recovery")]
    pub leader_recovery_state: i8,
    /// Grows whenever the leader changes.
    pub leader_epoch: i32,
    /// Grows with every change of this partition.
    pub partition_epoch: i32,
    /// Log directory of each replica, in the order of `replicas` (from version 1).
    #[serde(serialize_with = "record_json::uuids")]
    pub directories: Vec<Uuid>,
    /// Replicas that may lead though not in sync (from version 2).
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// Replicas that could lead last (from version 2).
    pub last_known_elr: Option<Vec<i32>>,
}

impl Body for PartitionRecord {
    const API_KEY: u16 = 3;
    const LATEST: u16 = 2;

    fn version(&self) -> u16 {
        2
    }

    fn decode(input: &mut Decoder, version: u16) -> Result<Self, DecodeError> {
        let mut record = Self {
            partition_id: input.read_i32()?,
            topic_id: input.read_uuid()?,
            replicas: read_array(input, Decoder::read_i32)?,
            isr: read_array(input, Decoder::read_i32)?,
            removing_replicas: read_array(input, Decoder::read_i32)?,
            adding_replicas: read_array(input, Decoder::read_i32)?,
            leader: input.read_i32()?,
            leader_epoch: input.read_i32()?,
            partition_epoch: input.read_i32()?,
            ..Self::default()
        };
        if version >= 1 {
            record.directories = read_array(input, Decoder::read_uuid)?;
        }
        read_tags(input, |tag, field| {
            match tag {
                0 => record.leader_recovery_state = field.read_i8()?,
                1 if version >= 2 => {
                    record.eligible_leader_replicas = read_optional_array(field, Decoder::read_i32)?;
                }
                2 if version >= 2 => record.last_known_elr = read_optional_array(field, Decoder::read_i32)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, version: u16) -> Result<(), EncodeError> {
        out.write_i32(self.partition_id)?;
        out.write_uuid(self.topic_id)?;
        write_ids(out, &self.replicas)?;
        write_ids(out, &self.isr)?;
        write_ids(out, &self.removing_replicas)?;
        write_ids(out, &self.adding_replicas)?;
        out.write_i32(self.leader)?;
        out.write_i32(self.leader_epoch)?;
        out.write_i32(self.partition_epoch)?;
        if version >= 1 {
            write_uuids(out, &self.directories)?;
        }
        let recovery = self.leader_recovery_state;
        let mut tags = Tags::default().add(0, recovery != 0, |out| out.write_i8(recovery))?;
        if version >= 2 {
            tags = tags.optional_ids(1, self.eligible_leader_replicas.as_deref())?;
            tags = tags.optional_ids(2, self.last_known_elr.as_deref())?;
        }
        tags.write(out)
    }
}

/// Changes in one partition; absent fields stay unchanged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionChangeRecord {
    /// Index within the topic.
    pub partition_id: i32,
    /// Id of the topic.
    #[serde(serialize_with = "record_json::uuid")]
    pub topic_id: Uuid,
    /// New replicas in sync.
    pub isr: Option<Vec<i32>>,
    /// New leader, [`NO_LEADER`], or [`LEADER_UNCHANGED`].
    pub leader: i32,
    /// New list of replicas.
    pub replicas: Option<Vec<i32>>,
    /// New list of the replicas that a reassignment removes.
    pub removing_replicas: Option<Vec<i32>>,
    /// New list of replicas that are being added.
    pub adding_replicas: Option<Vec<i32>>,
    /// New recovery state, or -1.
    #[serde(serialize_with = "named::recovery")]
    pub leader_recovery_state: i8,
    /// New log directories (from version 1).
    #[serde(serialize_with = "record_json::optional_uuids")]
    pub directories: Option<Vec<Uuid>>,
    /// New eligible leaders (from version 2).
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// New last known eligible leaders (from version 2).
    pub last_known_elr: Option<Vec<i32>>,
}

impl Default for PartitionChangeRecord {
    /// A change that changes nothing.
    fn default() -> Self {
        Self {
            partition_id: -1,
            topic_id: Uuid::ZERO,
            isr: None,
            leader: LEADER_UNCHANGED,
            replicas: None,
            removing_replicas: None,
            adding_replicas: None,
            leader_recovery_state: -1,
            directories: None,
            eligible_leader_replicas: None,
            last_known_elr: None,
        }
    }
}

impl Body for PartitionChangeRecord {
    const API_KEY: u16 = 5;
    const LATEST: u16 = 2;

    fn version(&self) -> u16 {
        2
    }

    fn decode(input: &mut Decoder, version: u16) -> Result<Self, DecodeError> {
        let mut record =
            Self { partition_id: input.read_i32()?, topic_id: input.read_uuid()?, ..Self::default() };
        read_tags(input, |tag, field| {
            match tag {
                0 => record.isr = read_optional_array(field, Decoder::read_i32)?,
                1 => record.leader = field.read_i32()?,
                2 => record.replicas = read_optional_array(field, Decoder::read_i32)?,
                3 => record.removing_replicas = read_optional_array(field, Decoder::read_i32)?,
                4 => record.adding_replicas = read_optional_array(field, Decoder::read_i32)?,
                5 => record.leader_recovery_state = field.read_i8()?,
                6 if version >= 2 => {
                    record.eligible_leader_replicas = read_optional_array(field, Decoder::read_i32)?;
                }
                7 if version >= 2 => record.last_known_elr = read_optional_array(field, Decoder::read_i32)?,
                8 if version >= 1 => record.directories = read_optional_array(field, Decoder::read_uuid)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, version: u16) -> Result<(), EncodeError> {
        out.write_i32(self.partition_id)?;
        out.write_uuid(self.topic_id)?;
        let (leader, recovery) = (self.leader, self.leader_recovery_state);
        let mut tags = Tags::default()
            .optional_ids(0, self.isr.as_deref())?
            .add(1, leader != LEADER_UNCHANGED, |out| out.write_i32(leader))?
            .optional_ids(2, self.replicas.as_deref())?
            .optional_ids(3, self.removing_replicas.as_deref())?
            .optional_ids(4, self.adding_replicas.as_deref())?
            .add(5, recovery != -1, |out| out.write_i8(recovery))?;
        if version >= 2 {
            tags = tags.optional_ids(6, self.eligible_leader_replicas.as_deref())?;
            tags = tags.optional_ids(7, self.last_known_elr.as_deref())?;
        }
        if version >= 1 {
            tags = tags.optional_uuids(8, self.directories.as_deref())?;
        }
        tags.write(out)
    }
}

/// Eligible leaders are removed, in one topic or in all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClearElrRecord {
    /// The topic; empty means every topic.
    pub topic_name: String,
}

impl Body for ClearElrRecord {
    const API_KEY: u16 = 28;
    const LATEST: u16 = 0;

    fn version(&self) -> u16 {
        0
    }

    fn decode(input: &mut Decoder, _: u16) -> Result<Self, DecodeError> {
        let record = Self { topic_name: read_text(input)? };
        skip_tags(input)?;
        Ok(record)
    }

    fn encode(&self, out: &mut Out<'_>, _: u16) -> Result<(), EncodeError> {
        write_text(out, &self.topic_name)?;
        write_no_tags(out)
    }
}
