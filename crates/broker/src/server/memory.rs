//! The memory of requests that are coming in or being answered (`queued.max.request.bytes`): when it is used up, the rest waits in the
//! sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

#[cfg(test)]
mod tests;

/// What all connections hold together.
#[derive(Debug, Default)]
pub(crate) struct RequestMemory {
    held_bytes: AtomicU64,
    freed: Notify,
}

/// One request's share, given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    memory: Arc<RequestMemory>,
    bytes: u64,
}

impl RequestMemory {
    /// Takes `bytes` as soon as less than `limit_bytes` are held; so no request is too large for a limit, and together they exceed it by no
    /// more than one. Without a limit nothing is counted.
    pub(crate) async fn take(self: &Arc<Self>, bytes: u64, limit_bytes: Option<u64>) -> Option<Held> {
        let limit_bytes = limit_bytes?;
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // Before the look: what is given back after it is not missed.
            freed.as_mut().enable();
            if let Some(held) = self.try_take(bytes, limit_bytes) {
                return Some(held);
            }
            freed.await;
        }
    }

    fn try_take(self: &Arc<Self>, bytes: u64, limit_bytes: u64) -> Option<Held> {
        let more = |held: u64| (held < limit_bytes).then_some(held.saturating_add(bytes));
        let taken = self.held_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.is_ok().then(|| Held { memory: self.clone(), bytes })
    }

    /// Bytes held at the moment.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.held_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.memory.freed.notify_waiters();
    }
}
