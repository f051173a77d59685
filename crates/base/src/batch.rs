//! Record batches in format 2: the 61-byte header as a view over bytes, validation, records, and an
//! encoder.
//!
//! Producers send batches, segments store them, and consumers receive them; the broker serves a
//! batch without decoding it. The base offset and the leader epoch are before the checksum's range,
//! so both are patched in place without a new checksum.

use thiserror::Error;

use crate::compress::{CompressError, Compression};

mod builder;
mod recompress;
mod records;
mod rewrite;
#[cfg(test)]
mod tests;
mod varint;

pub use builder::{Builder, EndMarker, Marker};
pub use recompress::{RecompressError, recompress};
pub use records::{
    Header, HeaderIter, Headers, MAX_EXPANDED, Record, Records, Survey, records, records_within,
};
pub use rewrite::{emptied, rewrite};

/// Bytes before the first record.
pub const HEADER_LEN: usize = 61;
/// Bytes that the length field does not count: the base offset and the length itself.
pub const PREFIX_LEN: usize = 12;
/// The only batch format in use since Kafka 4.
pub const MAGIC: i8 = 2;
/// Producer id of a batch that was written without idempotence.
pub const NO_PRODUCER_ID: i64 = -1;
/// Producer epoch of batches with [`NO_PRODUCER_ID`].
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// Base sequence of a batch without one: no producer, or a control batch.
pub const NO_SEQUENCE: i32 = -1;
/// Timestamp of a batch or record that has none.
pub const NO_TIMESTAMP: i64 = -1;

const LENGTH_AT: usize = 8;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;

const _: () = assert!(LENGTH_AT + 4 == PREFIX_LEN, "the length counts what follows it");
const _: () =
    assert!(PREFIX_LEN < CRC_AT && CRC_AT + 4 == ATTRIBUTES_AT, "the checksum covers all that follows it");
const _: () = assert!(ATTRIBUTES_AT < MAX_TIMESTAMP_AT && MAX_TIMESTAMP_AT + 8 < HEADER_LEN);

const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// One batch: the fields of its header, read in place. Copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a> {
    bytes: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// The batch at the start of `bytes`; more bytes may follow it. Checks only the lengths and the
    /// format byte, neither checksum nor records ([`check`] does).
    ///
    /// # Errors
    /// [`BatchError::Truncated`], [`BatchError::Length`] or [`BatchError::Magic`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let header =
            bytes.get(..HEADER_LEN).ok_or(BatchError::Truncated { have: bytes.len(), need: HEADER_LEN })?;
        let view = BatchView { bytes: header };
        if view.magic() != MAGIC {
            return Err(BatchError::Magic(view.magic()));
        }
        let length = view.i32_at(8);
        let size = usize::try_from(length).ok().map(|length| length + PREFIX_LEN);
        let size = size.filter(|size| *size >= HEADER_LEN).ok_or(BatchError::Length(length))?;
        let bytes = bytes.get(..size).ok_or(BatchError::Truncated { have: bytes.len(), need: size })?;
        Ok(BatchView { bytes })
    }

    /// The header alone, for a reader that holds no more than the first 61 bytes.
    ///
    /// # Errors
    /// Same as [`BatchView::parse`], except that the records may be missing.
    pub fn parse_header(bytes: &'a [u8; HEADER_LEN]) -> Result<Self, BatchError> {
        match BatchView::parse(bytes) {
            Err(BatchError::Truncated { .. }) => Ok(BatchView { bytes }),
            other => other,
        }
    }

    /// The whole batch.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the whole batch according to its length field.
    pub fn size_bytes(&self) -> usize {
        usize::try_from(self.i32_at(8)).map_or(0, |length| length + PREFIX_LEN)
    }

    /// The offset of the first record, present or compacted away.
    pub fn base_offset(&self) -> i64 {
        self.i64_at(0)
    }

    /// The epoch of the leader that wrote the batch.
    pub fn leader_epoch(&self) -> i32 {
        self.i32_at(12)
    }

    /// The format of the batch.
    pub fn magic(&self) -> i8 {
        self.bytes[16].cast_signed()
    }

    /// The checksum the batch carries.
    pub fn stored_crc(&self) -> u32 {
        self.i32_at(CRC_AT).cast_unsigned()
    }

    /// Checksum computed over the present bytes.
    pub fn computed_crc(&self) -> u32 {
        crc32c(&self.bytes[ATTRIBUTES_AT..])
    }

    /// All attribute bits.
    pub fn attributes(&self) -> i16 {
        i16::from_be_bytes([self.bytes[ATTRIBUTES_AT], self.bytes[ATTRIBUTES_AT + 1]])
    }

    /// Compression of the records.
    ///
    /// # Errors
    /// [`BatchError::Codec`] for an unknown number.
    pub fn compression(&self) -> Result<Compression, BatchError> {
        let id = (self.attributes() & 7) as u8;
        Compression::from_id(id).ok_or(BatchError::Codec(id))
    }

    /// True if the broker stamped the batch when it was appended.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes() & LOG_APPEND_TIME != 0
    }

    /// True if the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes() & TRANSACTIONAL != 0
    }

    /// True if the batch holds control records, which clients never see.
    pub fn is_control(&self) -> bool {
        self.attributes() & CONTROL != 0
    }

    /// The time after which compaction may drop the tombstones of this batch, if one was set.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes() & DELETE_HORIZON != 0).then(|| self.base_timestamp())
    }

    /// Offset of the last record less the base offset.
    pub fn last_offset_delta(&self) -> i32 {
        self.i32_at(23)
    }

    /// The offset of the last record, present or compacted away.
    pub fn last_offset(&self) -> i64 {
        self.base_offset().wrapping_add(i64::from(self.last_offset_delta()))
    }

    /// Base of the records' timestamps (or the delete horizon).
    pub fn base_timestamp(&self) -> i64 {
        self.i64_at(27)
    }

    /// The largest timestamp in the batch, or the append time.
    pub fn max_timestamp(&self) -> i64 {
        self.i64_at(MAX_TIMESTAMP_AT)
    }

    /// True if the timestamps of the header contradict each other: the first record is later than
    /// the largest timestamp. The broker stored such batches before it computed the field itself.
    pub fn misstates_times(&self) -> bool {
        let is_plain = self.attributes() & (LOG_APPEND_TIME | DELETE_HORIZON) == 0;
        is_plain && self.record_count() > 0 && self.max_timestamp() < self.base_timestamp()
    }

    /// The timestamp of one of its records.
    pub fn timestamp_of(&self, record: &Record) -> i64 {
        if self.is_log_append_time() {
            self.max_timestamp()
        } else {
            self.base_timestamp().wrapping_add(record.timestamp_delta)
        }
    }

    /// The producer, or [`NO_PRODUCER_ID`].
    pub fn producer_id(&self) -> i64 {
        self.i64_at(43)
    }

    /// The producer's epoch, or [`NO_PRODUCER_EPOCH`].
    pub fn producer_epoch(&self) -> i16 {
        i16::from_be_bytes([self.bytes[51], self.bytes[52]])
    }

    /// The sequence number of the first record, or [`NO_SEQUENCE`].
    pub fn base_sequence(&self) -> i32 {
        self.i32_at(53)
    }

    /// The sequence number of the last record; the numbers wrap from the largest `i32` to 0.
    pub fn last_sequence(&self) -> i32 {
        match self.base_sequence() {
            NO_SEQUENCE => NO_SEQUENCE,
            base => base.wrapping_add(self.last_offset_delta()) & i32::MAX,
        }
    }

    /// Number of records according to the header.
    pub fn record_count(&self) -> i32 {
        self.i32_at(57)
    }

    /// The records' bytes, compressed if the batch is.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }

    fn i32_at(&self, at: usize) -> i32 {
        i32::from_be_bytes(self.bytes[at..at + 4].try_into().expect("four bytes of a whole header"))
    }

    fn i64_at(&self, at: usize) -> i64 {
        i64::from_be_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes of a whole header"))
    }
}

/// Defect of a batch. The sender of the bytes is at fault, or the disk they lay on.
#[derive(Debug, Error)]
pub enum BatchError {
    /// Fewer bytes than the header or its length field require.
    #[error("batch is cut short: {have} of {need} bytes")]
    Truncated {
        /// Number of bytes given.
        have: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// Bytes follow the batch where exactly one was allowed.
    #[error("{0} bytes follow the batch")]
    Trailing(usize),
    /// A format other than 2.
    #[error("batch format {0} is not supported")]
    Magic(i8),
    /// The length field is impossible.
    #[error("batch length {0} is impossible")]
    Length(i32),
    /// The checksum does not match.
    #[error("batch checksum mismatch: computed {computed:#010x}, the header has {stored:#010x}")]
    Crc {
        /// Checksum in the header.
        stored: u32,
        /// Checksum of the received bytes.
        computed: u32,
    },
    /// Record count and last offset delta contradict each other or the records.
    #[error("batch counts disagree: header {count}, last offset delta {last_offset_delta}, found {found:?}")]
    Count {
        /// The header's record count.
        count: i32,
        /// The header's last offset delta.
        last_offset_delta: i32,
        /// Records really found, once counted.
        found: Option<i32>,
    },
    /// Producer id, epoch and sequence contradict each other.
    #[error("producer id {producer_id}, epoch {epoch} and sequence {sequence} are not a valid combination")]
    Producer {
        /// Producer id.
        producer_id: i64,
        /// Producer epoch.
        epoch: i16,
        /// Base sequence.
        sequence: i32,
    },
    /// A compression number without a codec.
    #[error("unknown compression type {0}")]
    Codec(u8),
    /// The records do not expand.
    #[error(transparent)]
    Compression(#[from] CompressError),
    /// A record is malformed.
    #[error("record {index} is malformed: {what}")]
    Record {
        /// Number of the record, from 0.
        index: i32,
        /// Part of the record that is malformed.
        what: &'static str,
    },
}

/// A batch that [`check_within`] accepted.
#[derive(Clone, Copy, Debug)]
pub struct CheckedBatch<'a> {
    /// The accepted batch.
    pub batch: BatchView<'a>,
    /// Bounds of its records, independent of the header.
    pub survey: Survey,
}

/// Checks one batch as a producer sends it: exactly one, format 2, checksum, counts that agree with
/// the records really there, a sensible producer and sequence. Expands compressed records into a
/// buffer of this thread (bounded by [`MAX_EXPANDED`]) and walks every record. Allocates nothing
/// from a claimed length.
///
/// # Errors
/// The first thing found wrong.
pub fn check(bytes: &[u8]) -> Result<BatchView<'_>, BatchError> {
    check_within(bytes, MAX_EXPANDED).map(|checked| checked.batch)
}

/// Like [`check`], for a thread with little time: records that expand to more than `expanded_max`
/// bytes are [`CompressError::TooLarge`]. The walk also returns a survey of the records.
///
/// # Errors
/// The first thing found wrong.
pub fn check_within(bytes: &[u8], expanded_max: usize) -> Result<CheckedBatch<'_>, BatchError> {
    let view = check_stored(bytes)?;
    if view.bytes.len() < bytes.len() {
        return Err(BatchError::Trailing(bytes.len() - view.bytes.len()));
    }
    let (count, last_offset_delta) = (view.record_count(), view.last_offset_delta());
    if count < 1 || count.checked_sub(1) != Some(last_offset_delta) {
        return Err(BatchError::Count { count, last_offset_delta, found: None });
    }
    let (producer_id, epoch, sequence) = (view.producer_id(), view.producer_epoch(), view.base_sequence());
    let plain = producer_id == NO_PRODUCER_ID && !view.is_transactional();
    let sequenced = producer_id >= 0 && epoch >= 0 && (sequence >= 0 || view.is_control());
    if !plain && !sequenced {
        return Err(BatchError::Producer { producer_id, epoch, sequence });
    }
    let survey = records::walk(&view, expanded_max)?;
    Ok(CheckedBatch { batch: view, survey })
}

/// Checks the batch at the start of `bytes` as a log stores it: lengths, format, checksum, a last
/// offset not before the first. The records are under the checksum and are not walked. More may
/// follow.
///
/// # Errors
/// The first thing found wrong.
pub fn check_stored(bytes: &[u8]) -> Result<BatchView<'_>, BatchError> {
    let view = BatchView::parse(bytes)?;
    let (stored, computed) = (view.stored_crc(), view.computed_crc());
    if stored != computed {
        return Err(BatchError::Crc { stored, computed });
    }
    let (count, last_offset_delta) = (view.record_count(), view.last_offset_delta());
    // Compaction leaves holes, so the count may be smaller, but never larger.
    if last_offset_delta < 0 || count < 0 || count - 1 > last_offset_delta {
        return Err(BatchError::Count { count, last_offset_delta, found: None });
    }
    Ok(view)
}

/// Writes the fields that the partition assigns into a batch; outside the checksum.
pub fn assign(batch: &mut [u8], base_offset: i64, leader_epoch: i32) {
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
}

/// Stamps a batch with the time it was appended; inside the checksum, which is computed again.
pub fn stamp(batch: &mut [u8], timestamp_ms: i64) {
    batch[ATTRIBUTES_AT + 1] |= LOG_APPEND_TIME as u8;
    batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&timestamp_ms.to_be_bytes());
    seal(batch);
}

/// Writes the largest timestamp of its records into the header of a checked batch. The field is in
/// the range of the checksum, which is computed again; a batch with this timestamp stays unchanged.
/// Returns true if the timestamp was different.
pub fn correct_max_timestamp(batch: &mut [u8], latest: i64) -> bool {
    let field = &mut batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8];
    let differs = *field != latest.to_be_bytes();
    if differs {
        field.copy_from_slice(&latest.to_be_bytes());
        seal(batch);
    }
    differs
}

fn seal(batch: &mut [u8]) {
    let crc = crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
}

/// CRC-32C, the checksum of batches and producer snapshots.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}
