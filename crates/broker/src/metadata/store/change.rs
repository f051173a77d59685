//! One change as batches: as one where it fits, else as several inside a metadata transaction, so that it happens as a whole or not at
//! all. A change that is larger than the log takes is refused before anything of it is written.

use levada_wire::primitives::Bytes;

use super::StoreError;
use crate::metadata::records::{self, BeginTransactionRecord, EndTransactionRecord, Record};

/// The most bytes of records in one batch, as in Kafka's quorum.
pub(super) const BATCH_MAX_BYTES: usize = 8 << 20;

/// The most bytes of records in one change: a start or stop of a node with a million partitions.
const CHANGE_MAX_BYTES: usize = 64 << 20;

/// The most bytes that a record takes in a batch beside its value.
const OVERHEAD_BYTES: usize = 24;

/// A record's value, ready to be put into a batch.
pub(super) type Value = Bytes;

/// The values of a change in runs that fit into a batch each.
pub(super) fn split(list: &[Record], transactions: bool) -> Result<Vec<Vec<Value>>, StoreError> {
    let mut values = Vec::with_capacity(list.len());
    let mut total = 0;
    for record in list {
        let value = encode(record)?;
        total += value.len() + OVERHEAD_BYTES;
        if value.len() > BATCH_MAX_BYTES - OVERHEAD_BYTES {
            return Err(StoreError::TooLarge { bytes: value.len(), limit: BATCH_MAX_BYTES });
        }
        if total > CHANGE_MAX_BYTES {
            return Err(StoreError::TooLarge { bytes: total, limit: CHANGE_MAX_BYTES });
        }
        values.push(value);
    }
    if total <= BATCH_MAX_BYTES {
        return Ok(vec![values]);
    }
    if !transactions {
        return Err(StoreError::TooLarge { bytes: total, limit: BATCH_MAX_BYTES });
    }
    let mut runs = runs(values, usize::MAX);
    let begin = BeginTransactionRecord { name: Some("Large change".to_owned()) };
    runs.insert(0, vec![encode(&begin.into())?]);
    runs.push(vec![encode(&EndTransactionRecord.into())?]);
    Ok(runs)
}

/// Values in runs of at most so many, and of no more bytes than a batch may have.
pub(super) fn runs(values: Vec<Value>, records_max: usize) -> Vec<Vec<Value>> {
    let mut runs: Vec<Vec<Value>> = Vec::new();
    let mut bytes = 0;
    for value in values {
        bytes += value.len() + OVERHEAD_BYTES;
        match runs.last_mut().filter(|run| run.len() < records_max && bytes <= BATCH_MAX_BYTES) {
            Some(run) => run.push(value),
            None => {
                bytes = value.len() + OVERHEAD_BYTES;
                runs.push(vec![value]);
            }
        }
    }
    runs
}

/// A record's value.
pub(super) fn encode(record: &Record) -> Result<Value, StoreError> {
    records::encode(record).map_err(StoreError::Unencodable)
}
