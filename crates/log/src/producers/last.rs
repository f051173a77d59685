//! The last record of each producer, which compaction has to keep.

use std::collections::{BTreeMap, HashMap};

use levada_base::batch::BatchView;

/// The last record of each producer with state in the log: the batch that contains it stays, so
/// that the producer can continue.
#[derive(Clone, Debug, Default)]
pub struct LastRecords {
    /// Epoch of each producer, and the offset of its last record unless a marker has ended the
    /// beginning of that epoch.
    pub(crate) by_producer: HashMap<i64, (i16, Option<i64>)>,
    /// Transactions that are open: first offset and producer. The log may begin after it.
    pub(crate) open: BTreeMap<i64, i64>,
}

impl LastRecords {
    /// True if the batch holds the last record of its producer.
    pub(crate) fn is_last(&self, batch: &BatchView<'_>) -> bool {
        match self.by_producer.get(&batch.producer_id()) {
            _ if batch.producer_id() < 0 => false,
            Some((_, Some(last))) => batch.last_offset() == *last,
            // Only the marker contains its epoch.
            Some((epoch, None)) => batch.is_control() && batch.producer_epoch() == *epoch,
            None => false,
        }
    }
}
