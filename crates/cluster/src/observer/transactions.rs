//! Converts committed batches to records that take effect: control records and the marks of
//! metadata transactions are removed, records of an open transaction are held back, those of an
//! aborted one are dropped.

use std::collections::BTreeMap;

use bytes::Bytes;
use levada_base::batch::{self, BatchError};
use levada_wire::primitives::{DecodeError, DecodeLimits, Decoder};
use thiserror::Error;

use super::LogPosition;
use crate::quorum::Address;

/// The frame version of a metadata record's value.
const FRAME_VERSION: u32 = 1;
const BEGIN_TRANSACTION: u32 = 23;
const END_TRANSACTION: u32 = 24;
const ABORT_TRANSACTION: u32 = 25;

/// Control record with the level of `kraft.version`.
const KRAFT_VERSION: i16 = 5;
/// Control record with the voters of a quorum.
const VOTERS: i16 = 6;

/// Maximum number of bytes to which the records of one batch may expand.
const MAX_EXPANDED: usize = 64 * 1024 * 1024;

/// One metadata record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataRecord {
    /// Offset of the record in the metadata log, or its number in a snapshot.
    pub offset: i64,
    /// The leader epoch of its batch.
    pub epoch: i32,
    /// The time at which the controller wrote its batch, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Value of the record as written: frame version, kind, version and fields.
    pub value: Bytes,
}

/// Records that take effect together, and the position that they lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The records, in order. Control records and transactions' marks are not among them.
    pub records: Vec<MetadataRecord>,
    /// Position before which every record has taken effect or never will. Never inside a
    /// transaction.
    pub through: LogPosition,
    /// Changes of the quorum.
    pub quorum: QuorumChange,
}

/// Contents of the control records about a quorum. A later record replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuorumChange {
    /// The level of `kraft.version`.
    pub kraft_version: Option<i16>,
    /// The voters and their addresses on the given listener.
    pub voters: Option<BTreeMap<i32, Address>>,
}

impl QuorumChange {
    /// Adds the records of a control batch. Voters' addresses are those of `listener`.
    pub(super) fn take(&mut self, bytes: &Bytes, listener: &str) -> Result<(), RecordFault> {
        let offset = batch::BatchView::parse(bytes).map_or(-1, |view| view.base_offset());
        let malformed = |source| RecordFault::Malformed { offset, source };
        for (kind, value) in control_records(bytes)? {
            match kind {
                KRAFT_VERSION => self.kraft_version = Some(decode_level(value).map_err(malformed)?),
                VOTERS => self.voters = Some(decode_voters(value, listener).map_err(malformed)?),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Records of an open transaction.
#[derive(Debug, Default)]
struct Held {
    records: Vec<MetadataRecord>,
    bytes: usize,
}

/// Follows the transactions of the metadata log.
#[derive(Debug)]
pub(crate) struct Transactions {
    listener: String,
    through: LogPosition,
    held: Option<Held>,
    max_held_bytes: usize,
}

impl Transactions {
    /// A state without an open transaction. Voters' addresses are those of `listener`.
    pub(crate) fn new(listener: &str, max_held_bytes: usize) -> Self {
        Self { listener: listener.into(), through: LogPosition::default(), held: None, max_held_bytes }
    }

    /// The end of the delivered records.
    pub(crate) fn through(&self) -> LogPosition {
        self.through
    }

    /// Continues after a snapshot, which has no open transaction.
    pub(crate) fn restart(&mut self, position: LogPosition) {
        self.held = None;
        self.through = position;
    }

    /// Processes committed batches; `None` if they complete no transaction yet.
    pub(crate) fn take(&mut self, batches: &[Bytes]) -> Result<Option<Committed>, RecordFault> {
        let before = self.through;
        let mut committed = Committed::default();
        for bytes in batches {
            self.take_batch(bytes, &mut committed)?;
        }
        assert!(self.through.offset >= before.offset, "published records are published again");
        let ascending = committed.records.is_sorted_by(|one, next| one.offset < next.offset);
        debug_assert!(ascending, "published records are not in the order of the log");
        committed.through = self.through;
        let is_news = self.through != before || committed.quorum != QuorumChange::default();
        Ok(is_news.then_some(committed))
    }

    fn take_batch(&mut self, bytes: &Bytes, committed: &mut Committed) -> Result<(), RecordFault> {
        let base =
            batch::BatchView::parse(bytes).map_err(|source| RecordFault::Batch { offset: -1, source })?;
        let (offset, epoch) = (base.base_offset(), base.leader_epoch());
        if base.is_control() {
            committed.quorum.take(bytes, &self.listener)?;
        } else {
            for record in records(bytes)? {
                self.take_record(record?, committed)?;
            }
        }
        if self.held.is_none() {
            let last = offset + i64::from(base.last_offset_delta());
            self.through = LogPosition { offset: last + 1, epoch };
        }
        Ok(())
    }

    fn take_record(&mut self, record: MetadataRecord, committed: &mut Committed) -> Result<(), RecordFault> {
        let offset = record.offset;
        match (kind(&record)?, self.held.is_some()) {
            (BEGIN_TRANSACTION, false) => {
                self.held = Some(Held::default());
                return Ok(());
            }
            (BEGIN_TRANSACTION, true) => return Err(RecordFault::Nested { offset }),
            (END_TRANSACTION, true) => {
                committed.records.extend(self.held.take().unwrap_or_default().records);
            }
            (ABORT_TRANSACTION, true) => self.held = None,
            (END_TRANSACTION | ABORT_TRANSACTION, false) => return Err(RecordFault::NotOpen { offset }),
            _ => match &mut self.held {
                Some(held) => {
                    held.bytes += record.value.len() + size_of::<MetadataRecord>();
                    if held.bytes > self.max_held_bytes {
                        return Err(RecordFault::TooLarge { offset, limit: self.max_held_bytes });
                    }
                    held.records.push(record);
                    return Ok(());
                }
                None => committed.records.push(record.clone()),
            },
        }
        if self.held.is_none() {
            self.through = LogPosition { offset: record.offset + 1, epoch: record.epoch };
        }
        Ok(())
    }
}

/// The records of a whole batch that holds no control records.
pub(crate) fn records(
    bytes: &Bytes,
) -> Result<impl Iterator<Item = Result<MetadataRecord, RecordFault>>, RecordFault> {
    let view = batch::BatchView::parse(bytes).map_err(|source| RecordFault::Batch { offset: -1, source })?;
    let (base, epoch, timestamp_ms) = (view.base_offset(), view.leader_epoch(), view.max_timestamp());
    let fault = move |source| RecordFault::Batch { offset: base, source };
    let found = batch::records_within(bytes, MAX_EXPANDED).map_err(fault)?;
    Ok(found.map(move |record| {
        let record = record.map_err(fault)?;
        let offset = base + i64::from(record.offset_delta);
        let value = record.value.ok_or(RecordFault::Empty { offset })?;
        Ok(MetadataRecord { offset, epoch, timestamp_ms, value })
    }))
}

/// The number of the record's kind.
fn kind(record: &MetadataRecord) -> Result<u32, RecordFault> {
    let malformed = |source| RecordFault::Malformed { offset: record.offset, source };
    let mut value = Decoder::new(record.value.clone(), DecodeLimits::default()).map_err(malformed)?;
    let frame_version = value.read_unsigned_varint().map_err(malformed)?;
    if frame_version != FRAME_VERSION {
        return Err(RecordFault::Frame { offset: record.offset, frame_version });
    }
    value.read_unsigned_varint().map_err(malformed)
}

/// Keys and values of a control batch: the type of each, and its value, which begins with a
/// version.
pub(crate) fn control_records(bytes: &Bytes) -> Result<Vec<(i16, Bytes)>, RecordFault> {
    let view = batch::BatchView::parse(bytes).map_err(|source| RecordFault::Batch { offset: -1, source })?;
    let offset = view.base_offset();
    let fault = |source| RecordFault::Batch { offset, source };
    let mut found = Vec::new();
    for record in batch::records_within(bytes, MAX_EXPANDED).map_err(fault)? {
        let record = record.map_err(fault)?;
        let kind = record.key.as_deref().and_then(|key| key.get(2..4));
        let kind = kind.and_then(|kind| kind.try_into().ok()).map(i16::from_be_bytes);
        let kind = kind.ok_or(RecordFault::Empty { offset })?;
        found.push((kind, record.value.unwrap_or_default()));
    }
    Ok(found)
}

fn decode_level(value: Bytes) -> Result<i16, DecodeError> {
    let mut input = Decoder::new(value, DecodeLimits::default())?;
    input.read_i16()?;
    input.read_i16()
}

fn decode_voters(value: Bytes, listener: &str) -> Result<BTreeMap<i32, Address>, DecodeError> {
    let mut input = Decoder::new(value, DecodeLimits::default())?;
    let mut voters = BTreeMap::new();
    input.read_i16()?;
    let count = input.read_compact_array_len()?;
    input.read_vec(count, |input| {
        let id = input.read_i32()?;
        input.read_uuid()?;
        let endpoints = input.read_compact_array_len()?;
        input.read_vec(endpoints, |input| {
            let name = input.read_compact_string()?;
            let host = input.read_compact_string()?.as_str().to_owned();
            let port = input.read_u16()?;
            input.read_tagged_fields()?;
            if name.as_str() == listener {
                voters.insert(id, Address { host, port });
            }
            Ok(())
        })?;
        for _ in 0..2 {
            input.read_i16()?;
        }
        // The range of kraft.version is a separate struct, with its own tagged fields.
        input.read_tagged_fields()?;
        input.read_tagged_fields()?;
        Ok(())
    })?;
    Ok(voters)
}

/// A committed record that cannot be understood: state built without it would be wrong.
#[derive(Debug, Error)]
pub enum RecordFault {
    /// The batch's records do not expand or are malformed.
    #[error("the batch at offset {offset} cannot be read: {source}")]
    Batch {
        /// Base offset of the batch.
        offset: i64,
        /// The cause.
        source: BatchError,
    },
    /// A record has no value, or a control record no type.
    #[error("the record at offset {offset} is empty")]
    Empty {
        /// Offset of the record.
        offset: i64,
    },
    /// A record's value does not begin with frame version and kind.
    #[error("the record at offset {offset} is malformed: {source}")]
    Malformed {
        /// Offset of the record.
        offset: i64,
        /// The cause.
        source: DecodeError,
    },
    /// A newer version of Kafka has written the record.
    #[error("the record at offset {offset} has frame version {frame_version}; this version reads only 1")]
    Frame {
        /// Offset of the record.
        offset: i64,
        /// Version of the frame.
        frame_version: u32,
    },
    /// A transaction begins inside another.
    #[error("a metadata transaction begins at offset {offset} inside another one")]
    Nested {
        /// Offset of the mark.
        offset: i64,
    },
    /// A transaction ends that has no beginning.
    #[error("metadata log: a record ends a transaction at offset {offset} without a BeginTransactionRecord")]
    NotOpen {
        /// Offset of the mark.
        offset: i64,
    },
    /// A transaction has more bytes than may be held back.
    #[error("a metadata transaction is larger than {limit} bytes at offset {offset}")]
    TooLarge {
        /// Offset of the record that exceeds the limit.
        offset: i64,
        /// Maximum, bytes.
        limit: usize,
    },
}
