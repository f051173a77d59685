//! The output segment of a compaction, whose files have the suffix `.cleaned`.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use levada_base::batch::BatchView;

use crate::LogError;
use crate::disk::{At, Disk, remove_if_there, suffixed};
use crate::index::{Aborted, OffsetIndex, TimeIndex, TxnIndex};
use crate::progress::Progress;
use crate::segment::{Built, CLEANED, FILES, SWEEP, Segment, file_name};

/// A compacted segment, complete and on the device, and the segments that it is to replace.
#[derive(Debug)]
#[must_use = "the files stay until it is put in place or discarded"]
pub struct Cleaned {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) base: i64,
    pub(crate) size: u64,
    pub(crate) max_timestamp: i64,
    pub(crate) old: Vec<Arc<Segment>>,
    /// Snapshots of producers that are removed with them.
    pub(crate) snapshots: Vec<PathBuf>,
    /// Number of truncations of the log before the compaction began.
    pub(crate) cuts: u64,
}

impl Cleaned {
    /// Removes the files of this output.
    ///
    /// # Errors
    /// A failing disk; the next opening removes the files.
    pub fn discard(self) -> Result<(), LogError> {
        remove(&*self.disk, &self.dir, self.base)
    }

    /// The path of one of its files, and the file's final path.
    pub(crate) fn paths(&self, file: &str) -> (PathBuf, PathBuf) {
        let path = self.dir.join(file_name(self.base, file));
        (suffixed(&path, CLEANED), path)
    }
}

pub(super) fn remove(disk: &dyn Disk, dir: &Path, base: i64) -> Result<(), LogError> {
    for file in FILES {
        remove_if_there(disk, &suffixed(&dir.join(file_name(base, file)), CLEANED))?;
    }
    Ok(())
}

/// Output segment of a compaction, while it is being written.
pub(super) struct Output<'a> {
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    base: i64,
    interval: u32,
    path: PathBuf,
    file: std::fs::File,
    buffer: Vec<u8>,
    written: u64,
    progress: Progress,
    built: Built,
}

impl<'a> Output<'a> {
    /// Begins the segment; removes files of an earlier attempt.
    pub(super) fn create(
        disk: &'a Arc<dyn Disk>,
        dir: &'a Path,
        base: i64,
        interval: u32,
    ) -> Result<Self, LogError> {
        remove(&**disk, dir, base)?;
        let path = suffixed(&dir.join(file_name(base, ".log")), CLEANED);
        let file = disk.create(&path).at("create", &path)?;
        Ok(Output {
            disk,
            dir,
            base,
            interval,
            path,
            file,
            buffer: Vec::new(),
            written: 0,
            progress: Progress::none(),
            built: Built::default(),
        })
    }

    /// Appends a batch; returns the number of bytes written to the file, 0 while batches are
    /// collected.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<u64, LogError> {
        let batch =
            BatchView::parse(bytes).map_err(|error| LogError::corrupt(&self.path, error.to_string()))?;
        let delta = u32::try_from(batch.last_offset() - self.base)
            .map_err(|_| LogError::corrupt(&self.path, "offsets too far apart for one segment"))?;
        let position = self.written + self.buffer.len() as u64;
        if let Some((offset, time)) = self.progress.advance(&batch, delta, position, self.interval) {
            self.built.offsets.push(offset);
            self.built.push_time(time);
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= SWEEP { self.write() } else { Ok(0) }
    }

    /// Writes the remaining batches and the other files, and waits until all of it is on the
    /// device. The caller adds the replaced segments.
    pub(super) fn finish(
        mut self,
        aborted: &[Aborted],
        producers: Option<Vec<u8>>,
        modified: Option<SystemTime>,
    ) -> Result<Cleaned, LogError> {
        self.write()?;
        self.built.push_time(self.progress.latest);
        let (disk, path) = (&**self.disk, &*self.path);
        if let Some(modified) = modified {
            disk.set_modified(&self.file, path, modified).at("set the time of", path)?;
        }
        disk.sync(&self.file, path).at("sync", path)?;
        let others = [
            (".index", Some(OffsetIndex::file_of(&self.built.offsets))),
            (".timeindex", Some(TimeIndex::file_of(&self.built.times))),
            (".txnindex", Some(TxnIndex::file_of(aborted)).filter(|_| !aborted.is_empty())),
            (".snapshot", producers),
        ];
        for (name, bytes) in others {
            let Some(bytes) = bytes else { continue };
            let path = suffixed(&self.dir.join(file_name(self.base, name)), CLEANED);
            disk.write_file(&path, &bytes).at("write", &path)?;
            let file = disk.open(&path).at("open", &path)?;
            disk.sync(&file, &path).at("sync", &path)?;
        }
        disk.sync_dir(self.dir).at("sync", self.dir)?;
        Ok(Cleaned {
            disk: self.disk.clone(),
            dir: self.dir.to_owned(),
            base: self.base,
            size: self.written,
            max_timestamp: self.progress.latest.timestamp,
            old: Vec::new(),
            snapshots: Vec::new(),
            cuts: 0,
        })
    }

    fn write(&mut self) -> Result<u64, LogError> {
        let bytes = std::mem::take(&mut self.buffer);
        let mut parts = [IoSlice::new(&bytes)];
        self.disk.write_at(&self.file, &self.path, &mut parts, self.written).at("write", &self.path)?;
        let count = bytes.len() as u64;
        self.written += count;
        self.buffer = bytes;
        self.buffer.clear();
        Ok(count)
    }
}
