//! A change as batches: one batch if it fits, otherwise several in a metadata transaction, so that
//! the change is atomic. A change that exceeds the limit of the log is refused before anything is
//! written.

use levada_wire::primitives::Bytes;

use super::StoreError;
use crate::features::{LATEST, METADATA_VERSION};
use crate::image::Image;
use crate::records::{self, BeginTransactionRecord, EndTransactionRecord, Record, TRANSACTIONS};

/// Maximum number of bytes of records in one batch, as in Kafka's quorum.
pub(super) const BATCH_MAX_BYTES: usize = 8 << 20;

/// Maximum number of bytes of records in one change: the start or stop of a node with a million
/// partitions.
const CHANGE_MAX_BYTES: usize = 64 << 20;

/// Maximum bytes of a record in a batch in addition to its value.
const OVERHEAD_BYTES: usize = 24;

const _: () = assert!(OVERHEAD_BYTES < BATCH_MAX_BYTES && BATCH_MAX_BYTES < CHANGE_MAX_BYTES);

/// A record's value, ready to be put into a batch.
pub(super) type Value = Bytes;

/// The values of a change in runs that each fit into a batch, in the form of a `metadata.version`.
pub(super) fn split(list: &[Record], level: i16) -> Result<Vec<Vec<Value>>, StoreError> {
    let mut values = Vec::with_capacity(list.len());
    let mut total = 0;
    for record in list {
        let Some(value) = encode(record, level)? else { continue };
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
    if level < TRANSACTIONS {
        return Err(StoreError::TooLarge { bytes: total, limit: BATCH_MAX_BYTES });
    }
    let mut runs = runs(values, usize::MAX);
    let begin = BeginTransactionRecord { name: Some("Large change".to_owned()) };
    runs.insert(0, Vec::from_iter(encode(&begin.into(), level)?));
    runs.push(Vec::from_iter(encode(&EndTransactionRecord.into(), level)?));
    Ok(runs)
}

/// Values in runs with a limit of number, and of no more bytes than a batch may have.
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

/// A record's value; none if the `metadata.version` does not have the record.
pub(super) fn encode(record: &Record, level: i16) -> Result<Option<Value>, StoreError> {
    records::encode_at(record, level).map_err(StoreError::Unencodable)
}

/// The `metadata.version` for encoding records: that of the image, or the version that the records
/// set.
pub(super) fn level(image: Option<&Image>, list: &[Record]) -> i16 {
    let kept = image.and_then(|image| image.features().get(METADATA_VERSION).copied());
    let set = || {
        list.iter().find_map(|record| match record {
            Record::FeatureLevel(feature) if feature.name == METADATA_VERSION => Some(feature.feature_level),
            _ => None,
        })
    };
    kept.or_else(set).unwrap_or(LATEST)
}
