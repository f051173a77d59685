//! `/livez`: reports if the threads that serve clients still run tasks. Partitions, directories and
//! the cluster do not count: a restart repairs none of them, and interrupts the service of the
//! others.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::supervisor::{Pulse, thread_name};

/// Time within which each thread must run a task; `levada cluster health --http` waits a second
/// longer.
const TURN_TIME: Duration = Duration::from_secs(4);

/// Requests for a sign of life, and the newest one to which each thread has responded. Without a
/// request the threads do nothing.
pub(crate) struct Liveness {
    asked: watch::Sender<u64>,
    answered: Vec<watch::Sender<u64>>,
    /// Signs of life for the service manager's watchdog, if there is one.
    pulse: Option<Arc<Pulse>>,
}

impl Liveness {
    pub(super) fn new(threads: usize, pulse: Option<Arc<Pulse>>) -> Arc<Self> {
        let answered = (0..threads).map(|_| watch::Sender::new(0)).collect();
        Arc::new(Self { asked: watch::Sender::new(0), answered, pulse })
    }

    /// Makes a thread respond from now on, on its local tasks.
    pub(crate) fn attend(self: &Arc<Self>, thread: usize) {
        if let Some(pulse) = &self.pulse {
            tokio::task::spawn_local(pulse.clone().beat(thread));
        }
        tokio::task::spawn_local(self.clone().answer(thread));
    }

    /// Waits until each thread has run a task.
    ///
    /// # Errors
    /// One has not: a sentence that names it.
    pub(crate) async fn all_take_turns(&self) -> Result<(), String> {
        let Some(thread) = self.silent(TURN_TIME).await else { return Ok(()) };
        let (name, seconds) = (thread_name(thread, self.answered.len()), TURN_TIME.as_secs());
        Err(format!(
            "the thread {name} has not responded for {seconds} s; SIGQUIT logs the broker's state and stops it"
        ))
    }

    /// Responds for one thread, for as long as the thread runs.
    async fn answer(self: Arc<Self>, thread: usize) {
        let mut asked = self.asked.subscribe();
        loop {
            self.answered[thread].send_replace(*asked.borrow_and_update());
            // This task keeps the sender.
            if asked.changed().await.is_err() {
                return;
            }
        }
    }

    /// The first thread that runs no task within `limit`.
    async fn silent(&self, limit: Duration) -> Option<usize> {
        let mut question = 0;
        self.asked.send_modify(|last| {
            *last += 1;
            question = *last;
        });
        let deadline = Instant::now() + limit;
        for (thread, answered) in self.answered.iter().enumerate() {
            let mut answered = answered.subscribe();
            if timeout_at(deadline, answered.wait_for(|answer| *answer >= question)).await.is_err() {
                return Some(thread);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
