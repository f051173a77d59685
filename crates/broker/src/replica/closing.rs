//! The close of all logs when the broker stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::replica::data_dir::DataDir;
use crate::replica::{Partition, Replicas};

/// Number of logs that are closed at the same time. Each waits for several syncs of the device,
/// which completes those of many files together.
const CLOSERS: usize = 16;

impl Replicas {
    /// Closes every log, leaves the checkpoints and the marker of a clean shutdown. Appends are
    /// refused from now on. Blocks.
    pub(crate) fn close(&self, broker_epoch: i64) {
        self.dirs.release_reserves();
        let unopened = self.unopened.lock().clone();
        unopened.unclean().filter_map(|key| self.dirs.of(key)).for_each(DataDir::note_unclean);
        close_logs(&self.partitions.all(), |partition| self.dirs.around(partition.log()).note_unclean());
        self.checkpoints.store();
        self.dirs.mark_clean(broker_epoch);
    }
}

/// Closes the logs of partitions, several at a time, and calls `failed` with those that have
/// failed. Blocks.
fn close_logs(partitions: &[Arc<Partition>], failed: impl Fn(&Partition) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(partition) = partitions.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(writer) = partition.lane().take_writer() else {
                // A write has panicked. Deleted partitions are no longer served.
                failed(partition);
                continue;
            };
            if let Err(error) = writer.close() {
                tracing::error!(partition = partition.name(), %error, "cannot close the log cleanly");
                failed(partition);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..CLOSERS.min(partitions.len()) {
            // This thread continues alone if there is no other.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}
