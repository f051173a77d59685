//! Acknowledgements that wait for the device: one sync for all waiting batches, on a thread that
//! may block.
//!
//! A request that arrives while a sync runs waits for the next, which begins when the first has
//! ended. This is group commit without a timer: a slow device makes larger groups, not longer
//! queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use levada_config::TopicConfig;
use levada_log::LogError;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::replica::tally::Upkeep;

/// Result of a sync.
pub(crate) type Synced = Result<(), LogError>;

/// The syncs of one partition's log, and the topic's rule for acknowledgements.
pub(crate) struct Syncs {
    log: Arc<levada_log::Partition>,
    /// Every acknowledgement waits for the device.
    acks_durable: AtomicBool,
    /// Number of unsynced records at which an acknowledgement waits for the device.
    flush_messages: AtomicI64,
    state: Mutex<State>,
    upkeep: Arc<Upkeep>,
}

#[derive(Default)]
struct State {
    /// True while a thread syncs; it checks `waiting` before it ends.
    busy: bool,
    waiting: Vec<oneshot::Sender<Synced>>,
}

impl Syncs {
    /// The syncs of this log, by the topic's configuration.
    pub(crate) fn new(log: Arc<levada_log::Partition>, config: &TopicConfig, upkeep: Arc<Upkeep>) -> Self {
        Self {
            log,
            acks_durable: AtomicBool::new(config.acks_durable),
            flush_messages: AtomicI64::new(config.flush_messages),
            state: Mutex::default(),
            upkeep,
        }
    }

    /// Applies a changed configuration, effective for the next acknowledgement.
    pub(crate) fn configure(&self, config: &TopicConfig) {
        self.acks_durable.store(config.acks_durable, Ordering::Relaxed);
        self.flush_messages.store(config.flush_messages, Ordering::Relaxed);
    }

    /// The log that is synced.
    pub(crate) fn log(&self) -> &levada_log::Partition {
        &self.log
    }

    /// True if some acknowledgement of this log may wait for the device.
    pub(crate) fn may_be_due(&self) -> bool {
        self.acks_durable.load(Ordering::Relaxed) || self.flush_messages.load(Ordering::Relaxed) < i64::MAX
    }

    /// True if acknowledgements wait for the device: always, or because `flush.messages` records
    /// do.
    pub(crate) fn is_due(&self) -> bool {
        self.acks_durable.load(Ordering::Relaxed)
            || self.log.log_end() - self.log.durable() >= self.flush_messages.load(Ordering::Relaxed)
    }

    /// Requests a sync of all data that is in the log now. The result arrives when the sync is
    /// done; none arrives if the broker stops first.
    pub(crate) fn ask(self: &Arc<Self>) -> oneshot::Receiver<Synced> {
        let (done, answer) = oneshot::channel();
        let mut state = self.state.lock();
        state.waiting.push(done);
        if !state.busy {
            let syncs = self.clone();
            tokio::task::spawn_blocking(move || syncs.run());
            state.busy = true;
        }
        answer
    }

    fn run(&self) {
        let _broken = PoisonOnPanic(self);
        loop {
            let group = {
                let mut state = self.state.lock();
                if state.waiting.is_empty() {
                    state.busy = false;
                    return;
                }
                std::mem::take(&mut state.waiting)
            };
            let synced = self.upkeep.flush(&self.log, levada_log::Partition::sync_records).map(drop);
            if let Err(error) = &synced {
                let (offline, partition) = (self.log.is_offline(), name(&self.log));
                tracing::error!(partition, offline, %error, "cannot sync records to the device");
            }
            for waiter in group {
                // A connection that has closed needs no response.
                let _ = waiter.send(synced.clone());
            }
        }
    }
}

/// `topic-index`, which is the name of the log's directory.
fn name(log: &levada_log::Partition) -> String {
    log.dir().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// If a sync panics, its waiters get an error, and the next sync begins.
struct PoisonOnPanic<'a>(&'a Syncs);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state.lock();
            state.busy = false;
            state.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests;
