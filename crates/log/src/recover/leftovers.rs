//! Files of operations that a crash interrupted: incomplete and deleted files are removed, and a
//! complete compacted segment replaces its source segments. The rules are those of Kafka's loader,
//! so that either program can finish the work of the other.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{base_of, files};
use crate::disk::{At, Disk, remove_if_there};
use crate::segment::{CLEANED, DELETED, SWAP, SWEEP, Segment};
use crate::{LogError, ReadError};

/// Completes or undoes interrupted renames in a partition's directory.
pub(super) fn clear(disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
    let found: Vec<PathBuf> = files(disk, dir)?.collect();
    let ending = |suffix: &'static str| found.iter().filter(move |path| stripped(path, suffix).is_some());
    for path in ending(DELETED).chain(ending(".tmp")) {
        remove_if_there(disk, path)?;
    }
    // While one file is not renamed, the segment was not to be put in place; nor was any later one.
    let unfinished = ending(CLEANED).filter_map(|path| base_of(&stripped(path, CLEANED)?)).min();
    let is_void = |base: i64| unfinished.is_some_and(|unfinished| base >= unfinished);
    let mut swaps: Vec<(i64, PathBuf)> =
        ending(SWAP).filter_map(|path| Some((base_of(&stripped(path, SWAP)?)?, path.clone()))).collect();
    for (_, path) in swaps.extract_if(.., |(base, _)| is_void(*base)) {
        remove_if_there(disk, &path)?;
    }
    for path in ending(CLEANED) {
        remove_if_there(disk, path)?;
    }
    if swaps.is_empty() {
        return Ok(());
    }
    remove_replaced(disk, dir, &covered(disk, dir, &swaps)?)?;
    put_in_place(disk, dir, swaps)
}

/// The offsets of the complete segments that are ready to be swapped in.
fn covered(disk: &dyn Disk, dir: &Path, swaps: &[(i64, PathBuf)]) -> Result<Range<i64>, LogError> {
    let (mut first, mut end) = (i64::MAX, i64::MIN);
    for (base, path) in swaps.iter().filter(|(_, path)| is_log(path)) {
        tracing::info!(path = %path.display(), "completed the swap of a compacted segment");
        first = first.min(*base);
        end = end.max(next_offset(disk, dir, (*base, path))?);
    }
    Ok(first..end)
}

/// The offset after the last batch of a file.
fn next_offset(disk: &dyn Disk, dir: &Path, (base, path): (i64, &Path)) -> Result<i64, LogError> {
    let size = disk.len(path).at("look at", path)?;
    let segment = Segment::at_path(dir, base, (size, path));
    let mut scan = segment.scan(disk, 0..size, SWEEP)?;
    let mut end = base;
    loop {
        match scan.next().and_then(|head| head.map(|head| scan.last_offset(&head)).transpose()) {
            Ok(Some(last)) => end = last.saturating_add(1),
            Ok(None) => return Ok(end),
            Err(ReadError::Storage(error)) => return Err(error),
            // The segment was complete and on the device once; the following check reports errors.
            Err(_) => return Ok(end),
        }
    }
}

/// Removes the source segments of the waiting segments.
fn remove_replaced(disk: &dyn Disk, dir: &Path, covered: &Range<i64>) -> Result<(), LogError> {
    for path in files(disk, dir)? {
        let known = ["log", "index", "timeindex", "txnindex", "snapshot"].contains(&super::extension(&path));
        if known && base_of(&path).is_some_and(|base| covered.contains(&base)) {
            remove_if_there(disk, &path)?;
        }
    }
    Ok(())
}

/// Renames the log before its indexes: once the log has its name, another crash removes none of
/// them.
fn put_in_place(disk: &dyn Disk, dir: &Path, mut swaps: Vec<(i64, PathBuf)>) -> Result<(), LogError> {
    swaps.sort_by_key(|(base, path)| (!is_log(path), *base));
    for (_, path) in &swaps {
        let name = stripped(path, SWAP).expect("they were chosen by this suffix");
        disk.rename(path, &name).at("rename", path)?;
    }
    disk.sync_dir(dir).at("sync", dir)
}

fn is_log(swap: &Path) -> bool {
    stripped(swap, SWAP).is_some_and(|path| super::extension(&path) == "log")
}

/// The path without this ending; none if it has another ending.
fn stripped(path: &Path, suffix: &str) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(suffix)?;
    Some(path.with_file_name(name))
}
