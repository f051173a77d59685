//! Acknowledgements that wait for the device: one sync for all batches that wait for one, on a thread that may block.
//!
//! Whoever comes while a sync runs waits for the next, which begins when the first has ended. That is group commit
//! without a timer: a slow device makes larger groups, not longer queues.

use std::sync::Arc;

use levada_log::LogError;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::partition::Partition;

/// What became of a sync.
pub(crate) type Synced = Result<(), LogError>;

/// The syncs of one partition's log.
#[derive(Default)]
pub(crate) struct Syncs {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Some thread syncs, and will look at `waiting` before it stops.
    busy: bool,
    waiting: Vec<oneshot::Sender<Synced>>,
}

impl Syncs {
    /// Has everything that is in the log now made durable. The answer comes when it is; none if the broker stops first.
    pub(crate) fn ask(partition: &Arc<Partition>) -> oneshot::Receiver<Synced> {
        let (done, answer) = oneshot::channel();
        let mut state = partition.syncs().state.lock();
        state.waiting.push(done);
        if !state.busy {
            let partition = partition.clone();
            tokio::task::spawn_blocking(move || partition.syncs().run(&partition));
            state.busy = true;
        }
        answer
    }

    fn run(&self, partition: &Partition) {
        let _broken = Broken(self);
        loop {
            let group = {
                let mut state = self.state.lock();
                if state.waiting.is_empty() {
                    state.busy = false;
                    return;
                }
                std::mem::take(&mut state.waiting)
            };
            let synced = partition.log().sync_records().map(drop);
            if let Err(error) = &synced {
                let offline = partition.log().is_offline();
                tracing::error!(partition = partition.name(), offline, %error, "records are not on the device");
            }
            for waiter in group {
                // A connection that died meanwhile does not want its answer.
                let _ = waiter.send(synced.clone());
            }
        }
    }
}

/// Should a sync panic, nobody waits for it for ever, and the next one begins.
struct Broken<'a>(&'a Syncs);

impl Drop for Broken<'_> {
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
