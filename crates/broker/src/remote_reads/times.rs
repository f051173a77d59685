//! Searches by timestamp in remote segments.

use std::sync::Arc;

use levada_chunks::Part;
use levada_chunks::search::{OffsetEntries, TimeEntries, first_by_time};
use levada_tiered::lineage::{within_lineage, without_empty_epochs};
use levada_tiered::{RemoteSegment, SegmentState};

use super::fault::Stop;
use super::held::HeldSegment;
use super::query::Query;
use super::{RemoteReads, TieredKey};

/// A search for the first record at or after a timestamp.
#[derive(Clone)]
pub(crate) struct TimeSearch {
    pub(crate) partition: TieredKey,
    pub(crate) log: Arc<levada_log::Partition>,
    /// The timestamp, ms since 1970.
    pub(crate) timestamp: i64,
}

/// A record found by its time: the offset, the timestamp and the leader epoch.
pub(crate) type TimedOffset = levada_log::TimestampOffset;

impl Query for TimeSearch {
    type Found = Option<TimedOffset>;

    fn attempt(&self, reads: &RemoteReads) -> Result<Option<TimedOffset>, Stop> {
        let (from, local_start) = (self.log.log_start(), self.log.local_log_start());
        let lineage = without_empty_epochs(&self.log.leader_epochs());
        let first = self.log.epoch_at(from);
        for &(epoch, _) in lineage.iter().filter(|(epoch, _)| *epoch >= first) {
            for segment in reads.segments.of_epoch(self.partition, epoch)? {
                let is_candidate = segment.max_timestamp_ms >= self.timestamp
                    && segment.end_offset >= from
                    && segment.start_offset < local_start
                    && segment.state == SegmentState::CopyFinished
                    && within_lineage(&segment, self.log.log_end(), &lineage);
                let found = if is_candidate { self.search(reads, segment, from)? } else { None };
                // The local log has the record as well, and answers without the store.
                if let Some(found) = found {
                    return Ok(Some(found).filter(|found| found.offset < local_start));
                }
            }
        }
        Ok(None)
    }
}

impl TimeSearch {
    /// The first such record of one segment.
    pub(super) fn search(
        &self,
        reads: &RemoteReads,
        segment: Arc<RemoteSegment>,
        from: i64,
    ) -> Result<Option<TimedOffset>, Stop> {
        let held = HeldSegment::new(&reads.cache, segment);
        let (times, offsets) = (held.index(Part::Times)?, held.index(Part::Offsets)?);
        let to_stop = Stop::of_search(&held.segment);
        let delta = TimeEntries::new(&times).delta_before(self.timestamp);
        let delta = delta.map_err(|error| to_stop(error.into()))?.unwrap_or(0).max(held.delta(from));
        let start = OffsetEntries::new(&offsets).floor(delta).map_err(|error| to_stop(error.into()))?;
        let range = u64::from(start.position)..held.size();
        let found = first_by_time(&held, range, (self.timestamp, from)).map_err(to_stop)?;
        Ok(found.map(|found| TimedOffset {
            offset: found.offset,
            timestamp: found.timestamp,
            leader_epoch: found.leader_epoch,
        }))
    }
}
