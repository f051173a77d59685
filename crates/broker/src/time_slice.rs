//! Slices of long work on a shard's thread, between which the thread's other tasks run.

use std::time::{Duration, Instant};

/// Time that work may keep a shard's thread before it yields.
const LENGTH: Duration = Duration::from_millis(1);

/// The time for which a piece of work has used the thread without a pause.
pub(crate) struct TimeSlice(Instant);

impl TimeSlice {
    /// Begins a slice.
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Lets the other tasks of the thread run if the slice is over, and begins the next one.
    pub(crate) async fn yield_if_over(&mut self) {
        if self.0.elapsed() > LENGTH {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn begun(age: Duration) -> TimeSlice {
        TimeSlice(Instant::now().checked_sub(age).expect("a machine that has run so long"))
    }

    /// True if the work yields the thread, once.
    fn yields(slice: &mut TimeSlice) -> bool {
        let mut turn = pin!(slice.yield_if_over());
        let mut context = Context::from_waker(Waker::noop());
        let pending = turn.as_mut().poll(&mut context).is_pending();
        assert!(!pending || turn.as_mut().poll(&mut context).is_ready());
        pending
    }

    #[test]
    fn expired_time_slice_yields_to_other_tasks() {
        const MINUTE: Duration = Duration::from_secs(60);
        assert!(!yields(&mut begun(Duration::ZERO)));
        let mut over = begun(LENGTH + MINUTE);
        assert!(yields(&mut over));
        assert!(over.0.elapsed() < MINUTE, "the next slice begins after the pause");
    }
}
