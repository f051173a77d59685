//! The records of `__share_group_state` in Kafka's bytes; `docs/format/share-group-state.md`
//! describes them.

use bytes::{Bytes, BytesMut};
use levada_wire::primitives::{
    BufferTarget, DecodeError, DecodeLimits, Decoder, EncodeError, Encoder, KnownTags, StrBytes, TagOutcome,
    TaggedFields,
};
use serde::Serialize;

use super::batches::StateBatch;
use super::key::ShareKey;
use crate::machine::EncodedRecord;

/// A record of `__share_group_state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The whole state of a key; no value removes the key.
    Snapshot(ShareKey, Option<Snapshot>),
    /// A change of a key's state since its last snapshot. Kafka writes none without a value.
    Update(ShareKey, Option<Update>),
    /// A kind of record that this broker does not use, with the version its key begins with.
    Other(i16),
}

/// The whole state of a key as the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Number of the snapshot, from 0 on.
    pub snapshot_epoch: i32,
    /// Epoch of the state, from its initialization.
    pub state_epoch: i32,
    /// Leader epoch of the partition's leader.
    pub leader_epoch: i32,
    /// Offset of the first record to deliver; -1 if it is not known yet.
    pub start_offset: i64,
    /// Number of offsets, from the start offset on, whose delivery is complete; -1 if not known.
    pub delivery_complete_count: i32,
    /// Time of the last change that a client has made by a snapshot, in ms since 1970.
    pub create_ms: i64,
    /// Time of the snapshot, in ms since 1970.
    pub write_ms: i64,
    /// Delivery states of the records in flight.
    pub batches: Vec<StateBatch>,
}

/// A change of a key's state as the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Update {
    /// Number of the snapshot that it changes.
    pub snapshot_epoch: i32,
    /// Leader epoch of the partition's leader; -1 if it has not changed.
    pub leader_epoch: i32,
    /// The new start offset; -1 if it has not changed.
    pub start_offset: i64,
    /// Number of offsets, from the start offset on, whose delivery is complete; -1 if not known.
    pub delivery_complete_count: i32,
    /// The changed delivery states.
    pub batches: Vec<StateBatch>,
}

/// The reason why a record of `__share_group_state` could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A field does not fit the record, or is invalid.
    #[error("{part} is malformed: {cause}")]
    Malformed {
        /// The part of the record.
        part: &'static str,
        /// Fault that the decoder found.
        cause: DecodeError,
    },
    /// The value has a version that this broker does not support.
    #[error("the share-group state has the unknown version {0}")]
    UnknownVersion(i16),
}

impl RecordError {
    /// True if the record is of a form that newer brokers may write.
    pub(super) fn is_newer(&self) -> bool {
        matches!(self, Self::UnknownVersion(_))
    }
}

/// A text is longer than the format permits.
#[derive(Debug, thiserror::Error)]
#[error("a field is too long for a record of __share_group_state: {0}")]
pub struct TooLong(#[from] EncodeError);

const SNAPSHOT_KEY: i16 = 0;
const UPDATE_KEY: i16 = 1;
const VALUE_VERSION: i16 = 0;
const DELIVERY_COMPLETE_COUNT_TAG: u32 = 0;
/// Value of a delivery-complete count that is not written.
const NO_COUNT: i32 = -1;

impl Record {
    /// Decodes a record. Memory grows with the contents of the record, not with its claimed
    /// lengths.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn decode(key: Bytes, value: Option<Bytes>) -> Result<Self, RecordError> {
        let malformed = |cause| RecordError::Malformed { part: "share-group state key", cause };
        let mut key = Decoder::new(key, DecodeLimits::default()).map_err(malformed)?;
        match key.read_i16().map_err(malformed)? {
            SNAPSHOT_KEY => {
                let key = ShareKey::decode(&mut key).map_err(malformed)?;
                Ok(Self::Snapshot(key, value.map(|value| versioned(value, Snapshot::decode)).transpose()?))
            }
            UPDATE_KEY => {
                let key = ShareKey::decode(&mut key).map_err(malformed)?;
                Ok(Self::Update(key, value.map(|value| versioned(value, Update::decode)).transpose()?))
            }
            version => Ok(Self::Other(version)),
        }
    }

    /// The record in the bytes Kafka 4.3 writes.
    ///
    /// # Errors
    /// If a field is too long.
    pub fn encode(&self) -> Result<EncodedRecord, TooLong> {
        let (mut key, mut value) = (BytesMut::new(), BytesMut::new());
        let mut out = Encoder::new(&mut key);
        let present = match self {
            Self::Snapshot(of, snapshot) => {
                out.write_i16(SNAPSHOT_KEY)?;
                of.encode(&mut out)?;
                snapshot.as_ref().map(|snapshot| snapshot.encode(&mut value)).transpose()?
            }
            Self::Update(of, update) => {
                out.write_i16(UPDATE_KEY)?;
                of.encode(&mut out)?;
                update.as_ref().map(|update| update.encode(&mut value)).transpose()?
            }
            Self::Other(version) => {
                out.write_i16(*version)?;
                None
            }
        };
        Ok(EncodedRecord { key: key.freeze(), value: present.map(|()| value.freeze()) })
    }
}

impl ShareKey {
    fn decode(key: &mut Decoder) -> Result<Self, DecodeError> {
        let group_id = key.read_string()?.into_string().into();
        Ok(Self { group_id, topic_id: key.read_uuid()?, partition: key.read_i32()? })
    }

    fn encode(&self, out: &mut Encoder<BufferTarget<'_>>) -> Result<(), EncodeError> {
        out.write_string(&StrBytes::from(&*self.group_id))?;
        out.write_uuid(self.topic_id)?;
        out.write_i32(self.partition)
    }
}

/// The value after its version.
fn versioned<T>(
    value: Bytes,
    read: impl FnOnce(&mut Decoder) -> Result<T, DecodeError>,
) -> Result<T, RecordError> {
    let malformed = |cause| RecordError::Malformed { part: "share-group state value", cause };
    let mut value = Decoder::new(value, DecodeLimits::default()).map_err(malformed)?;
    let version = value.read_i16().map_err(malformed)?;
    if version != VALUE_VERSION {
        return Err(RecordError::UnknownVersion(version));
    }
    read(&mut value).map_err(malformed)
}

impl Snapshot {
    fn decode(value: &mut Decoder) -> Result<Self, DecodeError> {
        let mut read = Self {
            snapshot_epoch: value.read_i32()?,
            state_epoch: value.read_i32()?,
            leader_epoch: value.read_i32()?,
            start_offset: value.read_i64()?,
            delivery_complete_count: NO_COUNT,
            create_ms: value.read_i64()?,
            write_ms: value.read_i64()?,
            batches: batches(value)?,
        };
        read.delivery_complete_count = delivery_complete_count(value)?;
        Ok(read)
    }

    fn encode(&self, value: &mut BytesMut) -> Result<(), EncodeError> {
        let mut out = Encoder::new(value);
        out.write_i16(VALUE_VERSION)?;
        out.write_i32(self.snapshot_epoch)?;
        out.write_i32(self.state_epoch)?;
        out.write_i32(self.leader_epoch)?;
        out.write_i64(self.start_offset)?;
        out.write_i64(self.create_ms)?;
        out.write_i64(self.write_ms)?;
        write_batches(&mut out, &self.batches)?;
        write_count(&mut out, self.delivery_complete_count)
    }
}

impl Update {
    fn decode(value: &mut Decoder) -> Result<Self, DecodeError> {
        let mut read = Self {
            snapshot_epoch: value.read_i32()?,
            leader_epoch: value.read_i32()?,
            start_offset: value.read_i64()?,
            delivery_complete_count: NO_COUNT,
            batches: batches(value)?,
        };
        read.delivery_complete_count = delivery_complete_count(value)?;
        Ok(read)
    }

    fn encode(&self, value: &mut BytesMut) -> Result<(), EncodeError> {
        let mut out = Encoder::new(value);
        out.write_i16(VALUE_VERSION)?;
        out.write_i32(self.snapshot_epoch)?;
        out.write_i32(self.leader_epoch)?;
        out.write_i64(self.start_offset)?;
        write_batches(&mut out, &self.batches)?;
        write_count(&mut out, self.delivery_complete_count)
    }
}

fn batches(value: &mut Decoder) -> Result<Vec<StateBatch>, DecodeError> {
    let count = value.read_compact_array_len()?;
    value.read_vec(count, |value| {
        let batch = StateBatch {
            first_offset: value.read_i64()?,
            last_offset: value.read_i64()?,
            delivery_state: value.read_i8()?,
            delivery_count: value.read_i16()?,
        };
        value.read_tagged_fields()?;
        Ok(batch)
    })
}

fn write_batches(out: &mut Encoder<BufferTarget<'_>>, batches: &[StateBatch]) -> Result<(), EncodeError> {
    out.write_compact_array_len(batches.len())?;
    for batch in batches {
        out.write_i64(batch.first_offset)?;
        out.write_i64(batch.last_offset)?;
        out.write_i8(batch.delivery_state)?;
        out.write_i16(batch.delivery_count)?;
        out.write_tagged_fields(&TaggedFields::default())?;
    }
    Ok(())
}

/// The count in the tagged fields at the end of a value.
fn delivery_complete_count(value: &mut Decoder) -> Result<i32, DecodeError> {
    let mut count = NO_COUNT;
    value.read_tagged_fields_with(|tag, field| {
        if tag != DELIVERY_COMPLETE_COUNT_TAG {
            return Ok(TagOutcome::Retained);
        }
        count = field.read_i32()?;
        Ok(TagOutcome::Decoded)
    })?;
    Ok(count)
}

fn write_count(out: &mut Encoder<BufferTarget<'_>>, count: i32) -> Result<(), EncodeError> {
    let mut tags = KnownTags::<1>::new();
    if count != NO_COUNT {
        tags.claim(DELIVERY_COMPLETE_COUNT_TAG)?;
        tags.measure(DELIVERY_COMPLETE_COUNT_TAG, |out| out.write_i32(count))?;
    }
    out.write_merged_tagged_fields(tags, &TaggedFields::default(), |_, out| out.write_i32(count))
}

#[cfg(test)]
pub(in crate::share_state) mod tests;
