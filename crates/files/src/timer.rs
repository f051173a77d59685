//! One timer for all waits of a connection. It is reset when it fires or would fire too late, not
//! for every wait.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The timer for the deadlines of a connection.
#[derive(Debug)]
pub(crate) struct Timer {
    sleep: Pin<Box<Sleep>>,
    deadline: Instant,
}

impl Timer {
    pub(crate) fn new(limit: Duration) -> Self {
        let deadline = Instant::now() + limit;
        Self { sleep: Box::pin(tokio::time::sleep_until(deadline)), deadline }
    }

    /// Sets the end of the next wait.
    pub(crate) fn until(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if self.sleep.deadline() > deadline {
            self.sleep.as_mut().reset(deadline);
        }
    }

    /// Ready when the deadline has passed.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.sleep.as_mut().poll(context).is_ready() {
            if Instant::now() >= self.deadline {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(self.deadline);
        }
        Poll::Pending
    }
}
