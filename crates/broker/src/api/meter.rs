//! The time that a thread spends on a request, without the time in which the request waits.

use std::cell::Cell;
use std::time::{Duration, Instant};

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

#[cfg(test)]
mod tests;
