//! `.kafka_cleanshutdown`: written last when a broker stops, removed first when it starts. The file
//! means that every log was closed and synced.

use std::path::Path;

use super::{Rights, lines, replace};
use crate::LogError;
use crate::disk::{At, Disk, remove_if_there};

/// The mark of a clean shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanShutdown {
    /// The epoch of the broker's registration, -1 if unknown.
    pub broker_epoch: i64,
}

impl CleanShutdown {
    /// The file's name in a data directory.
    pub const FILE_NAME: &'static str = ".kafka_cleanshutdown";

    /// Writes the mark. Syncs it and its directory; blocks.
    ///
    /// # Errors
    /// A failing disk.
    pub fn store(&self, disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
        let text = format!("{{\"version\":0,\"brokerEpoch\":{}}}", self.broker_epoch);
        replace(disk, &dir.join(Self::FILE_NAME), text.as_bytes(), Rights::Writable)
    }

    /// Reads the mark; `None` if the last stop was not clean. An unreadable mark counts, with an
    /// unknown epoch.
    ///
    /// # Errors
    /// A failing disk.
    pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, LogError> {
        let text = match lines::read_text(disk, &dir.join(Self::FILE_NAME)) {
            Ok(None) => return Ok(None),
            Err(LogError::Corrupt { .. }) => String::new(),
            other => other?.unwrap_or_default(),
        };
        Ok(Some(Self { broker_epoch: broker_epoch(&text).unwrap_or(-1) }))
    }

    /// Removes the mark and returns it, as [`CleanShutdown::load`] does.
    ///
    /// # Errors
    /// A failing disk.
    pub fn take(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, LogError> {
        let Some(mark) = Self::load(disk, dir)? else { return Ok(None) };
        remove_if_there(disk, &dir.join(Self::FILE_NAME))?;
        // Were the removal lost, a crash would look like a clean stop.
        disk.sync_dir(dir).at("sync", dir)?;
        Ok(Some(mark))
    }
}

/// The number after `"brokerEpoch":`; the file is too small for a parser of JSON.
fn broker_epoch(text: &str) -> Option<i64> {
    let (_, rest) = text.split_once("\"brokerEpoch\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let end = rest.find(|letter: char| letter != '-' && !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}
