//! Encodes batches: for internal topics, the command line and tests. Clients' batches are never
//! encoded again.

use std::io;

use bytes::BytesMut;

use super::{CONTROL, LOG_APPEND_TIME, PREFIX_LEN, TRANSACTIONAL};
use super::{HEADER_LEN, MAGIC, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, seal, varint};
use crate::compress::{self, Compression};

/// Collects records and encodes one batch. Base offset and leader epoch are the log's to assign and
/// start as 0 and -1.
#[derive(Clone, Debug)]
pub struct Builder {
    base_offset: i64,
    leader_epoch: i32,
    compression: Compression,
    attributes: i16,
    producer: (i64, i16, i32),
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
    last_offset_delta: i32,
    records: Vec<u8>,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Abort marker: consumers that read committed data never get the records of the transaction.
    Abort,
    /// Commit marker: consumers that read committed data get the records of the transaction.
    Commit,
}

/// A control record that ends a producer's transaction.
#[derive(Clone, Copy, Debug)]
pub struct EndMarker {
    /// Commit or abort.
    pub marker: Marker,
    /// The producer whose transaction ends.
    pub producer_id: i64,
    /// Producer epoch in the marker.
    pub producer_epoch: i16,
    /// The epoch of the coordinator that decided.
    pub coordinator_epoch: i32,
    /// Time of the decision.
    pub timestamp_ms: i64,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// An empty batch without compression or producer.
    pub fn new() -> Self {
        Self {
            base_offset: 0,
            leader_epoch: -1,
            compression: Compression::None,
            attributes: 0,
            producer: (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE),
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            count: 0,
            last_offset_delta: -1,
            records: Vec::new(),
        }
    }

    /// Sets the offset of the first record.
    pub fn base_offset(mut self, offset: i64) -> Self {
        self.base_offset = offset;
        self
    }

    /// Sets the leader epoch.
    pub fn leader_epoch(mut self, epoch: i32) -> Self {
        self.leader_epoch = epoch;
        self
    }

    /// Compresses the records with this codec.
    pub fn compression(mut self, codec: Compression) -> Self {
        self.compression = codec;
        self
    }

    /// Makes the batch idempotent.
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.producer = (id, epoch, base_sequence);
        self
    }

    /// Makes the batch part of its producer's transaction.
    pub fn transactional(mut self) -> Self {
        self.attributes |= TRANSACTIONAL;
        self
    }

    /// Marks the batch as one of control records.
    pub fn control(mut self) -> Self {
        self.attributes |= CONTROL;
        self
    }

    /// Marks the timestamps as the broker's.
    pub fn log_append_time(mut self) -> Self {
        self.attributes |= LOG_APPEND_TIME;
        self
    }

    /// Adds a record at the next offset.
    pub fn push(&mut self, timestamp_ms: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> &mut Self {
        self.push_with_headers(timestamp_ms, key, value, &[])
    }

    /// Adds a record with headers at the next offset.
    pub fn push_with_headers(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> &mut Self {
        if self.count == 0 {
            self.base_timestamp = timestamp_ms;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp_ms);
        self.last_offset_delta += 1;
        self.count += 1;
        let timestamp_delta = timestamp_ms.wrapping_sub(self.base_timestamp);
        let offset_delta = i64::from(self.last_offset_delta);
        let deltas = Deltas { timestamp: timestamp_delta, offset: offset_delta };
        put_record(&mut self.records, deltas, (key, value), headers.iter().copied());
        self
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// True if there are no records yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the records so far, before compression.
    pub fn size_bytes(&self) -> usize {
        HEADER_LEN + self.records.len()
    }

    /// Encodes the batch.
    ///
    /// # Errors
    /// The codec's, or a batch of more than 2 GiB.
    pub fn build(&self) -> io::Result<BytesMut> {
        let mut batch = vec![0; HEADER_LEN];
        compress::compress(self.compression, &self.records, &mut batch)?;
        let length = i32::try_from(batch.len() - PREFIX_LEN).map_err(io::Error::other)?;
        let attributes = self.attributes | i16::from(self.compression.id());
        let (producer_id, producer_epoch, base_sequence) = self.producer;
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            batch[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.base_offset.to_be_bytes());
        put(&length.to_be_bytes());
        put(&self.leader_epoch.to_be_bytes());
        put(&MAGIC.to_be_bytes());
        put(&[0; 4]);
        put(&attributes.to_be_bytes());
        put(&self.last_offset_delta.to_be_bytes());
        put(&self.base_timestamp.to_be_bytes());
        put(&self.max_timestamp.to_be_bytes());
        put(&producer_id.to_be_bytes());
        put(&producer_epoch.to_be_bytes());
        put(&base_sequence.to_be_bytes());
        put(&self.count.to_be_bytes());
        seal(&mut batch);
        Ok(BytesMut::from(&batch[..]))
    }
}

impl EndMarker {
    /// The control batch that ends the transaction: one record, whose key is version 0 and the
    /// kind, whose value is version 0 and the coordinator's epoch.
    ///
    /// # Errors
    /// None in practice: nothing is compressed.
    pub fn build(&self) -> io::Result<BytesMut> {
        let kind: i16 = match self.marker {
            Marker::Abort => 0,
            Marker::Commit => 1,
        };
        let mut key = [0; 4];
        key[2..].copy_from_slice(&kind.to_be_bytes());
        let mut value = [0; 6];
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        let mut builder = Builder::new().transactional().control();
        builder = builder.producer(self.producer_id, self.producer_epoch, NO_SEQUENCE);
        builder.push(self.timestamp_ms, Some(&key), Some(&value)).build()
    }

    /// Reads the marker out of a control batch, `None` if it ends no transaction (other control
    /// records exist).
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let view = super::BatchView::parse(bytes).ok()?;
        let record = super::records(bytes).ok()?.next()?.ok()?;
        let (key, value) = (record.key?, record.value?);
        let marker = match i16::from_be_bytes(key.get(2..4)?.try_into().ok()?) {
            0 => Marker::Abort,
            1 => Marker::Commit,
            _ => return None,
        };
        Some(Self {
            marker,
            producer_id: view.producer_id(),
            producer_epoch: view.producer_epoch(),
            coordinator_epoch: i32::from_be_bytes(value.get(2..6)?.try_into().ok()?),
            timestamp_ms: view.max_timestamp(),
        })
    }
}

/// Distances of a record from the base timestamp and the base offset of its batch.
pub(super) struct Deltas {
    pub(super) timestamp: i64,
    pub(super) offset: i64,
}

/// Appends one record, given its deltas, key and value.
pub(super) fn put_record<'a>(
    output: &mut Vec<u8>,
    deltas: Deltas,
    (key, value): (Option<&[u8]>, Option<&[u8]>),
    headers: impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone,
) {
    let Deltas { timestamp: timestamp_delta, offset: offset_delta } = deltas;
    let count = headers.len() as i64;
    let mut length = 1 + varint::len(timestamp_delta) + varint::len(offset_delta);
    length += bytes_len(key) + bytes_len(value) + varint::len(count);
    length += headers.clone().map(|(key, value)| bytes_len(Some(key)) + bytes_len(value)).sum::<usize>();
    varint::put(output, length as i64);
    output.push(0);
    varint::put(output, timestamp_delta);
    varint::put(output, offset_delta);
    put_bytes(output, key);
    put_bytes(output, value);
    varint::put(output, count);
    for (key, value) in headers {
        put_bytes(output, Some(key));
        put_bytes(output, value);
    }
}

fn bytes_len(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint::len(bytes.len() as i64) + bytes.len())
}

/// Appends a length and bytes; -1 stands for none.
pub(super) fn put_bytes(output: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => varint::put(output, -1),
        Some(bytes) => {
            varint::put(output, bytes.len() as i64);
            output.extend_from_slice(bytes);
        }
    }
}
