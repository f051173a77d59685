//! Options for opening a partition.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::LogConfig;
use crate::background::Background;
use crate::disk::{Disk, RealDisk};
use crate::watch::FailureWatch;

/// The directory of a partition, its known state, and the resources to open it.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The partition's directory (`<topic>-<n>`); created if it is not there.
    pub dir: PathBuf,
    /// The topic's configuration.
    pub config: LogConfig,
    /// The epoch under which this broker leads the partition; -1 leaves the log's own.
    pub leader_epoch: i32,
    /// From the checkpoint: after a crash, segments wholly below it are trusted.
    pub recovery_point: i64,
    /// From the checkpoint: the first offset that may be read; 0 if it has no entry.
    pub log_start: i64,
    /// From the checkpoint: the high watermark of a log that has, or may have, other replicas.
    /// Without one this is the only replica, and its high watermark is the log's end.
    pub high_watermark: Option<i64>,
    /// From this offset on no offsets are missing between two segments, because compaction has not
    /// reached them: after a crash the log ends before missing ones. None keeps the records after a
    /// gap, because no other replica has them.
    pub gapless_from: Option<i64>,
    /// True if no other replica has, or will have, the records. A log that lacks records which its
    /// checkpoints have continues at their offset then: no offset gets a second record.
    pub is_sole: bool,
    /// True if the directory was shut down cleanly. Then the opening scans nothing.
    pub clean: bool,
    /// Access to files.
    pub disk: Arc<dyn Disk>,
    /// Counts the bytes that are read and checked while they are.
    pub checked_bytes: Arc<AtomicU64>,
    /// Threads that prepare the pages to which [`crate::AppendBy::Mapped`] writes.
    pub background: Background,
    /// Receiver of failures of the storage.
    pub watch: FailureWatch,
}

impl OpenOptions {
    /// A partition in `dir` without prior knowledge: default configuration, and the whole log is
    /// checked.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            config: LogConfig::default(),
            leader_epoch: -1,
            recovery_point: 0,
            log_start: 0,
            high_watermark: None,
            gapless_from: None,
            is_sole: false,
            clean: false,
            disk: Arc::new(RealDisk),
            checked_bytes: Arc::default(),
            background: Background::default(),
            watch: FailureWatch::default(),
        }
    }
}
