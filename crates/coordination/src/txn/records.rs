//! The records of `__transaction_state` in Kafka's bytes; `docs/format/transaction-state.md`
//! describes them.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use levada_wire::primitives::{
    DecodeError, DecodeLimits, Decoder, EncodeError, Encoder, KnownTags, StrBytes, TagOutcome, TaggedFields,
};
use levada_wire::record_json;
use serde::Serialize;

use super::event::TopicPartition;
use super::transaction::{NO_EPOCH, NO_PRODUCER, Transaction, TxnState};
use crate::machine::EncodedRecord;

/// A record of `__transaction_state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The state of a transactional id; no value removes the id.
    Transaction(String, Option<Value>),
    /// A kind of record that this broker does not use, with the version its key begins with.
    Other(i16),
}

/// The state of a transactional id as the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Value {
    /// The producer id that owns the transactional id.
    pub producer_id: i64,
    /// The producer id before this one, or -1.
    pub previous_producer_id: i64,
    /// The producer id that applies after the transaction, or -1.
    pub next_producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// A transaction open for longer than this is aborted.
    pub timeout_ms: i32,
    /// State of the transaction.
    pub state: TxnState,
    /// Partitions of the transaction by topic; none where Kafka writes null: in state `Empty`.
    #[serde(serialize_with = "record_json::topics")]
    pub topics: Option<Topics>,
    /// Time of the last change.
    pub last_update_ms: i64,
    /// Time at which the transaction began, or -1.
    pub start_ms: i64,
    /// Version of the protocol the client spoke.
    pub client_version: i16,
}

/// Partitions by topic, in the order of the log.
pub type Topics = Vec<(String, Vec<i32>)>;

/// The reason why a record of `__transaction_state` could not be read.
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
    #[error("the transaction log value has the unknown version {0}")]
    UnknownVersion(i16),
    /// The state is none that is ever written.
    #[error("the transaction log value has the unknown state {0}")]
    UnknownState(i8),
}

impl RecordError {
    /// True if the record is of a form that newer brokers may write.
    pub(super) fn is_newer(&self) -> bool {
        matches!(self, Self::UnknownVersion(_) | Self::UnknownState(_))
    }
}

/// A text is longer than the format permits.
#[derive(Debug, thiserror::Error)]
#[error("a field is too long for a record of __transaction_state: {0}")]
pub struct TooLong(#[from] EncodeError);

const TRANSACTION_KEY: i16 = 0;
/// The first version with tagged fields, which Kafka writes since `transaction.version` 1.
const TAGGED_VALUE: i16 = 1;
const PREVIOUS_PRODUCER_ID_TAG: u32 = 0;
const NEXT_PRODUCER_ID_TAG: u32 = 1;
const CLIENT_VERSION_TAG: u32 = 2;

impl Record {
    /// Decodes a record. Memory grows with the contents of the record, not with its claimed
    /// lengths.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn decode(key: Bytes, value: Option<Bytes>) -> Result<Self, RecordError> {
        let malformed = |cause| RecordError::Malformed { part: "transaction log key", cause };
        let mut key = Decoder::new(key, DecodeLimits::default()).map_err(malformed)?;
        match key.read_i16().map_err(malformed)? {
            TRANSACTION_KEY => {
                let transactional_id = key.read_string().map_err(malformed)?.into_string();
                Ok(Self::Transaction(transactional_id, value.map(Value::decode).transpose()?))
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
            Self::Transaction(transactional_id, transaction) => {
                out.write_i16(TRANSACTION_KEY)?;
                out.write_string(&text(transactional_id))?;
                transaction.as_ref().map(|transaction| transaction.encode(&mut value)).transpose()?
            }
            Self::Other(version) => {
                out.write_i16(*version)?;
                None
            }
        };
        Ok(EncodedRecord { key: key.freeze(), value: present.map(|()| value.freeze()) })
    }
}

impl Value {
    fn decode(value: Bytes) -> Result<Self, RecordError> {
        let malformed = |cause| RecordError::Malformed { part: "transaction log value", cause };
        let mut value = Decoder::new(value, DecodeLimits::default()).map_err(malformed)?;
        let version = value.read_i16().map_err(malformed)?;
        if !(0..=TAGGED_VALUE).contains(&version) {
            return Err(RecordError::UnknownVersion(version));
        }
        let producer_id = value.read_i64().map_err(malformed)?;
        let producer_epoch = value.read_i16().map_err(malformed)?;
        let timeout_ms = value.read_i32().map_err(malformed)?;
        let state = value.read_i8().map_err(malformed)?;
        let mut read = Self {
            producer_id,
            previous_producer_id: NO_PRODUCER,
            next_producer_id: NO_PRODUCER,
            producer_epoch,
            timeout_ms,
            state: state_of(state).ok_or(RecordError::UnknownState(state))?,
            topics: topics(&mut value, version >= TAGGED_VALUE).map_err(malformed)?,
            last_update_ms: value.read_i64().map_err(malformed)?,
            start_ms: value.read_i64().map_err(malformed)?,
            client_version: 0,
        };
        if version >= TAGGED_VALUE {
            read.tags(&mut value).map_err(malformed)?;
        }
        Ok(read)
    }

    fn tags(&mut self, value: &mut Decoder) -> Result<(), DecodeError> {
        value.read_tagged_fields_with(|tag, field| {
            match tag {
                PREVIOUS_PRODUCER_ID_TAG => self.previous_producer_id = field.read_i64()?,
                NEXT_PRODUCER_ID_TAG => self.next_producer_id = field.read_i64()?,
                CLIENT_VERSION_TAG => self.client_version = field.read_i16()?,
                _ => return Ok(TagOutcome::Retained),
            }
            Ok(TagOutcome::Decoded)
        })?;
        Ok(())
    }

    fn encode(&self, value: &mut BytesMut) -> Result<(), EncodeError> {
        let mut out = Encoder::new(value);
        out.write_i16(TAGGED_VALUE)?;
        out.write_i64(self.producer_id)?;
        out.write_i16(self.producer_epoch)?;
        out.write_i32(self.timeout_ms)?;
        out.write_i8(state_id(self.state))?;
        out.write_compact_nullable_array_len(self.topics.as_ref().map(Vec::len))?;
        for (topic, partitions) in self.topics.iter().flatten() {
            out.write_compact_string(&text(topic))?;
            out.write_compact_array_len(partitions.len())?;
            partitions.iter().try_for_each(|partition| out.write_i32(*partition))?;
            out.write_tagged_fields(&TaggedFields::default())?;
        }
        out.write_i64(self.last_update_ms)?;
        out.write_i64(self.start_ms)?;
        let mut tags = KnownTags::<3>::new();
        if self.previous_producer_id != NO_PRODUCER {
            tags.claim(PREVIOUS_PRODUCER_ID_TAG)?;
            tags.measure(PREVIOUS_PRODUCER_ID_TAG, |out| out.write_i64(self.previous_producer_id))?;
        }
        if self.next_producer_id != NO_PRODUCER {
            tags.claim(NEXT_PRODUCER_ID_TAG)?;
            tags.measure(NEXT_PRODUCER_ID_TAG, |out| out.write_i64(self.next_producer_id))?;
        }
        if self.client_version != 0 {
            tags.claim(CLIENT_VERSION_TAG)?;
            tags.measure(CLIENT_VERSION_TAG, |out| out.write_i16(self.client_version))?;
        }
        out.write_merged_tagged_fields(tags, &TaggedFields::default(), |tag, out| match tag {
            PREVIOUS_PRODUCER_ID_TAG => out.write_i64(self.previous_producer_id),
            NEXT_PRODUCER_ID_TAG => out.write_i64(self.next_producer_id),
            _ => out.write_i16(self.client_version),
        })
    }
}

impl From<&Transaction> for Value {
    fn from(transaction: &Transaction) -> Self {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for TopicPartition { topic, partition } in &transaction.partitions {
            topics.entry(topic).or_default().push(*partition);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| (topic.to_owned(), partitions)).collect();
        Self {
            producer_id: transaction.producer_id,
            previous_producer_id: transaction.previous_producer_id,
            next_producer_id: transaction.next_producer_id,
            producer_epoch: transaction.producer_epoch,
            timeout_ms: transaction.timeout_ms,
            state: transaction.state,
            topics: Some(topics).filter(|_| transaction.state != TxnState::Empty),
            last_update_ms: transaction.last_update_ms,
            start_ms: transaction.start_ms,
            client_version: transaction.client_version,
        }
    }
}

impl From<Value> for Transaction {
    fn from(value: Value) -> Self {
        let topics = value.topics.into_iter().flatten().filter(|_| value.state != TxnState::Empty);
        let partitions = topics.flat_map(|(topic, partitions)| {
            partitions.into_iter().map(move |partition| TopicPartition { topic: topic.clone(), partition })
        });
        Self {
            producer_id: value.producer_id,
            previous_producer_id: value.previous_producer_id,
            next_producer_id: value.next_producer_id,
            producer_epoch: value.producer_epoch,
            last_producer_epoch: NO_EPOCH,
            timeout_ms: value.timeout_ms,
            state: value.state,
            partitions: partitions.collect(),
            start_ms: value.start_ms,
            last_update_ms: value.last_update_ms,
            client_version: value.client_version,
        }
    }
}

fn topics(value: &mut Decoder, tagged: bool) -> Result<Option<Topics>, DecodeError> {
    let count =
        if tagged { value.read_compact_nullable_array_len() } else { value.read_nullable_array_len() }?;
    let Some(count) = count else { return Ok(None) };
    let topics = value.read_vec(count, |value| {
        let topic = if tagged { value.read_compact_string() } else { value.read_string() }?;
        let count = if tagged { value.read_compact_array_len() } else { value.read_array_len() }?;
        let partitions = value.read_vec(count, Decoder::read_i32)?;
        if tagged {
            value.read_tagged_fields()?;
        }
        Ok((topic.into_string(), partitions))
    })?;
    Ok(Some(topics))
}

fn state_of(id: i8) -> Option<TxnState> {
    Some(match id {
        0 => TxnState::Empty,
        1 => TxnState::Ongoing,
        2 => TxnState::PrepareCommit,
        3 => TxnState::PrepareAbort,
        4 => TxnState::CompleteCommit,
        5 => TxnState::CompleteAbort,
        _ => return None,
    })
}

fn state_id(state: TxnState) -> i8 {
    match state {
        TxnState::Empty => 0,
        TxnState::Ongoing => 1,
        TxnState::PrepareCommit => 2,
        TxnState::PrepareAbort => 3,
        TxnState::CompleteCommit => 4,
        TxnState::CompleteAbort => 5,
    }
}

fn text(value: &str) -> StrBytes {
    StrBytes::from(value)
}

#[cfg(test)]
pub(in crate::txn) mod tests;
