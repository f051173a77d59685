//! Lineage of leader epochs: the test that the records of a remote segment belong to a log's
//! history.
//!
//! A leader that lost an election uncleanly may have copied records that the log no longer has.
//! Retention and reads must not count such a segment. All lists of epochs are in ascending order.

use crate::segment::{EpochStart, RemoteSegment};

/// True if the log with the history `lineage` has (or had, below its start) the records of
/// `segment`. `lineage` must not have epochs without records ([`without_empty_epochs`]); `log_end`
/// is the log end offset, exclusive.
///
/// The conditions are those of Kafka, on the segment's epochs with records:
/// 1. The segment's last epoch lies between the first and the last epoch of the lineage.
/// 2. Epochs below the lineage's first epoch do not count: retention has removed them from the log.
/// 3. Each further epoch of the segment is one of the lineage, and the epoch after it is the same
///    in both, with the same start.
/// 4. The first counted epoch does not begin before the lineage's, unless it is the first of the
///    lineage, whose start moves with the log's start.
/// 5. The segment ends before the lineage's next epoch and before the end of the log.
pub fn within_lineage(segment: &RemoteSegment, log_end: i64, lineage: &[EpochStart]) -> bool {
    let epochs = without_empty_epochs(&segment.epochs);
    let (Some((first, _)), Some((last, _))) = (lineage.first(), lineage.last()) else { return false };
    let Some((segment_last, _)) = epochs.last() else { return false };
    if segment_last < first || segment_last > last || segment.end_offset >= log_end {
        return false;
    }
    let counted = &epochs[epochs.partition_point(|(epoch, _)| epoch < first)..];
    let fits = |(at, &(epoch, start)): (usize, &EpochStart)| {
        let Ok(place) = lineage.binary_search_by_key(&epoch, |(epoch, _)| *epoch) else { return false };
        let begins = at > 0 || place == 0 || start >= lineage[place].1;
        let next = lineage.get(place + 1);
        begins
            && match counted.get(at + 1) {
                Some(after) => next == Some(after),
                None => next.is_none_or(|(_, start)| segment.end_offset < *start),
            }
    };
    counted.iter().enumerate().all(fits)
}

/// Returns the epochs that have records: of several epochs with one start, the last.
pub fn without_empty_epochs(epochs: &[EpochStart]) -> Vec<EpochStart> {
    let has_records = |at: usize| epochs.get(at + 1).is_none_or(|(_, next)| *next != epochs[at].1);
    (0..epochs.len()).filter(|at| has_records(*at)).map(|at| epochs[at]).collect()
}

#[cfg(test)]
mod tests;
