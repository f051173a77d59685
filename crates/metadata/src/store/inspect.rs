//! Read-only access to a metadata log on disk. No file is opened for writing or truncated.

use std::path::Path;

use levada_base::batch::check_stored;
use levada_log::check::{Batches, Next};
use levada_log::disk::Disk;
use levada_log::journal::{end_of, needed, segments};

use super::replay::Reader;
use super::{METADATA_DIR, StoreError};
use crate::image::Image;

/// Contents of the metadata log of a directory.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The state it adds up to, as far as it could be read.
    pub image: Image,
    /// The nodes that have a vote in it.
    pub voters: Vec<i32>,
    /// Number of records read, control records included.
    pub records: u64,
    /// The offset after the last record.
    pub end_offset: i64,
    /// The reason why no more could be read: damage, or records of an unknown kind.
    pub fault: Option<String>,
}

/// Reads the metadata log of a data directory up to its end or the first incomplete batch, which
/// the next start removes. `None` if there is no such log. Blocks.
pub fn inspect(disk: &dyn Disk, dir: &Path) -> Option<Contents> {
    let path = dir.join(METADATA_DIR);
    disk.list(&path).ok()?;
    let mut reader = Reader::new(&path);
    let read = read(disk, &mut reader, &path);
    let (end_offset, fault) = match read {
        Ok(end_offset) => (end_offset, reader.passed_over.take().map(|passed| passed.fault.to_string())),
        Err(error) => (reader.replay.image().offset() + 1, Some(error.to_string())),
    };
    let voters = reader.quorum.voters();
    Some(Contents {
        image: reader.replay.image().clone(),
        voters,
        records: reader.records,
        end_offset,
        fault,
    })
}

fn read(disk: &dyn Disk, reader: &mut Reader, dir: &Path) -> Result<i64, StoreError> {
    let start = reader.read_snapshot(disk)?;
    let mut end = None;
    for (base, path) in needed(segments(disk, dir)?, start) {
        let expected = end.unwrap_or(base.min(start));
        if base != expected {
            let detail = format!("the log continues at offset {base}; offset {expected} is missing");
            return Err(StoreError::damaged(&path, detail));
        }
        end = Some(read_segment(disk, reader, &path, (base, start))?);
    }
    Ok(end.unwrap_or(start))
}

fn read_segment(
    disk: &dyn Disk,
    reader: &mut Reader,
    path: &Path,
    (base, start): (i64, i64),
) -> Result<i64, StoreError> {
    let failed = |source| StoreError::io("read", path, source);
    let mut batches = Batches::open(disk, path).map_err(failed)?;
    let mut end = base;
    while let Next::Batch { bytes, .. } = batches.next_batch().map_err(failed)? {
        let Ok(batch) = check_stored(bytes) else { break };
        if batch.base_offset() != end {
            break;
        }
        let Some(behind) = end_of(&batch) else {
            let detail = format!("the batch at offset {end} ends beyond the largest possible offset");
            return Err(StoreError::damaged(path, detail));
        };
        end = behind;
        if batch.last_offset() >= start {
            reader.take(&batch)?;
        }
    }
    Ok(end)
}
