//! The time that a thread spends on a request, without the time in which the request waits, and the
//! quota that it counts against. The longest time for which a request waits.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::api::Context;
use crate::quota::Used;

/// The meter of one request. A request that does not wait costs one reading of the clock in
/// addition to the first.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Start of the first step; none after it.
    begun: Cell<Option<Instant>>,
    /// End of the last step.
    ended: Cell<Instant>,
    busy: Cell<Duration>,
}

impl Meter {
    /// The meter of a request that has arrived at this time, and is answered at once.
    pub(crate) fn new(received: Instant) -> Self {
        Self { begun: Cell::new(Some(received)), ended: Cell::new(received), busy: Cell::default() }
    }

    /// Measures the steps of `work`.
    pub(crate) async fn measure<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            let begun = self.begun.take().unwrap_or_else(Instant::now);
            let polled = work.as_mut().poll(context);
            let ended = Instant::now();
            self.ended.set(ended);
            self.busy.set(self.busy.get() + ended.duration_since(begun));
            polled
        })
        .await
    }

    /// Time in which this thread was busy with the request.
    pub(crate) fn busy(&self) -> Duration {
        self.busy.get()
    }

    /// End of the last step.
    pub(crate) fn ended(&self) -> Instant {
        self.ended.get()
    }
}

impl Context {
    /// Time for which a request with this timeout waits: no longer than a connection may be idle. A
    /// client that is gone, unnoticed, then keeps its connection no longer than that.
    pub(super) fn patience(&self, timeout_ms: i32) -> Duration {
        let timeout = Duration::from_millis(u64::from(timeout_ms.max(0).unsigned_abs()));
        self.broker().config().connections_max_idle.map_or(timeout, |idle| timeout.min(idle))
    }

    /// Notes that the request waits for other clients from now on, so it ends when its own client
    /// disconnects. Until then it runs to its end, whatever it waits for.
    pub(super) fn wait_for_others(&self) {
        self.waits.set(true);
    }

    /// True once the request waits for other clients.
    pub(crate) fn waits_for_others(&self) -> bool {
        self.waits.get()
    }

    /// The time that another thread was busy with the request.
    pub(crate) fn spent_elsewhere(&self) -> Duration {
        self.spent_elsewhere.get()
    }

    /// Notes that another broker has sent the request, or that it has no answer: as in Kafka, its
    /// time counts against no quota.
    pub(super) fn exempt_time(&self) {
        self.is_exempt.set(true);
    }

    /// Books the time that threads were busy with the request; returns the time for which the
    /// connection is to be muted.
    pub(crate) fn book_time(&self, spent: Duration) -> Duration {
        if self.is_exempt.get() {
            return Duration::ZERO;
        }
        self.broker().quotas().book(Used::Time, self.client(), spent.as_secs_f64() * 100.0)
    }
}

#[cfg(test)]
mod tests;
