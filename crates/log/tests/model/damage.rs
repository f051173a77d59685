//! Damage of a crash to the files of a log: only to bytes after the recovery point, and to files
//! that can be built again.

use std::fs;
use std::path::{Path, PathBuf};

use levada_base::batch::{BatchView, HEADER_LEN};

use crate::kit::Damage;

/// Applies damage to a closed log's directory. Returns the offset that the log must be cut at,
/// `None` if it must be whole.
pub(crate) fn apply(dir: &Path, recovery_point: i64, damage: &Damage) -> Option<i64> {
    match damage {
        Damage::Cut(file, at) => {
            let (path, position) = pick(dir, recovery_point, (*file, *at))?;
            let bytes = batches(&path);
            let (batch, end) = batch_at(&bytes, position);
            // A file that ends with a batch lost nothing that can be noticed, unless it is the last
            // one.
            let inside = if is_last(dir, &path) { position } else { position.max(batch + 1).min(end - 1) };
            fs::write(&path, &bytes[..inside]).unwrap();
            Some(base_of_batch(&bytes, batch))
        }
        Damage::Flip(file, at) => {
            let (path, position) = pick(dir, recovery_point, (*file, *at))?;
            let mut bytes = batches(&path);
            let (batch, _) = batch_at(&bytes, position);
            // Base offset and leader epoch are not under the checksum.
            let checked = match position - batch {
                0..8 => batch + 8,
                12..16 => batch + 17,
                _ => position,
            };
            let offset = base_of_batch(&bytes, batch);
            bytes[checked] ^= 1 << (at % 8);
            fs::write(&path, bytes).unwrap();
            Some(offset)
        }
        Damage::Zero(file, at) => {
            let (path, position) = pick(dir, recovery_point, (*file, *at))?;
            let mut bytes = batches(&path);
            let (batch, _) = batch_at(&bytes, position);
            let offset = base_of_batch(&bytes, batch);
            // Zeroing bytes that are zero anyway would be no damage.
            let from = position.min(bytes.len() - 1).min(batch + HEADER_LEN - 4);
            bytes[from..].fill(0);
            fs::write(&path, bytes).unwrap();
            Some(offset)
        }
        _ => {
            damage_others(dir, damage);
            None
        }
    }
}

/// Damage that costs no record.
fn damage_others(dir: &Path, damage: &Damage) {
    match damage {
        Damage::Garbage(seed) => {
            let Some((_, path)) = logs(dir).pop() else { return };
            let mut bytes = batches(&path);
            bytes.extend((0..=*seed).map(|at| at.wrapping_mul(*seed)));
            fs::write(&path, bytes).unwrap();
        }
        Damage::LostIndex(which) => {
            let indexes: Vec<PathBuf> = logs(dir)
                .into_iter()
                .flat_map(|(_, log)| ["index", "timeindex"].map(|e| log.with_extension(e)))
                .collect();
            fs::remove_file(&indexes[usize::from(*which) % indexes.len()]).unwrap();
        }
        Damage::WildIndex(seed) => {
            let Some((_, log)) = logs(dir).pop() else { return };
            for (extension, len) in [("index", 8), ("timeindex", 12), ("txnindex", 34)] {
                let bytes: Vec<u8> =
                    (0..len * usize::from(*seed)).map(|at| (at as u8).wrapping_mul(*seed)).collect();
                fs::write(log.with_extension(extension), bytes).unwrap();
            }
        }
        Damage::LostSnapshot(which) => {
            let mut snapshots = with_extension(dir, "snapshot");
            // Once segments are deleted, only the snapshots have their producers.
            if snapshots.is_empty() || logs(dir)[0].0 != 0 {
                return;
            }
            let at = usize::from(*which) % snapshots.len();
            fs::write(snapshots.swap_remove(at).1, vec![*which; usize::from(*which / 2)]).unwrap();
        }
        Damage::LostEpochs => fs::write(dir.join("leader-epoch-checkpoint"), "").unwrap(),
        Damage::None | Damage::Cut(..) | Damage::Flip(..) | Damage::Zero(..) => {}
    }
}

/// A place in what was not flushed.
fn pick(dir: &Path, recovery_point: i64, (file, at): (u8, u8)) -> Option<(PathBuf, usize)> {
    let mut open: Vec<(PathBuf, usize, usize)> = Vec::new();
    for (_, path) in logs(dir) {
        let bytes = batches(&path);
        let mut flushed = 0;
        while flushed < bytes.len() && base_of_batch(&bytes, flushed) < recovery_point {
            flushed = batch_at(&bytes, flushed).1;
        }
        if flushed < bytes.len() {
            open.push((path, flushed, bytes.len()));
        }
    }
    if open.is_empty() {
        return None;
    }
    let (path, from, to) = open.swap_remove(usize::from(file) % open.len());
    Some((path, from + (to - from - 1) * usize::from(at) / 255))
}

/// A log without the zeroes after its last batch.
fn batches(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    let mut end = 0;
    while let Some(batch) = bytes.get(end..).and_then(|rest| BatchView::parse(rest).ok()) {
        end += batch.size_bytes();
    }
    assert!(bytes[end..].iter().all(|byte| *byte == 0), "{} is damaged before its time", path.display());
    bytes.truncate(end);
    bytes
}

/// Beginning and end of the batch that holds a position.
fn batch_at(bytes: &[u8], position: usize) -> (usize, usize) {
    let mut start = 0;
    loop {
        let end = start + BatchView::parse(&bytes[start..]).unwrap().size_bytes();
        if position < end {
            return (start, end);
        }
        start = end;
    }
}

fn base_of_batch(bytes: &[u8], start: usize) -> i64 {
    BatchView::parse(&bytes[start..]).unwrap().base_offset()
}

fn is_last(dir: &Path, path: &Path) -> bool {
    logs(dir).last().is_some_and(|(_, last)| last == path)
}

/// Segments by base offset.
pub(crate) fn logs(dir: &Path) -> Vec<(i64, PathBuf)> {
    with_extension(dir, "log")
}

fn with_extension(dir: &Path, extension: &str) -> Vec<(i64, PathBuf)> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<(i64, PathBuf)> = paths
        .filter(|path| path.extension().is_some_and(|one| one == extension))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().parse().unwrap(), path))
        .collect();
    found.sort();
    found
}
