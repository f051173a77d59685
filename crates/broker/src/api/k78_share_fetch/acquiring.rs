//! Acquisition of the records that a fetch has found.

use levada_coordination::share_partition::{AcquireRequest, AcquiredRecords, FetchedRange};
use levada_log::ReadError;
use levada_wire::share_fetch::AcquiredRange;

use super::reading::{FoundRange, NewRecords, Reading};
use crate::api::records::Records;
use crate::share_partitions::{FetchLease, ShareGroup};

/// A partition whose fetch lock a fetch has, and the range that it has found there.
pub(super) struct Found {
    /// Index of the partition among those of the fetch.
    pub(super) at: usize,
    pub(super) lease: FetchLease,
    pub(super) reading: Reading,
    pub(super) range: FoundRange,
    /// Number of records that can be acquired; none if a record from the offset of the read on was
    /// acquired before.
    pub(super) new_max: Option<i64>,
}

/// Records of a partition that a fetch has acquired.
#[derive(Debug, Default)]
pub(super) struct Acquired {
    pub(super) records: Option<Records>,
    pub(super) ranges: Vec<AcquiredRange>,
    /// Number of records.
    pub(super) count: i64,
    /// True if another fetch would begin at another offset, although there may be no records for
    /// this one.
    pub(super) has_moved: bool,
}

impl Found {
    /// Acquires records; headers of their batches are read first.
    pub(super) async fn acquire(
        &self,
        request: &AcquireRequest,
        group: &ShareGroup,
    ) -> Result<Acquired, ReadError> {
        let new = self.new_max.map(|max| NewRecords {
            max: max.min(request.max_records.into()),
            joined_max: request.joined_max(),
        });
        let batches = self.reading.list(&self.range, new).await?;
        let range = FetchedRange { fetch_offset: self.reading.offset, batches: &batches.fetched };
        let acquisition = self.lease.acquire(request, range, group);
        let spans = batches.spans.get(acquisition.batches).unwrap_or_default();
        let extents = if acquisition.records.is_empty() { Vec::new() } else { self.range.extents_of(spans) };
        Ok(Acquired {
            records: Records::of(extents, self.range.is_final()),
            ranges: acquisition.records.into_iter().map(range_of).collect(),
            count: acquisition.count,
            has_moved: self.lease.next_fetch_offset() != self.reading.offset,
        })
    }
}

fn range_of(records: AcquiredRecords) -> AcquiredRange {
    AcquiredRange {
        first_offset: records.first,
        last_offset: records.last,
        delivery_count: records.delivery_count,
    }
}
