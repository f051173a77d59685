//! Files that a log no longer contains: they have the suffix `.deleted` for `file.delete.delay.ms`,
//! and are then removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use levada_log::{Discarded, LogError, Retired};
use levada_process::clock::steady_ms;
use parking_lot::Mutex;

use crate::replica::Partition;
use crate::replica::data_dirs::DataDirs;

/// Files to remove.
pub(crate) struct Removals {
    dirs: Arc<DataDirs>,
    /// By the time at which they are due.
    pending: Mutex<BTreeMap<i64, Vec<Retired>>>,
}

impl Removals {
    pub(super) fn new(dirs: Arc<DataDirs>) -> Self {
        Self { dirs, pending: Mutex::default() }
    }

    /// Renames segments that have left their log, and schedules their removal.
    pub(crate) fn retire(&self, partition: &Partition, discarded: Discarded) -> Result<(), LogError> {
        if discarded.count() > 0 {
            self.discard(partition, discarded.retire()?);
        }
        Ok(())
    }

    /// Schedules the removal of files.
    pub(super) fn discard(&self, partition: &Partition, retired: Retired) {
        match partition.config().file_delete_delay_ms {
            0 => remove(retired),
            delay_ms => {
                let due_ms = steady_ms().saturating_add(delay_ms);
                self.pending.lock().entry(due_ms).or_default().push(retired);
            }
        }
    }

    /// Removes due files, and directories whose removal has failed. The next start removes files
    /// that are left at a stop.
    pub(crate) fn remove_due(&self) {
        self.dirs.retry_removals();
        let due = {
            let mut pending = self.pending.lock();
            let later = pending.split_off(&steady_ms().saturating_add(1));
            std::mem::replace(&mut *pending, later)
        };
        due.into_values().flatten().for_each(remove);
    }
}

fn remove(retired: Retired) {
    if let Err(error) = retired.remove() {
        tracing::warn!(%error, "cannot remove an obsolete file");
    }
}
