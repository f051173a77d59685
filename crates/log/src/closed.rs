//! Closed segments and their companions, as remote storage gets them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::checkpoint::leader_epochs_text;
use crate::disk::At;
use crate::index::TXN_WIDTH;
use crate::partition::Partition;
use crate::recover;
use crate::segment::Segment;
use crate::writer::TieredState;
use crate::{LogError, OpenOptions};

/// A segment that is followed by another one, and no longer changes.
#[derive(Debug)]
pub struct ClosedSegment {
    partition: Arc<Partition>,
    segment: Arc<Segment>,
    next_base: i64,
}

/// The contents of a closed segment's files.
#[derive(Debug)]
pub struct ClosedFiles {
    /// The batches: the first bytes of the file, as many as [`ClosedSegment::size_bytes`].
    pub log: Arc<File>,
    /// The offset index, and the bytes of its entries.
    pub offset_index: (File, u64),
    /// The time index, and the bytes of its entries.
    pub time_index: (File, u64),
    /// The transaction index, and the bytes of its entries; none if no transaction was aborted.
    pub txn_index: Option<(File, u64)>,
    /// The producers where the next segment begins, as the file of a snapshot.
    pub producer_snapshot: Vec<u8>,
    /// The leader epochs that begin below the next segment, as the text of their checkpoint.
    pub leader_epochs: Vec<u8>,
}

impl Partition {
    /// The segments that begin at or above `from`, or hold it, and end at or below `upto`, oldest
    /// first. The last segment of the log is never among them.
    pub fn closed_segments(self: &Arc<Self>, from: i64, upto: i64) -> Vec<ClosedSegment> {
        let segments = self.segments.load();
        let ended = segments.windows(2).filter(|pair| pair[1].base() > from && pair[1].base() <= upto);
        ended
            .filter(|pair| pair[0].size() > 0)
            .map(|pair| ClosedSegment {
                partition: self.clone(),
                segment: pair[0].clone(),
                next_base: pair[1].base(),
            })
            .collect()
    }
}

impl Partition {
    /// State of the log where its local part begins; none if the log begins there. Blocks.
    ///
    /// # Errors
    /// A failing disk.
    pub fn tiered_state(&self, now_ms: i64) -> Result<Option<TieredState>, LogError> {
        let (log_start, segments) = (self.log_start(), self.segments.load_full());
        let local_start = segments.first().map_or(0, |first| first.base());
        if log_start >= local_start {
            return Ok(None);
        }
        let options = OpenOptions { disk: self.disk.clone(), ..OpenOptions::new(&*self.dir()) };
        let producers = recover::producers_before(&options, &segments, local_start, now_ms)?.encode();
        let epochs = self.epochs.load().before(local_start);
        Ok(Some(TieredState { log_start, local_start, epochs, producers }))
    }
}

impl ClosedSegment {
    /// The offset that it is named after.
    pub fn base(&self) -> i64 {
        self.segment.base()
    }

    /// The base of the next segment.
    pub fn next_base(&self) -> i64 {
        self.next_base
    }

    /// Bytes of its batches.
    pub fn size_bytes(&self) -> u64 {
        self.segment.size()
    }

    /// The largest timestamp in it, or the time of its last write if its records have none. May
    /// read the end of the time index.
    ///
    /// # Errors
    /// A failing disk.
    pub fn newest_ms(&self) -> Result<i64, LogError> {
        self.segment.newest_ms(&*self.partition.disk)
    }

    /// True if no transaction was aborted in it. May open its transaction index.
    ///
    /// # Errors
    /// A failing disk.
    pub fn is_txn_index_empty(&self) -> Result<bool, LogError> {
        Ok(self.segment.aborted.count(&*self.partition.disk)? == 0)
    }

    /// The leader epochs of its records; the first begins at its base.
    pub fn epochs(&self) -> Vec<(i32, i64)> {
        self.partition.epochs.load().within(self.base()..self.next_base)
    }

    /// Opens its files, and reads the producers and epochs into memory. Blocks.
    ///
    /// # Errors
    /// A failing disk.
    pub fn files(&self, now_ms: i64) -> Result<ClosedFiles, LogError> {
        let (partition, segment) = (&self.partition, &self.segment);
        let disk = &*partition.disk;
        let log = segment.file(disk)?.clone();
        let open = |path: &Path, bytes: u64| Ok::<_, LogError>((disk.open(path).at("open", path)?, bytes));
        let (offsets, times) = (segment.offsets.entries(), segment.times.entries());
        let txn_index = match segment.aborted.count(disk)? {
            0 => None,
            count => Some(open(segment.aborted.path(), (count * TXN_WIDTH) as u64)?),
        };
        let options = OpenOptions { disk: partition.disk.clone(), ..OpenOptions::new(&*partition.dir()) };
        let segments = partition.segments.load_full();
        let producers = recover::producers_before(&options, &segments, self.next_base, now_ms)?;
        let epochs = partition.epochs.load().before(self.next_base);
        Ok(ClosedFiles {
            log,
            offset_index: open(offsets.path(), offsets.size_bytes(disk)?)?,
            time_index: open(times.path(), times.size_bytes(disk)?)?,
            txn_index,
            producer_snapshot: producers.encode(),
            leader_epochs: leader_epochs_text(&epochs).into_bytes(),
        })
    }
}
