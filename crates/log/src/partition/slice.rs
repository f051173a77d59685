//! Results of reads.

use std::sync::Arc;

use levada_io::Extent;

use crate::segment::Segment;

/// Result of a read: a range of one segment, whole batches.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The range, `None` if there is nothing to read yet.
    pub extent: Option<Extent>,
    /// The first batch's base offset, which may be below the requested offset; the requested offset
    /// if there is no range.
    pub base_offset: i64,
    /// The first offset of the log at the time.
    pub log_start: i64,
    /// True if the range is in a sealed segment: more data will not arrive there.
    pub sealed: bool,
    // The thread that found it did not wait, and must not wait for the log line either.
    pub(super) cached: bool,
    // The list of the read: later questions about the range must use the same files.
    pub(super) segments: Option<Arc<Vec<Arc<Segment>>>>,
}

impl Slice {
    /// A slice without records, at this offset of a log.
    pub fn nothing(base_offset: i64, log_start: i64) -> Self {
        Self { extent: None, base_offset, log_start, sealed: false, cached: false, segments: None }
    }

    /// Bytes in the range.
    pub fn len(&self) -> u64 {
        self.extent.as_ref().map_or(0, |extent| extent.len)
    }

    /// True if there is nothing to read yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
