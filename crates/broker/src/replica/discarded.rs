//! Files that a log no longer contains: they have the suffix `.deleted` for `file.delete.delay.ms`,
//! and are then removed.

use std::collections::BTreeMap;

use levada_log::{Discarded, LogError, Retired};
use levada_process::clock::steady_ms;
use parking_lot::Mutex;

use crate::replica::{Partition, Replicas};

/// Files to remove, with their times.
#[derive(Default)]
pub(super) struct PendingRemoval(Mutex<BTreeMap<i64, Vec<Retired>>>);

impl Replicas {
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
                self.waiting.0.lock().entry(due_ms).or_default().push(retired);
            }
        }
    }

    /// Removes due files, and directories whose removal has failed. The next start removes files
    /// that are left at a stop.
    pub(crate) fn remove_discarded(&self) {
        self.dirs.retry_removals();
        let due = {
            let mut waiting = self.waiting.0.lock();
            let later = waiting.split_off(&steady_ms().saturating_add(1));
            std::mem::replace(&mut *waiting, later)
        };
        due.into_values().flatten().for_each(remove);
    }
}

fn remove(retired: Retired) {
    if let Err(error) = retired.remove() {
        tracing::warn!(%error, "cannot remove an obsolete file");
    }
}
