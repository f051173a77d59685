//! The stop signal: raised once, and visible to every listener, shard and waiting request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Time that a stopping broker waits for requests in flight.
const GRACE: Duration = Duration::from_secs(5);

/// A handle on the stop signal; clones share it.
#[derive(Clone, Debug)]
pub struct Stop {
    raised: Arc<watch::Sender<bool>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// A signal that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self { raised: Arc::new(watch::Sender::new(false)) }
    }

    /// Raises the signal; it stays raised.
    pub fn raise(&self) {
        self.raised.send_replace(true);
    }

    /// Completes once the signal is raised, immediately if it already is.
    pub async fn signalled(&self) {
        let mut raised = self.raised.subscribe();
        // `self` holds the sender, so the only way out is the signal.
        let _ = raised.wait_for(|raised| *raised).await;
    }

    /// The time for which requests in flight may continue.
    pub fn grace(&self) -> Duration {
        GRACE
    }
}
