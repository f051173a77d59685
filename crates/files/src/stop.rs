//! The stop signal: raised once, seen by every shard and connection.

use std::sync::Arc;

use tokio::sync::watch;

/// A handle on the signal; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    raised: Arc<watch::Sender<bool>>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { raised: Arc::new(watch::Sender::new(false)) }
    }

    /// Raises the signal; it stays raised.
    pub(crate) fn raise(&self) {
        self.raised.send_replace(true);
    }

    /// Completes once the signal is raised, at once if it already is.
    pub(crate) async fn signalled(&self) {
        let mut raised = self.raised.subscribe();
        // `self` holds the sender, so the only way out is the signal.
        let _ = raised.wait_for(|raised| *raised).await;
    }
}
