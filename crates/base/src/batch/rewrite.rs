//! The same batch with fewer records, or none: the result of compaction. Offsets, producer, leader
//! epoch and codec stay unchanged, so that sequences continue; timestamps have another base, which
//! may be a delete horizon.

use std::io;

use super::builder::{Deltas, put_record};
use super::recompress::CODEC_MASK;
use super::{
    ATTRIBUTES_AT, BatchError, BatchView, DELETE_HORIZON, HEADER_LEN, LENGTH_AT, MAX_TIMESTAMP_AT,
    NO_TIMESTAMP, PREFIX_LEN, RecompressError, Record, seal,
};
use crate::compress;

const BASE_TIMESTAMP_AT: usize = 27;
const COUNT_AT: usize = 57;
const _: () = assert!(COUNT_AT + 4 == HEADER_LEN, "the records follow their count");

/// The batch with only the given records, in their order and at least one; with a delete horizon if
/// one is given.
///
/// # Errors
/// The codec's, or a batch of more than 2 GiB.
pub fn rewrite(
    view: &BatchView<'_>,
    kept: impl Iterator<Item = Record> + Clone,
    horizon_ms: Option<i64>,
) -> Result<Vec<u8>, RecompressError> {
    let first = kept.clone().next().map_or(NO_TIMESTAMP, |record| view.timestamp_of(&record));
    let base = horizon_ms.unwrap_or(first);
    let (mut latest, mut count) = (first, 0_usize);
    let mut records = Vec::new();
    for record in kept {
        let headers = record.headers.iter().map(|header| (header.key, header.value));
        let timestamp = view.timestamp_of(&record);
        let deltas =
            Deltas { timestamp: timestamp.wrapping_sub(base), offset: i64::from(record.offset_delta) };
        put_record(&mut records, deltas, (record.key.as_deref(), record.value.as_deref()), headers);
        latest = latest.max(timestamp);
        count += 1;
    }
    let mut batch = header(view)?.to_vec();
    compress::compress(view.compression()?, &records, &mut batch)?;
    let length = i32::try_from(batch.len() - PREFIX_LEN).map_err(io::Error::other)?;
    let count = i32::try_from(count).map_err(io::Error::other)?;
    let horizon = if horizon_ms.is_some() { DELETE_HORIZON } else { 0 };
    let attributes = view.attributes() & !DELETE_HORIZON | horizon;
    let latest = if view.is_log_append_time() { view.max_timestamp() } else { latest };
    put(&mut batch, LENGTH_AT, &length.to_be_bytes());
    put(&mut batch, ATTRIBUTES_AT, &attributes.to_be_bytes());
    put(&mut batch, BASE_TIMESTAMP_AT, &base.to_be_bytes());
    put(&mut batch, MAX_TIMESTAMP_AT, &latest.to_be_bytes());
    put(&mut batch, COUNT_AT, &count.to_be_bytes());
    seal(&mut batch);
    Ok(batch)
}

/// The batch without records: its header still contains offsets, producer, epoch and sequences.
///
/// # Errors
/// A view of less than a header.
pub fn emptied(view: &BatchView<'_>) -> Result<Vec<u8>, BatchError> {
    let mut batch = header(view)?.to_vec();
    let attributes = view.attributes() & !(DELETE_HORIZON | CODEC_MASK);
    put(&mut batch, LENGTH_AT, &((HEADER_LEN - PREFIX_LEN) as i32).to_be_bytes());
    put(&mut batch, ATTRIBUTES_AT, &attributes.to_be_bytes());
    put(&mut batch, BASE_TIMESTAMP_AT, &NO_TIMESTAMP.to_be_bytes());
    put(&mut batch, COUNT_AT, &0_i32.to_be_bytes());
    seal(&mut batch);
    Ok(batch)
}

fn header<'a>(view: &BatchView<'a>) -> Result<&'a [u8], BatchError> {
    let bytes = view.bytes();
    bytes.get(..HEADER_LEN).ok_or(BatchError::Truncated { have: bytes.len(), need: HEADER_LEN })
}

fn put(batch: &mut [u8], at: usize, bytes: &[u8]) {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
}
