//! The check after a crash: batch by batch, with new indexes on the way.

use std::sync::Arc;

use crate::batch;
use crate::disk::At;
use crate::index::{OffsetIndex, TimeIndex};
use crate::recover::{Cut, Listing, OpenReport};
use crate::segment::{SWEEP, Segment};
use crate::writer::{OpenOptions, Progress};
use crate::{LogError, ReadError};

/// Checks all segments that reach beyond the recovery point, and ends the log at the first batch that is not intact. Returns the
/// log's end offset.
pub(super) fn verify(
    options: &OpenOptions,
    listing: &Listing,
    segments: &mut Vec<Arc<Segment>>,
    report: &mut OpenReport,
) -> Result<i64, LogError> {
    let trusted = segments.windows(2).take_while(|pair| {
        pair[1].base() <= options.recovery_point && listing.indexes.contains(&pair[0].base())
    });
    let mut at = trusted.count();
    let mut end = segments[at].base();
    while at < segments.len() {
        let (segment, checked) = verify_one(options, &segments[at], report)?;
        segments[at] = Arc::new(segment);
        end = checked.end_offset;
        at += 1;
        let gap = segments.get(at).is_some_and(|next| next.base() < end);
        if checked.cut || gap {
            drop_from(options, segments, at, report)?;
        }
    }
    Ok(end)
}

/// Checks the last segment alone.
pub(super) fn verify_last(
    options: &OpenOptions,
    segments: &mut [Arc<Segment>],
    report: &mut OpenReport,
) -> Result<i64, LogError> {
    let last = segments.last_mut().expect("an opened log has a segment");
    let (segment, checked) = verify_one(options, last, report)?;
    *last = Arc::new(segment);
    Ok(checked.end_offset)
}

/// Builds the indexes of segments that have none.
pub(super) fn rebuild_missing(
    options: &OpenOptions,
    listing: &Listing,
    segments: &mut [Arc<Segment>],
    report: &mut OpenReport,
) -> Result<(), LogError> {
    let known = |segment: &Segment| segment.is_indexed() || listing.indexes.contains(&segment.base());
    for segment in segments.iter_mut().filter(|segment| segment.size() > 0 && !known(segment)) {
        *segment = Arc::new(verify_one(options, segment, report)?.0);
    }
    Ok(())
}

struct Checked {
    end_offset: i64,
    cut: bool,
}

fn verify_one(
    options: &OpenOptions,
    old: &Segment,
    report: &mut OpenReport,
) -> Result<(Segment, Checked), LogError> {
    let disk = &*options.disk;
    let segment = Segment::with_new_indexes(disk, &options.dir, old.base(), old.size())?;
    let capacity = OffsetIndex::capacity(options.config.segment_index_bytes);
    let time_capacity = TimeIndex::capacity(options.config.segment_index_bytes);
    let mut progress = Progress::none();
    let (mut position, mut end_offset) = (0, old.base());
    {
        let mut scan = segment.scan(disk, 0..old.size(), SWEEP)?;
        while let Some(head) = intact(scan.next())? {
            let Some(bytes) = intact(scan.batch(&head).map(Some))? else { break };
            let Ok(batch) = batch::check_stored(bytes) else { break };
            if batch.base_offset() < end_offset || batch.last_offset() - old.base() > i64::from(i32::MAX) {
                break;
            }
            let delta = segment.delta(batch.last_offset());
            let interval = options.config.index_interval_bytes;
            if let Some((offset, time)) = progress.advance(&batch, delta, head.position, interval) {
                segment.offsets.append(disk, offset, capacity)?;
                segment.times.append(disk, time, time_capacity)?;
            }
            end_offset = batch.last_offset() + 1;
            position = head.end();
        }
    }
    report.checked_bytes += old.size();
    report.rebuilt_segments += usize::from(old.size() > 0);
    if position > 0 {
        segment.times.append(disk, progress.latest, time_capacity)?;
        segment.publish_max_timestamp(progress.latest.timestamp);
    }
    let cut = position < old.size();
    if cut {
        let file = segment.file(disk)?;
        disk.truncate(file, segment.path(), position).at("cut", segment.path())?;
        segment.publish_size(position);
        note_cut(report, &segment, (position, end_offset), old.size() - position);
    }
    Ok((segment, Checked { end_offset, cut }))
}

/// Bytes that are no batch end the log; a disk that fails does not.
fn intact<T>(found: Result<Option<T>, ReadError>) -> Result<Option<T>, LogError> {
    match found {
        Ok(found) => Ok(found),
        Err(ReadError::Storage(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Removes the segments from `at` on: they follow a gap, so nothing in them can be served.
fn drop_from(
    options: &OpenOptions,
    segments: &mut Vec<Arc<Segment>>,
    at: usize,
    report: &mut OpenReport,
) -> Result<(), LogError> {
    for segment in segments.drain(at..) {
        note_cut(report, &segment, (0, segment.base()), segment.size());
        segment.remove(&*options.disk)?;
    }
    Ok(())
}

/// The first cut is where the log ends; later ones only add to its bytes.
fn note_cut(report: &mut OpenReport, segment: &Segment, (position, offset): (u64, i64), bytes: u64) {
    match &mut report.cut {
        Some(cut) => cut.bytes += bytes,
        None => report.cut = Some(Cut { path: segment.path().to_owned(), position, offset, bytes }),
    }
}
