//! Records of a ShareFetch response. The broker sends whole batches, of which the member has
//! acquired some records.

use std::collections::BTreeSet;

use bytes::Bytes;
use levada_base::batch::{self, BatchView, Record};
use levada_wire::messages::share_fetch_response::AcquiredRecords;

use crate::cluster::TopicPartition;
use crate::error::ClientError;
use crate::fetcher::split_batch;

/// The leader of a session, and the number of the session.
pub(super) type SessionId = (i32, u64);

/// A record that the member has acquired, and has to acknowledge before its lock ends.
#[derive(Clone, Debug)]
pub struct AcquiredRecord {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The record's offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Number of times that the record was delivered, with this delivery.
    pub deliveries: i16,
    /// Key, value and headers.
    pub record: Record,
    /// The session that acquired it.
    pub(super) session: SessionId,
}

/// Maximum number of offsets of one acquired range: far more than a broker locks in a partition. A
/// larger range counts as damaged.
const OFFSETS_MAX: i64 = 1 << 20;

/// Acquired records in order, and acquired offsets at which the log has no record for consumers:
/// markers of transactions, and records that compaction has removed.
pub(super) struct Acquired {
    pub(super) records: Vec<AcquiredRecord>,
    pub(super) gaps: Vec<i64>,
}

/// Extracts the acquired records from the batches of a partition.
pub(super) fn acquired(
    place: &TopicPartition,
    session: SessionId,
    mut batches: Bytes,
    ranges: &[AcquiredRecords],
) -> Result<Acquired, ClientError> {
    let (topic, partition) = (place.0.as_str(), place.1);
    let damaged =
        |offset, reason| ClientError::DamagedBatch { topic: topic.to_owned(), partition, offset, reason };
    let mut open = BTreeSet::new();
    for range in ranges {
        let count = range.last_offset.checked_sub(range.first_offset);
        if !count.is_some_and(|count| (0..OFFSETS_MAX).contains(&count)) {
            return Err(ClientError::AcquiredRange { topic: topic.to_owned(), partition });
        }
        open.extend(range.first_offset..=range.last_offset);
    }
    let first = ranges.first().map_or(0, |range| range.first_offset);
    let mut records = Vec::new();
    while let Some(bytes) = split_batch(&mut batches).map_err(|error| damaged(first, error))? {
        let view = BatchView::parse(&bytes).map_err(|error| damaged(first, error))?;
        let is_acquired = open.range(view.base_offset()..=view.last_offset()).next().is_some();
        if view.is_control() || !is_acquired {
            continue;
        }
        let wrong = |error| damaged(view.base_offset(), error);
        for record in batch::records(&bytes).map_err(wrong)? {
            let record = record.map_err(wrong)?;
            let offset = view.base_offset() + i64::from(record.offset_delta);
            if !open.remove(&offset) {
                continue;
            }
            let holds = |range: &&AcquiredRecords| (range.first_offset..=range.last_offset).contains(&offset);
            records.push(AcquiredRecord {
                topic: topic.to_owned(),
                partition,
                offset,
                timestamp_ms: view.timestamp_of(&record),
                deliveries: ranges.iter().find(holds).map_or(1, |range| range.delivery_count),
                record,
                session,
            });
        }
    }
    Ok(Acquired { records, gaps: open.into_iter().collect() })
}
