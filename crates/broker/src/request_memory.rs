//! The memory of requests that are being received or processed (`queued.max.request.bytes`).
//! Received bytes count, claimed lengths do not. When the memory is used up, further requests wait
//! in the sockets.
//!
//! Incomplete requests could use up all of it, and none could ever be completed. Therefore one
//! request at a time may exceed the limit until it is complete ([`RequestMemory::room`]).
//!
//! Bytes that clients send before they have authenticated have a separate limit ([`Newcomers`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

pub(crate) mod newcomers;
#[cfg(test)]
mod tests;

pub(crate) use self::newcomers::{NewcomerShare, Newcomers};

/// Requests up to this size neither count nor wait: a connection keeps as much memory between its
/// requests.
pub(crate) const UNCOUNTED_BYTES: usize = 16 * 1024;

/// Memory of all connections together.
#[derive(Debug)]
pub(crate) struct RequestMemory {
    held_bytes: AtomicU64,
    freed: Notify,
    /// A semaphore with one permit: the right to exceed the limit.
    excess: Arc<Semaphore>,
    newcomers: Arc<Newcomers>,
}

/// A request's share of the memory, released when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    memory: Arc<RequestMemory>,
    bytes: u64,
    excess: Option<Excess>,
}

/// The right of one request to exceed the limit.
#[derive(Debug)]
pub(crate) struct Excess {
    _permit: OwnedSemaphorePermit,
}

impl Default for RequestMemory {
    fn default() -> Self {
        Self {
            held_bytes: AtomicU64::new(0),
            freed: Notify::new(),
            excess: Arc::new(Semaphore::new(1)),
            newcomers: Arc::default(),
        }
    }
}

impl RequestMemory {
    /// A share that holds no bytes yet.
    pub(crate) fn share(self: &Arc<Self>) -> Held {
        Held { memory: self.clone(), bytes: 0, excess: None }
    }

    /// True if more bytes may be received: less than the limit is in use. Received bytes may exceed
    /// the limit by one read.
    pub(crate) fn has_room(&self, limit_bytes: u64) -> bool {
        self.held_bytes.load(Ordering::Acquire) < limit_bytes
    }

    /// Waits until less than the limit is held, or until this request is the one that may exceed
    /// it.
    pub(crate) async fn room(&self, limit_bytes: u64) -> Option<Excess> {
        tokio::select! {
            biased;
            () = self.shrunk(limit_bytes) => None,
            permit = self.excess.clone().acquire_owned() => {
                let permit = permit.expect("the semaphore is never closed");
                Some(Excess { _permit: permit })
            }
        }
    }

    async fn shrunk(&self, limit_bytes: u64) {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // Before the check: memory that is returned after it is not missed.
            freed.as_mut().enable();
            if self.has_room(limit_bytes) {
                return;
            }
            freed.await;
        }
    }

    /// Bytes in use, those of unauthenticated clients included.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed) + self.newcomers.held_bytes()
    }

    /// Bytes from clients that have not authenticated.
    pub(crate) fn newcomers(&self) -> &Arc<Newcomers> {
        &self.newcomers
    }
}

impl Held {
    /// Updates the number of received bytes.
    pub(crate) fn grow_to(&mut self, bytes: usize) {
        let bytes = (bytes as u64).max(self.bytes);
        self.memory.held_bytes.fetch_add(bytes - self.bytes, Ordering::AcqRel);
        self.bytes = bytes;
    }

    /// Acquires the right to exceed the limit.
    pub(crate) fn may_exceed(&mut self, excess: Excess) {
        self.excess = Some(excess);
    }

    /// True if it has the right to exceed the limit.
    pub(crate) fn exceeds(&self) -> bool {
        self.excess.is_some()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let held = self.memory.held_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        assert!(held >= self.bytes, "{} bytes are given back of {held}", self.bytes);
        self.memory.freed.notify_waiters();
    }
}
