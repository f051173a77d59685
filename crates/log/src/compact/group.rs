//! Groups of neighbouring segments that become one segment.

use std::ops::Range;
use std::sync::Arc;

use crate::disk::Disk;
use crate::segment::Segment;
use crate::{LogConfig, LogError};

/// Maximum number of segments that become one: appends wait while their files are renamed.
const SEGMENTS_MAX: usize = 32;

/// Splits segments into runs that fit in one by size, by the size of each index, and by offsets.
/// `end` is where compaction ends.
pub(super) fn groups(
    segments: &[Arc<Segment>],
    disk: &dyn Disk,
    config: &LogConfig,
    end: i64,
) -> Result<Vec<Range<usize>>, LogError> {
    let limits = [config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes];
    let mut groups = Vec::new();
    let mut group = 0..0;
    let mut sizes = [0; 3];
    for (at, segment) in segments.iter().enumerate() {
        let own = [
            segment.size(),
            segment.offsets.entries().size_bytes(disk)?,
            segment.times.entries().size_bytes(disk)?,
        ];
        let last = segments.get(at + 1).map_or(end, |next| next.base()) - 1;
        let fits = (0..3).all(|one| sizes[one] + own[one] <= u64::from(limits[one]))
            && (segment.size() == 0 || last - segments[group.start].base() <= i64::from(i32::MAX))
            && group.len() < SEGMENTS_MAX;
        if !fits && !group.is_empty() {
            groups.push(std::mem::replace(&mut group, at..at));
            sizes = [0; 3];
        }
        group.end = at + 1;
        (0..3).for_each(|one| sizes[one] += own[one]);
    }
    if !group.is_empty() {
        groups.push(group);
    }
    debug_assert!(is_partition(&groups, segments.len()), "a segment is in one group: {groups:?}");
    Ok(groups)
}

/// True if the groups, one after the other, are all of `count` segments.
fn is_partition(groups: &[Range<usize>], count: usize) -> bool {
    let starts = groups.iter().map(|group| group.start).chain([count]);
    let ends = [0].into_iter().chain(groups.iter().map(|group| group.end));
    starts.eq(ends) && groups.iter().all(|group| !group.is_empty())
}
