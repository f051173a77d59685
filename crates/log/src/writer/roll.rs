//! Starting a new segment.

use std::sync::Arc;

use levada_io::map::WriteMap;

use super::Writer;
use super::active::Active;
use super::mapped::Spare;
use crate::disk::remove_if_there;
use crate::segment::{Segment, file_name};
use crate::{AppendBy, LogError};

impl Writer {
    /// Maximum time in ms by which a batch may be later than the first batch of the active segment.
    pub(super) fn roll_after_ms(&self) -> i64 {
        self.config.roll_after_ms(&self.partition.dir(), self.active.segment.base())
    }

    /// Ends the active segment and starts one at the log's end. In this order: the last time index
    /// entry, the file trimmed to its contents if blocks were reserved, all of it synced if a start
    /// after a crash would trust it, the new files, the new list, the old indexes trimmed, a
    /// producer snapshot. A crash in between leaves at most an empty last segment.
    ///
    /// # Errors
    /// A failing disk, or no descriptor left for the new files; the old segment continues then.
    pub fn roll(&mut self, now_ms: i64) -> Result<(), LogError> {
        self.roll_at(self.partition.log_end(), now_ms)
    }

    /// Like [`Writer::roll`], with a segment that begins at the log's end or after it, where the
    /// next batch begins.
    pub(super) fn roll_at(&mut self, base: i64, now_ms: i64) -> Result<(), LogError> {
        if self.active.segment.base() == base {
            return Ok(());
        }
        let log_end = self.partition.log_end();
        assert!(base >= log_end, "a segment at {base} would begin before the log's end {log_end}");
        self.active.cut_remains(&*self.disk)?;
        self.active.learn(&*self.disk)?;
        self.active.close_times(&*self.disk, &self.config)?;
        self.active.unmap(&*self.disk)?;
        // After a crash the recovery point would make the start trust this segment unchecked:
        // because of an old checkpoint, at its length before a truncation, or with an index that
        // the last start rebuilt. Therefore all of it is on the device before the next segment has
        // a name.
        let trusted = base <= self.stale_recovery_point.max(self.partition.recovery_point());
        if trusted {
            self.partition.sync_one(&self.active.segment)?;
        }
        let (fresh, window) = self.next_segment(base)?;
        self.partition.note_new_name();
        let mut segments = Vec::clone(&self.partition.segments.load());
        let emptied = if self.active.size == 0 { segments.pop() } else { None };
        segments.push(fresh.clone());
        self.partition.publish_segments(segments);
        let old = std::mem::replace(&mut self.active, Active::fresh(fresh, window, now_ms));
        self.assert_active_is_last();
        let mut rest = old.trim(&*self.disk);
        if let Some(emptied) = emptied {
            rest = rest.and(emptied.remove(&*self.disk));
        }
        // The segment is whole without them: an index ends in zeroes, a snapshot is made up for by
        // reading more.
        if let Err(error) = rest.and_then(|()| self.snapshot(base)) {
            tracing::warn!(%error, "cannot finish the roll of a segment (index trim or producer snapshot); the log stays usable, and the next start reads more of it");
        }
        if trusted {
            self.partition.flush_sealed()?;
        }
        Ok(())
    }

    /// An empty segment, of a file that was prepared if there is one.
    fn next_segment(&mut self, base: i64) -> Result<(Arc<Segment>, Option<WriteMap>), LogError> {
        let (disk, spare, mut window) = (&*self.disk, self.spare.take(), None);
        let fresh = Segment::with_file(disk, &self.partition.dir(), base, |path| {
            let Some((file, prepared)) = spare.and_then(|spare| spare.take(path)) else {
                return disk.create(path);
            };
            window = Some(prepared);
            Ok(file)
        });
        if fresh.is_err() {
            // The next attempt may begin at a later offset. The next opening removes files that
            // cannot be removed now.
            for suffix in [".index", ".timeindex"] {
                drop(remove_if_there(disk, &self.partition.dir().join(file_name(base, suffix))));
            }
        }
        Ok((Arc::new(fresh?), window))
    }

    /// Starts to create the file of the next segment once this one is nearly full.
    pub(super) fn prepare_segment(&mut self) {
        let segment_bytes = self.config.segment_bytes.into();
        if self.config.append_by == AppendBy::Mapped
            && self.spare.is_none()
            && Spare::is_due(self.active.size, segment_bytes)
        {
            let dir = &*self.partition.dir();
            self.spare = Some(Spare::begin(&self.disk, dir, segment_bytes, &self.background));
        }
    }

    fn snapshot(&mut self, offset: i64) -> Result<(), LogError> {
        self.producers.store(&*self.disk, &self.partition.dir(), offset)?;
        self.snapshot_at = offset;
        Ok(())
    }
}
