//! Compaction: chooses the log that needs it most, and compacts it on threads that may block. For
//! each new segment the append lane of the log is held twice for a short time: to read the last
//! batch of each producer, and to swap the files.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use levada_log::LogError;
use levada_log::compact::{CleanError, Cleaning, Counts, DirtySection, Job};
use levada_log::disk::is_short;
use levada_process::blocking::off_shard;
use levada_process::clock::now_ms;
use levada_process::tasks::guarded;
use tokio::task::JoinSet;

use crate::live_config::LiveConfig;
use crate::replica::cleaner::Cleaner;
use crate::replica::discarded::Removals;
use crate::replica::log_config::log_config;
use crate::replica::{Checkpoints, Partition, Partitions};

/// A log that is to be compacted.
pub(crate) struct Chosen {
    partition: Arc<Partition>,
    dirt: DirtySection,
}

/// Outcome of a compaction.
enum CompactionOutcome {
    /// Up to this offset the log is compacted.
    Done(i64, Counts),
    /// The log changed or was deleted, or the broker stops: compaction retries later.
    Dropped,
    /// Compaction failed: it is repeated, but not immediately.
    Failed,
}

/// Compacts the logs of topics whose policy says so.
pub(crate) struct Compaction {
    pub(super) config: Arc<LiveConfig>,
    pub(super) partitions: Arc<Partitions>,
    pub(super) cleaner: Arc<Cleaner>,
    pub(super) checkpoints: Arc<Checkpoints>,
    pub(super) removals: Arc<Removals>,
}

impl Compaction {
    /// Compacts logs as they need it, `log.cleaner.threads` at a time; returns only if there is no
    /// compaction here.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut running = JoinSet::new();
        let mut changes = self.config.changes();
        while self.config.load().cleaner.enabled {
            let backoff = Duration::from_millis(self.config.load().cleaner.backoff_ms.unsigned_abs());
            while running.len() < self.config.load().cleaner.threads as usize {
                let compaction = self.clone();
                let Some(chosen) = off_shard(move || compaction.choose()).await else { break };
                let compaction = self.clone();
                running.spawn_blocking(move || compaction.compact_guarded(&chosen));
            }
            tokio::select! {
                Some(went_well) = running.join_next(), if !running.is_empty() => {
                    if !went_well.unwrap_or(false) {
                        tokio::time::sleep(backoff).await;
                    }
                }
                () = tokio::time::sleep(backoff.max(Duration::from_millis(1))) => {}
                _ = changes.changed() => {}
            }
        }
        tracing::info!("log.cleaner.enable is false: logs are not compacted");
    }

    /// The log with the largest share of uncompacted bytes, of those that are due. The caller owns
    /// the log until it returns it.
    pub(crate) fn choose(&self) -> Option<Chosen> {
        let now_ms = now_ms();
        let (mut dirtiest, mut backlog, mut chosen): (f64, u64, Option<Chosen>) = (0.0, 0, None);
        for partition in self.partitions.all() {
            let (config, key) = (partition.config(), partition.key());
            let idle = partition.is_deleted() || partition.log().is_offline() || !self.cleaner.is_free(&key);
            if !config.cleanup_policy.compact || idle {
                continue;
            }
            let log = log_config(&self.config.load(), &config);
            let dirt = match DirtySection::of(partition.log(), &log, self.cleaner.checkpoint(&key), now_ms) {
                Ok(dirt) => dirt,
                // The next choice looks at it again.
                Err(error) if is_shortage(&error) => continue,
                Err(error) => {
                    self.give_up(&partition, &error);
                    continue;
                }
            };
            dirtiest = dirtiest.max(dirt.ratio());
            backlog += dirt.dirty_bytes;
            let is_dirtier = chosen.as_ref().is_none_or(|other| dirt.ratio() > other.dirt.ratio());
            if dirt.is_due(config.min_cleanable_dirty_ratio) && is_dirtier {
                chosen = Some(Chosen { partition, dirt });
            }
        }
        self.cleaner.note_dirt(dirtiest, backlog);
        chosen.filter(|chosen| self.cleaner.take(&chosen.partition.key()))
    }

    /// Like [`Compaction::compact`]. A log whose compaction panics counts as damaged.
    pub(crate) fn compact_guarded(&self, chosen: &Chosen) -> bool {
        guarded("compaction", || self.compact(chosen)).unwrap_or_else(|panicked| {
            let key = chosen.partition.key();
            self.give_up(&chosen.partition, &panicked);
            self.cleaner.give_back(&key);
            false
        })
    }

    /// Compacts a log; returns true if the next compaction need not wait. Blocks.
    pub(crate) fn compact(&self, chosen: &Chosen) -> bool {
        let partition = &chosen.partition;
        let key = partition.key();
        match self.compact_log(chosen) {
            Ok(CompactionOutcome::Done(end, counts)) => {
                self.cleaner.count(&counts);
                self.cleaner.done(&key, end, || partition.is_deleted());
                self.checkpoints.store_cleaner();
                let (from, to) = (chosen.dirt.first_dirty, end);
                let (read, written) = (counts.read_bytes, counts.written_bytes);
                tracing::info!(partition = partition.name(), from, to, read, written, "log compacted");
                true
            }
            Ok(CompactionOutcome::Dropped) => {
                self.cleaner.give_back(&key);
                true
            }
            Ok(CompactionOutcome::Failed) => {
                self.cleaner.give_back(&key);
                false
            }
            Err(error) => {
                self.give_up(partition, &error);
                self.cleaner.give_back(&key);
                true
            }
        }
    }

    fn compact_log(&self, chosen: &Chosen) -> Result<CompactionOutcome, LogError> {
        let done = self.rewrite(chosen);
        let partition = &chosen.partition;
        match done {
            Ok(outcome) => Ok(outcome),
            Err(CleanError::Stopped | CleanError::Overtaken) => Ok(CompactionOutcome::Dropped),
            Err(CleanError::Log(_)) if partition.is_deleted() => Ok(CompactionOutcome::Dropped),
            Err(CleanError::Log(error)) if is_shortage(&error) || partition.log().is_offline() => {
                tracing::error!(partition = partition.name(), %error, "compaction failed; the broker retries later");
                Ok(CompactionOutcome::Failed)
            }
            Err(CleanError::Log(error)) => Err(error),
        }
    }

    fn rewrite(&self, chosen: &Chosen) -> Result<CompactionOutcome, CleanError> {
        let partition = &chosen.partition;
        let (config, topic) = (self.config.load(), partition.config());
        let job = Job {
            partition: partition.shared_log(),
            config: log_config(&config, &topic),
            dirt: chosen.dirt,
            memory_bytes: config.cleaner.dedupe_buffer_bytes / config.cleaner.threads.max(1) as usize,
            load_factor: config.cleaner.load_factor,
            now_ms: now_ms(),
        };
        let pace = |bytes: u64| {
            let go_on = self.cleaner.go_on(bytes, self.config.load().cleaner.io_max_bytes_per_second);
            if go_on && !partition.is_deleted() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let mut cleaning = Cleaning::begin(job, &pace)?;
        // Read again for each segment: other batches may have been appended since.
        while let Some(producers) = partition.lane().with_writer(|writer| writer.last_records()) {
            let Some(cleaned) = cleaning.next_segment(&producers, &pace)? else {
                // The new names, before the checkpoint counts on them.
                partition.log().flush_sealed()?;
                return Ok(CompactionOutcome::Done(cleaning.end(), cleaning.counts()));
            };
            let mut cleaned = Some(cleaned);
            let replaced = partition
                .lane()
                .with_writer(|writer| cleaned.take().map(|cleaned| writer.replace(cleaned)).transpose());
            if let Some(unused) = cleaned {
                unused.discard()?;
            }
            match replaced.transpose()?.flatten().flatten() {
                Some(retired) => self.removals.discard(partition, retired),
                None => return Ok(CompactionOutcome::Dropped),
            }
        }
        Ok(CompactionOutcome::Dropped)
    }

    /// Excludes a damaged log from compaction until the next start.
    fn give_up(&self, partition: &Partition, error: &dyn std::error::Error) {
        self.cleaner.exclude(&partition.key());
        tracing::error!(partition = partition.name(), %error, "log cannot be compacted; the broker retries after the next start");
    }
}

/// True if space, descriptors or memory were short: a later compaction may have them.
fn is_shortage(error: &LogError) -> bool {
    error.source_io().is_some_and(is_short)
}
