//! The check of a partition's directory that is not in use: every batch of every segment, and the
//! consistency of the derived files (indexes, epochs, producers, checkpoints). It changes nothing.

use std::io;
use std::path::{Path, PathBuf};

use crate::LogError;
use crate::checkpoint;
use crate::disk::Disk;
use crate::epochs::Epochs;
use crate::producers::Producers;

mod batches;
mod beside;
mod entries;
mod names;
#[cfg(test)]
mod tests;
mod walk;

pub use batches::{Batches, Next};

use names::Names;

/// Facts about a partition in the data directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordedState {
    /// True if the last stop was clean: every log was closed and synced.
    pub clean: bool,
    /// Everything before was on the device.
    pub recovery_point: i64,
    /// The first offset that may be read.
    pub log_start: i64,
    /// The high watermark, if one was stored.
    pub high_watermark: Option<i64>,
    /// True if offsets may be absent because the log is compacted.
    pub compacted: bool,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// The next start repairs it, without the loss of an acknowledged record.
    Mended,
    /// Records are lost, or the next start does not mend it.
    Damage,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// The file or directory.
    pub path: PathBuf,
    /// Position of the byte in the file, if there is one.
    pub position: Option<u64>,
    /// The log's offset there, where it is known.
    pub offset: Option<i64>,
    /// Description of the problem.
    pub what: String,
    /// Next step, or the action of the next start.
    pub next: String,
}

/// Contents of a partition's directory, and its problems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of segments (files of batches).
    pub segments: usize,
    /// Number of intact batches.
    pub batches: u64,
    /// The records that they count.
    pub records: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// The first offset that may be read.
    pub log_start: i64,
    /// The offset after the last intact batch.
    pub log_end: i64,
    /// Findings, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// Number of findings that are not listed.
    pub unlisted: u64,
}

/// Maximum number of findings that are listed for one partition.
pub const FINDINGS_MAX: usize = 100;

impl Checked {
    /// The most severe finding.
    pub fn severity(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// Adds findings of another check of the same partition. Findings beyond the limit are counted;
    /// damage is always listed.
    pub fn push(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            return self.findings.push(finding);
        }
        self.unlisted += 1;
        let lesser = self.findings.iter().rposition(|listed| listed.severity < finding.severity);
        if let Some(lesser) = lesser {
            self.findings[lesser] = finding;
        }
    }
}

/// Checks the directory of one partition. `progress` gets the number of log bytes after each read.
///
/// # Errors
/// The directory cannot be listed. A file that cannot be read is a finding.
pub fn partition(
    disk: &dyn Disk,
    dir: &Path,
    left: &RecordedState,
    progress: &mut dyn FnMut(u64),
) -> Result<Checked, LogError> {
    let names = Names::read(disk, dir)?;
    let mut check = Check {
        disk,
        dir,
        left,
        names,
        checked: Checked::default(),
        producers: Producers::default(),
        epochs: Epochs::default(),
        next_offset: 0,
        gaps: None,
        progress,
        unreported: 0,
    };
    check.load_epochs();
    check.walk();
    check.look_beside();
    Ok(check.checked)
}

/// A check of a directory, in progress.
struct Check<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    left: &'a RecordedState,
    names: Names,
    checked: Checked,
    producers: Producers,
    /// Epochs as their file has them.
    epochs: Epochs,
    next_offset: i64,
    /// The first absent offsets, and how often there are some.
    gaps: Option<(i64, i64, u64)>,
    progress: &'a mut dyn FnMut(u64),
    unreported: u64,
}

/// Bytes after which progress is reported.
const REPORT_BYTES: u64 = 1 << 20;

/// Next step for a damaged log.
const RESTORE: &str = "restore the file from a copy; without one, everything before can still be read, and \
    kafka-delete-records up to the next intact offset lets consumers pass";

/// Position of a finding in its file and in the log, as far as known.
#[derive(Clone, Copy, Default)]
struct Location {
    position: Option<u64>,
    offset: Option<i64>,
}

impl Location {
    fn offset(offset: i64) -> Self {
        Self { position: None, offset: Some(offset) }
    }
}

impl Check<'_> {
    fn find(&mut self, severity: Severity, path: &Path, what: impl Into<String>, next: &str) {
        self.find_at(severity, path, Location::default(), what.into(), next);
    }

    fn find_at(
        &mut self,
        severity: Severity,
        path: &Path,
        Location { position, offset }: Location,
        what: String,
        next: &str,
    ) {
        let (path, next) = (path.to_owned(), next.to_owned());
        self.checked.push(Finding { severity, path, position, offset, what, next });
    }

    fn unreadable(&mut self, path: &Path, position: Option<u64>, error: &io::Error) {
        let (what, next) =
            (format!("cannot be read: {error}"), "see to the disk and the permissions, then check again");
        self.find_at(Severity::Damage, path, Location { position, offset: None }, what, next);
    }

    fn report(&mut self, bytes: u64) {
        self.unreported += bytes;
        if self.unreported >= REPORT_BYTES {
            (self.progress)(std::mem::take(&mut self.unreported));
        }
    }

    /// True if the next start uses a segment without a scan.
    fn is_trusted(&self, at: usize) -> bool {
        let next = self.names.bases.get(at + 1);
        self.left.clean || next.is_some_and(|next| *next <= self.left.recovery_point)
    }

    fn load_epochs(&mut self) {
        let path = self.dir.join(checkpoint::LEADER_EPOCHS);
        match Epochs::load(self.disk, self.dir) {
            Ok(epochs) => self.epochs = epochs,
            Err(LogError::Corrupt { detail, .. }) => {
                self.find(Severity::Mended, &path, detail, "the next start rebuilds it from the log");
            }
            Err(error) => {
                self.find(Severity::Damage, &path, error.to_string(), "see to the disk, then check again")
            }
        }
    }

    fn size_of(&mut self, path: &Path) -> u64 {
        match self.disk.len(path) {
            Ok(len) => len,
            Err(error) => {
                self.unreadable(path, None, &error);
                0
            }
        }
    }
}
