//! Fetches that wait for data, woken when a partition changes.
//!
//! A waiter registers with each of its partitions, checks again, and sleeps. A change of any of
//! them (an append, a move of the last stable offset, a truncation, a deletion) wakes it. If the
//! next check still finds too little, it registers and sleeps again. A wake-up is only a hint.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;

/// Number of waiters for which a partition keeps memory when there are none; memory for more is
/// released.
const KEPT: usize = 64;

/// The waiters of one partition.
#[derive(Default)]
pub(crate) struct Waiters {
    /// Mirrors the slab's length, so that an append without waiters takes no lock.
    count: AtomicUsize,
    sleeping: Mutex<Slab<Arc<Notify>>>,
}

impl Waiters {
    /// Registers `sleeper` until the returned guard is dropped.
    ///
    /// Register first, then check the partition, then sleep: a change between the check and the
    /// sleep leaves its permit in the [`Notify`].
    pub(crate) fn register(self: &Arc<Self>, sleeper: &Arc<Notify>) -> Registration {
        let mut sleeping = self.sleeping.lock();
        let key = sleeping.insert(sleeper.clone());
        self.count.store(sleeping.len(), Ordering::SeqCst);
        Registration { waiters: self.clone(), key }
    }

    /// Wakes all waiters of this partition.
    pub(crate) fn wake(&self) {
        self.wake_if(|_| true);
    }

    /// Wakes all waiters of this partition but one.
    pub(crate) fn wake_others(&self, but: &Arc<Notify>) {
        self.wake_if(|sleeper| !Arc::ptr_eq(sleeper, but));
    }

    fn wake_if(&self, is_meant: impl Fn(&Arc<Notify>) -> bool) {
        // Pairs with the store in `register`: the log's new end is published before this load, the
        // registration before the sleeper's second look, so one of the two sees the other.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let sleeping = self.sleeping.lock();
        sleeping
            .iter()
            .map(|(_, sleeper)| sleeper)
            .filter(|one| is_meant(one))
            .for_each(|one| one.notify_one());
    }
}

/// Keeps a waiter registered with one partition.
pub(crate) struct Registration {
    waiters: Arc<Waiters>,
    key: usize,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut sleeping = self.waiters.sleeping.lock();
        sleeping.remove(self.key);
        if sleeping.is_empty() && sleeping.capacity() > KEPT {
            *sleeping = Slab::new();
        }
        self.waiters.count.store(sleeping.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
