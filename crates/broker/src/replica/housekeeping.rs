//! Upkeep of the logs while the broker runs: flushing, rebuilding misleading indexes, checking that
//! files are present. `retention` and `expiry` are parts of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use levada_log::LogError;
use levada_process::blocking::off_shard;
use levada_process::clock::steady_ms;
use levada_wire::Uuid;
use parking_lot::Mutex;

use crate::live_config::LiveConfig;
use crate::replica::discarded::Removals;
use crate::replica::tally::Upkeep;
use crate::replica::{Partition, Partitions};

/// Longest and shortest pause between two checks of `flush.ms`.
const FLUSHES_MS: i64 = 5_000;
const FLUSHES_MIN_MS: i64 = 50;

/// Rounds in which the files of each idle log are checked once: two minutes. A check costs more
/// than the rest of a round, and an idle log has nothing new to lose.
const LOOKS: usize = 24;

/// The part of upkeep that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Flush,
    Round,
}

/// Logs whose upkeep has failed and has not succeeded since. An error that recurs in every round is
/// logged once.
#[derive(Debug, Default)]
struct FailedUpkeep(Mutex<HashSet<(Uuid, i32, Part)>>);

impl FailedUpkeep {
    /// True if this is the first failure since the last success.
    fn is_new(&self, partition: &Partition, part: Part) -> bool {
        self.0.lock().insert((partition.topic_id(), partition.index(), part))
    }

    fn succeeded(&self, partition: &Partition, part: Part) {
        let mut failed = self.0.lock();
        if !failed.is_empty() {
            failed.remove(&(partition.topic_id(), partition.index(), part));
        }
    }

    /// Forgets logs that are not among these.
    fn keep(&self, partitions: &[Arc<Partition>]) {
        let mut failed = self.0.lock();
        if !failed.is_empty() {
            let present = partitions.iter().map(|partition| (partition.topic_id(), partition.index()));
            let present: HashSet<(Uuid, i32)> = present.collect();
            failed.retain(|(topic_id, index, _)| present.contains(&(*topic_id, *index)));
        }
    }
}

/// Upkeep of all logs that are served.
pub(crate) struct Housekeeping {
    pub(super) config: Arc<LiveConfig>,
    pub(super) partitions: Arc<Partitions>,
    pub(super) removals: Arc<Removals>,
    pub(super) upkeep: Arc<Upkeep>,
    failed: FailedUpkeep,
    /// Number of rounds so far.
    rounds: AtomicUsize,
}

impl Housekeeping {
    pub(super) fn new(
        config: Arc<LiveConfig>,
        partitions: Arc<Partitions>,
        removals: Arc<Removals>,
        upkeep: Arc<Upkeep>,
    ) -> Self {
        let (failed, rounds) = (FailedUpkeep::default(), AtomicUsize::new(0));
        Self { config, partitions, removals, upkeep, failed, rounds }
    }

    /// Runs one round of housekeeping for every served log. Blocks.
    pub(crate) fn keep_logs(&self) {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let partitions = self.partitions.all();
        for (at, partition) in partitions.iter().enumerate() {
            self.keep_partition(partition, at % LOOKS == round % LOOKS);
        }
        self.failed.keep(&partitions);
    }

    /// Forces logs to the device whose topics set `flush.ms`; never returns.
    pub(crate) async fn run_flushes(self: Arc<Self>) {
        let mut looked_ms = steady_ms();
        loop {
            let now = steady_ms();
            let since_ms = std::mem::replace(&mut looked_ms, now);
            let housekeeping = self.clone();
            // One pass flushes and finds the next pause: the state of an idle log is in no cache of
            // the processor.
            let pause_ms = off_shard(move || {
                let flush = |shortest: i64, partition: &Arc<Partition>| {
                    let flush_ms = partition.config().flush_ms;
                    housekeeping.flush_if_due(partition, flush_ms, (since_ms, now));
                    shortest.min(flush_ms)
                };
                housekeeping.partitions.all().iter().fold(FLUSHES_MS, flush)
            })
            .await;
            let pause_ms = pause_ms.max(FLUSHES_MIN_MS).unsigned_abs();
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    /// Flushes if a deadline of `flush.ms` passed between two checks: deadlines are multiples of
    /// it, so no state is needed.
    fn flush_if_due(&self, partition: &Partition, flush_ms: i64, (since_ms, now_ms): (i64, i64)) {
        let flush_ms = flush_ms.max(1);
        if since_ms / flush_ms == now_ms / flush_ms || partition.log().durable() >= partition.log().log_end()
        {
            return;
        }
        match self.upkeep.flush(partition.log(), levada_log::Partition::flush) {
            Err(error) if self.failed.is_new(partition, Part::Flush) => {
                let offline = partition.log().is_offline();
                tracing::error!(partition = partition.name(), offline, %error, "not flushed; the broker repeats the flush");
            }
            Err(_) => {}
            Ok(_) => self.failed.succeeded(partition, Part::Flush),
        }
    }

    fn keep_partition(&self, partition: &Partition, is_due: bool) {
        if partition.is_deleted() {
            return;
        }
        let flush = || self.upkeep.flush(partition.log(), levada_log::Partition::flush_sealed);
        let kept = look_for_files(partition, is_due).and_then(|()| flush());
        let kept = kept.and_then(|_| reindex(partition));
        match kept {
            // The log's files were deleted during the check.
            Err(_) if partition.is_deleted() => {}
            Err(error) if self.failed.is_new(partition, Part::Round) => {
                tracing::error!(partition = partition.name(), %error, "housekeeping failed; the broker repeats it every few seconds");
            }
            Err(_) => {}
            Ok(_) => self.failed.succeeded(partition, Part::Round),
        }
    }
}

/// Fails if the files of the log are no longer in their directory. Checks only if the log has grown
/// since the last check, or if it `is_due`. Blocks.
fn look_for_files(partition: &Partition, is_due: bool) -> Result<(), LogError> {
    let end = partition.log().log_end();
    if partition.looked_for_at.swap(end, Ordering::Relaxed) == end && !is_due {
        return Ok(());
    }
    partition.log().check_files_present()
}

/// Rebuilds damaged indexes that readers have detected. The thread reads their segments before it
/// takes the writer.
fn reindex(partition: &Partition) -> Result<(), LogError> {
    if !partition.log().has_misleading_index() {
        return Ok(());
    }
    let Some(config) = partition.lane().with_writer(|writer| writer.config().clone()) else { return Ok(()) };
    for reindexed in partition.log().reindex(&config)? {
        partition.lane().with_writer(|writer| writer.replace_indexes(&reindexed)).transpose()?;
    }
    Ok(())
}
