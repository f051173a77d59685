//! Facts about a segment that its objects have: size, last offset, leader epochs, timestamps.

use levada_base::batch::{BatchView, HEADER_LEN};
use levada_log::OFFSET_MAX;
use levada_log::checkpoint::parse_leader_epochs;
use levada_remote::{FoundSegment, IndexKind, RemoteError, RemoteErrorKind, Store};
use levada_tiered::RemoteSegment;

/// Bytes of an entry of the offset index: relative offset and position.
const OFFSET_ENTRY: usize = 8;
/// Bytes of an entry of the time index: timestamp and relative offset.
const TIME_ENTRY: usize = 12;

/// A described segment, with its leader epochs from the beginning of the log.
pub(super) struct Described {
    pub(super) segment: RemoteSegment,
    pub(super) lineage: Vec<(i32, i64)>,
}

/// Describes a segment from its objects. The inner error is the reason why the segment cannot be
/// used.
pub(super) fn describe(
    store: &Store,
    found: &FoundSegment,
) -> Result<Result<Described, String>, RemoteError> {
    match read(store, found) {
        Ok(described) => Ok(Ok(described)),
        Err(Fault::Objects(reason)) => Ok(Err(reason)),
        Err(Fault::Store(error)) => match error.kind {
            RemoteErrorKind::NotFound | RemoteErrorKind::Damaged | RemoteErrorKind::Unsupported => {
                Ok(Err(format!("{}: {}", error.operation, error.cause)))
            }
            _ => Err(error),
        },
    }
}

enum Fault {
    Store(RemoteError),
    Objects(String),
}

impl From<RemoteError> for Fault {
    fn from(error: RemoteError) -> Self {
        Self::Store(error)
    }
}

fn read(store: &Store, found: &FoundSegment) -> Result<Described, Fault> {
    let mut segment = store.undescribed(found)?;
    let index = |kind| store.fetch_index(&segment, kind).map(Option::unwrap_or_default);
    let (offsets, times) = (index(IndexKind::Offset)?, index(IndexKind::Time)?);
    // Needed by a replica that begins after the segment.
    index(IndexKind::ProducerSnapshot)?;
    let epochs = index(IndexKind::LeaderEpochs)?;
    let txn_index_empty = index(IndexKind::Transaction)?.is_empty();
    let size = u64::from(segment.size.unsigned_abs());
    let position = offsets.rchunks_exact(OFFSET_ENTRY).next().map_or(0, |entry| be_u32(&entry[4..]));
    let mut tail = Tail::default();
    store.fetch_log(&segment, u64::from(position)..size, &mut |piece| {
        tail.take(piece);
        Ok(())
    })?;
    let (last_offset, tail_ms) = tail.end().map_err(Fault::Objects)?;
    if last_offset < segment.start_offset {
        return Err(Fault::Objects(format!("its last record has offset {last_offset}")));
    }
    let lineage = parse_leader_epochs(&String::from_utf8_lossy(&epochs))
        .map_err(|reason| Fault::Objects(format!("its leader epochs are not valid: {reason}")))?;
    if lineage.iter().any(|(epoch, start)| *epoch < 0 || *start < 0) {
        return Err(Fault::Objects("its leader epochs are not valid: one is negative".to_owned()));
    }
    segment.end_offset = segment.end_offset.max(last_offset);
    let span = segment.end_offset - segment.start_offset;
    if segment.end_offset > OFFSET_MAX || span > i64::from(i32::MAX) {
        return Err(Fault::Objects(format!(
            "its last offset is {}, which no segment has",
            segment.end_offset
        )));
    }
    segment.epochs = epochs_of(&segment, &lineage)
        .ok_or_else(|| Fault::Objects("its leader epochs begin after it".to_owned()))?;
    let indexed_ms = times.rchunks_exact(TIME_ENTRY).next().map_or(-1, |entry| be_i64(&entry[..8]));
    segment.max_timestamp_ms = indexed_ms.max(tail_ms);
    segment.txn_index_empty = txn_index_empty;
    Ok(Described { segment, lineage })
}

/// Leader epochs of the records of a segment, and the first offset of each in it.
fn epochs_of(segment: &RemoteSegment, lineage: &[(i32, i64)]) -> Option<Vec<(i32, i64)>> {
    let next = lineage.partition_point(|(_, start)| *start <= segment.start_offset);
    let (epoch, _) = lineage.get(next.checked_sub(1)?)?;
    let later = lineage[next..].iter().filter(|(_, start)| *start <= segment.end_offset);
    Some([(*epoch, segment.start_offset)].into_iter().chain(later.copied()).collect())
}

fn be_u32(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn be_i64(bytes: &[u8]) -> i64 {
    bytes.iter().take(8).fold(0, |value, byte| value << 8 | i64::from(*byte))
}

/// Scan of the last batches of a segment. Needs memory for one header.
#[derive(Default)]
struct Tail {
    header: Vec<u8>,
    /// Bytes of the present batch that are still to come.
    skip: usize,
    last: Option<(i64, i64)>,
    fault: Option<String>,
}

impl Tail {
    fn take(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() && self.fault.is_none() {
            if self.skip > 0 {
                let passed = self.skip.min(piece.len());
                self.skip -= passed;
                piece = &piece[passed..];
                continue;
            }
            let wanted = (HEADER_LEN - self.header.len()).min(piece.len());
            self.header.extend_from_slice(&piece[..wanted]);
            piece = &piece[wanted..];
            if let Ok(header) = <&[u8; HEADER_LEN]>::try_from(&self.header[..]) {
                match BatchView::parse_header(header) {
                    Ok(batch) => {
                        let (offset, ms) = self.last.unwrap_or((-1, -1));
                        self.last = Some((offset.max(batch.last_offset()), ms.max(batch.max_timestamp())));
                        self.skip = batch.size_bytes() - HEADER_LEN;
                    }
                    Err(error) => self.fault = Some(format!("its records are damaged: {error}")),
                }
                self.header.clear();
            }
        }
    }

    /// The last offset and the highest timestamp.
    fn end(self) -> Result<(i64, i64), String> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.skip > 0 || !self.header.is_empty() {
            return Err("its records end within a batch".to_owned());
        }
        self.last.ok_or_else(|| "it has no records".to_owned())
    }
}

#[cfg(test)]
mod tests {
    //! The end of a segment.

    use levada_base::batch::Builder;

    use super::*;

    fn batches() -> Vec<u8> {
        let batch = |offset: i64, ms: i64| {
            let mut builder = Builder::new().base_offset(offset);
            builder.push(ms, None, Some(b"one")).push(ms - 5, None, Some(b"two"));
            builder.build().unwrap().to_vec()
        };
        [batch(10, 700), batch(12, 600)].concat()
    }

    fn end(bytes: &[u8], piece: usize) -> Result<(i64, i64), String> {
        let mut tail = Tail::default();
        bytes.chunks(piece).for_each(|piece| tail.take(piece));
        tail.end()
    }

    #[test]
    fn batches_are_parsed_across_any_chunk_boundary() {
        let bytes = batches();
        for piece in [1, 7, HEADER_LEN, 100, bytes.len()] {
            assert_eq!(end(&bytes, piece), Ok((13, 700)), "{piece}");
        }
    }

    #[test]
    fn damaged_segment_ends_are_faults() {
        let bytes = batches();
        for cut in [1, bytes.len() / 2 + 3, bytes.len() - 1] {
            assert!(end(&bytes[..cut], 64).is_err(), "{cut}");
        }
        assert!(end(&[], 64).is_err());
        assert!(end(&[0xff; 200], 64).is_err());
    }

    #[test]
    fn claimed_batch_length_is_not_allocated() {
        let mut bytes = batches();
        bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(end(&bytes, 64).unwrap_err().contains("within a batch"));
    }
}
