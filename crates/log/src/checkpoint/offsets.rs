//! Checkpoint files with one offset for each partition of a data directory.

use std::collections::BTreeMap;
use std::path::Path;

use super::lines::{self, Lines};
use super::{Rights, replace};
use crate::disk::Disk;
use crate::{LogError, OFFSET_MAX};

/// One of the four offset checkpoints, by the name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetCheckpoint {
    /// Everything before is synced; recovery after a crash starts here.
    RecoveryPoint,
    /// High watermarks.
    Replication,
    /// First offsets of logs that do not begin with their first segment.
    LogStart,
    /// The first offset that compaction has not seen yet.
    Cleaner,
}

impl OffsetCheckpoint {
    /// The file's name in a data directory.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::RecoveryPoint => "recovery-point-offset-checkpoint",
            Self::Replication => "replication-offset-checkpoint",
            Self::LogStart => "log-start-offset-checkpoint",
            Self::Cleaner => "cleaner-offset-checkpoint",
        }
    }

    /// Replaces the file. Syncs it and its directory; blocks.
    ///
    /// # Errors
    /// A failing disk.
    pub fn store(
        self,
        disk: &dyn Disk,
        dir: &Path,
        offsets: &BTreeMap<(String, i32), i64>,
    ) -> Result<(), LogError> {
        let entries =
            offsets.iter().map(|((topic, partition), offset)| format!("{topic} {partition} {offset}"));
        replace(disk, &dir.join(self.file_name()), lines::render(entries).as_bytes(), Rights::Writable)
    }

    /// Reads the file, by topic and partition; no file is an empty one.
    ///
    /// # Errors
    /// A failing disk, or a file that is not a checkpoint.
    pub fn load(self, disk: &dyn Disk, dir: &Path) -> Result<BTreeMap<(String, i32), i64>, LogError> {
        let path = dir.join(self.file_name());
        let Some(text) = lines::read_text(disk, &path)? else { return Ok(BTreeMap::new()) };
        // As Kafka creates it, empty.
        if text.is_empty() {
            return Ok(BTreeMap::new());
        }
        let damaged = |detail: String| LogError::corrupt(&path, detail);
        let entry = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let topic = words.next()?.to_owned();
            let partition = words.next()?.parse().ok()?;
            let offset = words.next()?.parse().ok().filter(|offset| *offset <= OFFSET_MAX)?;
            words.next().is_none().then_some(((topic, partition), offset))
        };
        Lines::parse(&text)
            .map_err(damaged)?
            .map(|line| {
                entry(line).ok_or_else(|| {
                    damaged(format!("{line:?} is not topic, partition and an offset up to {OFFSET_MAX}"))
                })
            })
            .collect()
    }
}
