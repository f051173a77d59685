//! Notifications to the service manager (`sd_notify`), including those for its watchdog. Without a
//! service manager this module does nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

#[cfg(test)]
mod tests;

/// Number of signs of life for each message to the watchdog: with two, a thread that runs late once
/// is no alarm.
const BEATS: u32 = 2;

/// The service manager as the broker talks to it.
pub(super) struct Supervisor {
    watchdog: Option<Watchdog>,
}

struct Watchdog {
    /// Time between two messages.
    pause: Duration,
    /// Time of the next message. Progress in between does not advance it: threads beat only
    /// [`BEATS`] times between two messages.
    due: Instant,
    pulse: Arc<Pulse>,
    /// Counts of the threads' beats at the last message.
    seen: Vec<u64>,
}

/// Signs of life of the threads that serve.
pub(crate) struct Pulse {
    beats: Vec<AtomicU64>,
    pause: Duration,
}

impl Pulse {
    fn new(threads: usize, pause: Duration) -> Self {
        Self { beats: (0..threads).map(|_| AtomicU64::new(0)).collect(), pause }
    }

    /// Gives signs of life for one thread, from its runtime; never returns.
    pub(crate) async fn beat(self: Arc<Self>, thread: usize) {
        loop {
            self.beats[thread].fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(self.pause).await;
        }
    }

    fn name(&self, thread: usize) -> String {
        thread_name(thread, self.beats.len())
    }

    fn counts(&self) -> Vec<u64> {
        self.beats.iter().map(|beats| beats.load(Ordering::Relaxed)).collect()
    }
}

/// Name of a thread by its number: the shards, then the thread of background work.
pub(super) fn thread_name(thread: usize, threads: usize) -> String {
    if thread + 1 == threads { "admin".to_owned() } else { format!("shard-{thread}") }
}

impl Watchdog {
    /// True if a message is due; sets the time of the next one.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.due;
        if due {
            self.due = now + self.pause;
        }
        due
    }

    /// The first thread without a sign of life since the last call that returned none.
    fn silent(&mut self) -> Option<usize> {
        let counts = self.pulse.counts();
        let silent = counts.iter().zip(&self.seen).position(|(now, seen)| now <= seen);
        if silent.is_none() {
            self.seen = counts;
        }
        silent
    }
}

impl Supervisor {
    /// The supervisor of the environment, for a broker with this number of threads.
    pub(super) fn of_environment(threads: usize) -> Self {
        let limit = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
        Self { watchdog: limit.map(|limit| watchdog(threads, limit, Instant::now())) }
    }

    /// Watchdog messages, if the service manager requires them.
    pub(super) fn pulse(&self) -> Option<Arc<Pulse>> {
        self.watchdog.as_ref().map(|watchdog| watchdog.pulse.clone())
    }

    /// Time until the next message to the watchdog; none without one.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        self.watchdog.as_ref().map(|watchdog| watchdog.due.saturating_duration_since(now))
    }

    /// Sends a due message to the watchdog, unless one of the broker's threads does not respond.
    pub(super) fn keep_alive(&mut self, now: Instant) {
        let Some(watchdog) = &mut self.watchdog else { return };
        if !watchdog.is_due(now) {
            return;
        }
        match watchdog.silent() {
            None => notify(&[NotifyState::Watchdog]),
            Some(thread) => tracing::error!(
                thread = %watchdog.pulse.name(thread),
                "a thread does not respond; the watchdog gets no notification; SIGQUIT logs the broker's state and stops it"
            ),
        }
    }

    /// The broker serves, or serves again after a reload.
    pub(super) fn ready(&self) {
        notify(&[NotifyState::Ready]);
    }

    /// The broker reads its configuration again.
    pub(super) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => notify(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "cannot notify the service manager of the reload"),
        }
    }

    /// Tells the service manager that the broker stops.
    pub(super) fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }
}

fn watchdog(threads: usize, limit: Duration, now: Instant) -> Watchdog {
    // As sd_watchdog_enabled(3) recommends.
    let pause = limit / 2;
    let pulse = Arc::new(Pulse::new(threads, pause / BEATS));
    Watchdog { pause, due: now + pause, pulse, seen: vec![0; threads] }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify the service manager (NOTIFY_SOCKET)");
    }
}
