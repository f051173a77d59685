//! Appends by memory instead of a call: the active segment gets blocks in advance and a mapping of
//! them, window by window, and batches are copied there. While one window fills up, another thread
//! faults in the pages of the next; near the segment's end also those of the first window of the
//! next segment, in a file without its final name.
//!
//! The file is longer than its contents, by zeroes, until the segment is sealed or closed; after a
//! crash the first zeroes are its end. Two marks show how far it is whole, as for any log: the
//! published end (the segment's size, the log's end) follows the copy, and the durable offset
//! follows an `fdatasync`, which includes writes through a mapping.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use levada_io::map::WriteMap;
use parking_lot::Mutex;

use crate::background::Background;
use crate::disk::{Disk, remove_if_there};

/// A segment's windows begin small and double, so that a thousand quiet partitions reserve little.
const WINDOW_MIN: u64 = 4096;
const WINDOW_MAX: u64 = 8 << 20;
const _: () = assert!(WINDOW_MIN.is_multiple_of(4096), "a window begins where a page does");
const _: () = assert!(WINDOW_MIN < WINDOW_MAX && WINDOW_MAX.is_multiple_of(WINDOW_MIN));
/// The file of the next segment before it has a name; removed with others of this ending if a crash
/// leaves it.
const SPARE: &str = "next.log.tmp";

/// The windows of the active segment.
#[derive(Debug, Default)]
pub(super) struct Windows {
    now: Option<WriteMap>,
    next: Option<WriteMap>,
}

/// Segment of the windows, and the maximum size of its file.
pub(super) struct Target<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) file: &'a File,
    pub(super) path: &'a Path,
    pub(super) segment_bytes: u64,
    pub(super) background: &'a Background,
}

impl Windows {
    /// Begins with a window that was prepared.
    pub(super) fn with(next: Option<WriteMap>) -> Self {
        Self { now: None, next }
    }

    /// True if the file has preallocated space that is not written yet.
    pub(super) fn is_ahead(&self) -> bool {
        self.now.is_some() || self.next.is_some()
    }

    /// Copies all parts one after the other from `position` on. After an error any prefix may have
    /// been written, and the file must be truncated, without windows.
    pub(super) fn write(
        &mut self,
        target: &Target<'_>,
        parts: &[IoSlice<'_>],
        position: u64,
    ) -> io::Result<()> {
        let mut at = position;
        for part in parts {
            let mut rest: &[u8] = part;
            while !rest.is_empty() {
                let map = self.window(target, at)?;
                debug_assert!(map.range().contains(&at), "{at} is not in the window {:?}", map.range());
                let room = usize::try_from(map.range().end - at).unwrap_or(usize::MAX);
                let (now, later) = rest.split_at(rest.len().min(room));
                target.disk.write_mapped(map, target.path, now, at)?;
                at += now.len() as u64;
                rest = later;
            }
        }
        self.prepare(target, at);
        Ok(())
    }

    /// The window with this position.
    fn window(&mut self, target: &Target<'_>, at: u64) -> io::Result<&mut WriteMap> {
        let holds = |map: &WriteMap| map.range().contains(&at);
        let found = self.now.take().filter(holds).or_else(|| self.next.take().filter(holds));
        let found = found.map_or_else(|| target.map(at), Ok)?;
        Ok(self.now.insert(found))
    }

    /// Prepares the window after this one, once half of this one is used.
    fn prepare(&mut self, target: &Target<'_>, at: u64) {
        let Some(now) = self.now.as_ref().map(WriteMap::range) else { return };
        let due = self.next.is_none() && at >= now.start.midpoint(now.end) && now.end < target.segment_bytes;
        // A disk too full for it is the trouble of the append that needs it.
        if due && let Ok(next) = target.map(now.end) {
            target.background.run(next.populate());
            self.next = Some(next);
        }
    }
}

impl Target<'_> {
    fn map(&self, at: u64) -> io::Result<WriteMap> {
        self.disk.map(self.file, self.path, window(at, at, self.segment_bytes))
    }
}

/// From `at` on as much as the segment is filled, within bounds and not far beyond its end.
fn window(at: u64, filled: u64, segment_bytes: u64) -> Range<u64> {
    let end = at.saturating_add(filled.clamp(WINDOW_MIN, WINDOW_MAX)).next_multiple_of(WINDOW_MIN);
    at..end.min(segment_bytes.next_multiple_of(WINDOW_MIN)).max(at + WINDOW_MIN)
}

/// The next segment's file, made while this one fills up.
#[derive(Debug)]
pub(super) struct Spare {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
enum State {
    Working,
    Ready(File, WriteMap),
    /// The file is no longer needed, or its creation failed.
    Gone,
}

impl Spare {
    /// True if a segment of this size is so full that the next one is to be made.
    pub(super) fn is_due(size: u64, segment_bytes: u64) -> bool {
        size >= segment_bytes / 2 && size + 2 * WINDOW_MAX >= segment_bytes
    }

    /// Starts to create the file in this directory.
    pub(super) fn begin(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        segment_bytes: u64,
        background: &Background,
    ) -> Self {
        let spare =
            Self { disk: disk.clone(), path: dir.join(SPARE), state: Arc::new(Mutex::new(State::Working)) };
        let (disk, path, state) = (spare.disk.clone(), spare.path.clone(), spare.state.clone());
        background.run(move || {
            let made = make(&*disk, &path, segment_bytes);
            let mut state = state.lock();
            *state = match (&*state, made) {
                (State::Working, Some((file, map))) => State::Ready(file, map),
                (State::Gone, Some(_)) => {
                    remove(&*disk, &path);
                    State::Gone
                }
                _ => State::Gone,
            };
        });
        spare
    }

    /// Renames the file to its final name, and returns it; none if it is not ready.
    pub(super) fn take(self, path: &Path) -> Option<(File, WriteMap)> {
        let State::Ready(file, map) = std::mem::replace(&mut *self.state.lock(), State::Gone) else {
            return None;
        };
        match self.disk.rename(&self.path, path) {
            Ok(()) => Some((file, map)),
            Err(_) => {
                remove(&*self.disk, &self.path);
                None
            }
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *self.state.lock(), State::Gone);
        if matches!(state, State::Ready(..)) {
            remove(&*self.disk, &self.path);
        }
    }
}

fn make(disk: &dyn Disk, path: &Path, segment_bytes: u64) -> Option<(File, WriteMap)> {
    let file = disk.create(path).ok()?;
    match disk.map(&file, path, window(0, WINDOW_MAX, segment_bytes)) {
        Ok(map) => {
            map.populate()();
            Some((file, map))
        }
        Err(_) => {
            remove(disk, path);
            None
        }
    }
}

/// The next opening removes files that cannot be removed now.
fn remove(disk: &dyn Disk, path: &Path) {
    drop(remove_if_there(disk, path));
}

#[cfg(test)]
mod tests;
