//! The table of the coordinators of one topic, and the clock that wakes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use levada_process::clock::steady_ms;

/// Time of a coordinator's next alarm, by the monotonic clock; the clock reads it without the
/// coordinator's lock.
pub(crate) struct Due {
    /// Time of the next step, ms; `i64::MAX` for never.
    at_ms: AtomicI64,
    alarm: Arc<Notify>,
}

impl Due {
    /// Never; `alarm` wakes the clock when that changes.
    pub(crate) fn never(alarm: Arc<Notify>) -> Self {
        Self { at_ms: AtomicI64::new(i64::MAX), alarm }
    }

    /// Sets the time; the clock is woken if it would sleep for too long.
    pub(crate) fn set(&self, at_ms: Option<i64>) {
        let at_ms = at_ms.unwrap_or(i64::MAX);
        if at_ms < self.at_ms.swap(at_ms, Ordering::AcqRel) {
            self.alarm.notify_one();
        }
    }

    fn at_ms(&self) -> i64 {
        self.at_ms.load(Ordering::Acquire)
    }
}

/// The coordinators of one topic: one for each partition, none before the topic exists. The topic's
/// number of partitions, not the configured number, decides which coordinator a key belongs to.
pub(crate) struct Slots<T> {
    slots: ArcSwap<Vec<Arc<T>>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: ArcSwap::default() }
    }
}

impl<T> Slots<T> {
    /// All entries, in the order of the partitions.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<T>>> {
        self.slots.load_full()
    }

    /// The entry of one partition.
    pub(crate) fn at(&self, index: i32) -> Option<Arc<T>> {
        usize::try_from(index).ok().and_then(|index| self.slots.load().get(index).cloned())
    }

    /// Number of partitions.
    pub(crate) fn count(&self) -> i32 {
        i32::try_from(self.slots.load().len()).expect("partitions are numbered with 32 bits")
    }

    /// Creates the missing coordinators up to this number of partitions, and returns the previous
    /// number. Must not run concurrently with another change.
    pub(crate) fn provide(&self, count: usize, make: impl Fn() -> T) -> usize {
        let mut slots = Vec::clone(&self.slots.load());
        let before = slots.len();
        if before < count {
            slots.resize_with(count, || Arc::new(make()));
            self.slots.store(Arc::new(slots));
        }
        before
    }

    /// Removes and returns all entries. Not at the same time as another change.
    pub(crate) fn take(&self) -> Arc<Vec<Arc<T>>> {
        self.slots.swap(Arc::default())
    }
}

/// Calls `tick` for each of `slots` whenever it is due. Sleeps while none is; never returns.
pub(crate) async fn run_clock<T>(
    slots: &Slots<T>,
    alarm: &Notify,
    due: impl Fn(&T) -> &Due,
    tick: impl Fn(&Arc<T>),
) {
    loop {
        let slots = slots.all();
        let next_ms = slots.iter().map(|slot| due(slot).at_ms()).min();
        let now = steady_ms();
        match next_ms.filter(|next_ms| *next_ms < i64::MAX) {
            None => alarm.notified().await,
            Some(next_ms) if next_ms > now => {
                let pause = Duration::from_millis((next_ms - now).unsigned_abs());
                // Woken early or not: look again.
                let _ = tokio::time::timeout(pause, alarm.notified()).await;
            }
            Some(_) => {
                slots.iter().filter(|slot| due(slot).at_ms() <= now).for_each(&tick);
                // Other tasks of the thread get their turn.
                tokio::task::yield_now().await;
            }
        }
    }
}
