//! The table of the coordinators of one topic, and the clock that wakes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use crate::clock::steady_ms;

/// When a coordinator wants to be stepped, by the steady clock; read by the clock without the coordinator's lock.
pub(crate) struct Due {
    /// `i64::MAX` for never.
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

/// The coordinators that live in the partitions of one topic: as many as it has partitions, none before it exists. Their number decides
/// which of them a group or a transactional id belongs to, so it is the topic's, whatever the configuration says.
pub(crate) struct Seats<T> {
    seats: ArcSwap<Vec<Arc<T>>>,
}

impl<T> Default for Seats<T> {
    fn default() -> Self {
        Self { seats: ArcSwap::default() }
    }
}

impl<T> Seats<T> {
    /// All of them, in the order of the partitions.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<T>>> {
        self.seats.load_full()
    }

    /// That of one partition.
    pub(crate) fn at(&self, index: i32) -> Option<Arc<T>> {
        usize::try_from(index).ok().and_then(|index| self.seats.load().get(index).cloned())
    }

    /// Where `partition_for` puts a key among so many partitions; none while there are none.
    pub(crate) fn place(&self, partition_for: impl FnOnce(i32) -> i32) -> Option<i32> {
        let count = i32::try_from(self.seats.load().len()).expect("partitions are numbered with 32 bits");
        (count > 0).then(|| partition_for(count))
    }

    /// Makes those that are missing for so many partitions, and says how many there were before. Not at the same time as another change.
    pub(crate) fn provide(&self, count: usize, make: impl Fn() -> T) -> usize {
        let mut seats = Vec::clone(&self.seats.load());
        let before = seats.len();
        if before < count {
            seats.resize_with(count, || Arc::new(make()));
            self.seats.store(Arc::new(seats));
        }
        before
    }

    /// Takes all of them out. Not at the same time as another change.
    pub(crate) fn take(&self) -> Arc<Vec<Arc<T>>> {
        self.seats.swap(Arc::default())
    }
}

/// Calls `tick` for each of `seats` whenever it is due. Sleeps while none is; never returns.
pub(crate) async fn run_clock<T>(
    seats: &Seats<T>,
    alarm: &Notify,
    due: impl Fn(&T) -> &Due,
    tick: impl Fn(&Arc<T>),
) {
    loop {
        let seats = seats.all();
        let next_ms = seats.iter().map(|seat| due(seat).at_ms()).min();
        let now = steady_ms();
        match next_ms.filter(|next_ms| *next_ms < i64::MAX) {
            None => alarm.notified().await,
            Some(next_ms) if next_ms > now => {
                let pause = Duration::from_millis((next_ms - now).unsigned_abs());
                // Woken early or not: look again.
                let _ = tokio::time::timeout(pause, alarm.notified()).await;
            }
            Some(_) => {
                seats.iter().filter(|seat| due(seat).at_ms() <= now).for_each(&tick);
                // Whatever else the thread does gets its turn.
                tokio::task::yield_now().await;
            }
        }
    }
}
