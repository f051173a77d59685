//! Records of the metadata topic of tiered storage in data directories, for comparisons with a
//! store.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use levada_base::batch::{self, BatchView};
use levada_log::check::{Batches, Next};
use levada_log::disk::{Kind, ReadFiles, RealDisk};
use levada_remote::Inventory;
use levada_tiered::record::{METADATA_TOPIC, decode};

use super::{StorageError, directories};

/// Segments that the metadata topic has in data directories.
#[derive(Debug)]
pub struct RemoteInventory {
    /// The segments.
    pub inventory: Inventory,
    /// Number of partitions of the metadata topic that the directories have.
    pub partitions: usize,
    /// Records that are not valid: file and reason, at most one a file.
    pub findings: Vec<(PathBuf, String)>,
}

/// Reads the logs of the metadata topic, which has `count` partitions, in these data directories. A
/// broker may use them: its latest records may be missing then. Blocks.
///
/// # Errors
/// A directory or a file that cannot be read.
pub fn remote_inventory(dirs: &[PathBuf], count: i32) -> Result<RemoteInventory, StorageError> {
    let mut found = RemoteInventory { inventory: Inventory::new(count), partitions: 0, findings: Vec::new() };
    for dir in dirs {
        for (path, partition) in directories(dir)? {
            let Some((_, index)) = partition.filter(|(topic, _)| topic == METADATA_TOPIC) else { continue };
            for segment in segments(&path)? {
                found.read_segment(&segment)?;
            }
            found.inventory.mark_read(index);
            found.partitions += 1;
        }
    }
    Ok(found)
}

/// The files of batches in a partition's directory, in the order of their offsets.
fn segments(dir: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let failed = |source| StorageError::Unreadable { path: dir.to_owned(), source };
    let entries = RealDisk.list(dir).map_err(failed)?;
    let files = entries.into_iter().filter(|entry| entry.kind == Kind::File).map(|entry| entry.path);
    let mut segments: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    segments.sort();
    Ok(segments)
}

impl RemoteInventory {
    fn read_segment(&mut self, path: &Path) -> Result<(), StorageError> {
        let failed = |source| StorageError::Unreadable { path: path.to_owned(), source };
        let mut batches = Batches::open(&RealDisk, path).map_err(failed)?;
        let mut finding = None;
        loop {
            match batches.next_batch().map_err(failed)? {
                Next::Batch { at, bytes } => {
                    let read = batch::check_stored(bytes).map_err(|error| error.to_string());
                    let read = read.and_then(|_| read_batch(bytes, &mut self.inventory));
                    finding = finding.or(read.err().map(|reason| format!("at byte {at}: {reason}")));
                }
                Next::End { .. } => break,
                Next::Broken(reason) => {
                    finding.get_or_insert(format!("at byte {}: {reason}", batches.position()));
                    break;
                }
            }
        }
        self.findings.extend(finding.map(|reason| (path.to_owned(), reason)));
        Ok(())
    }
}

fn read_batch(bytes: &[u8], inventory: &mut Inventory) -> Result<(), String> {
    let view = BatchView::parse(bytes).map_err(|error| error.to_string())?;
    if view.is_control() {
        return Ok(());
    }
    for record in batch::records(view.bytes()).map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        let Some(value) = record.value else { continue };
        let decoded = decode(Bytes::copy_from_slice(&value)).map_err(|error| error.to_string())?;
        inventory.apply(&decoded);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
