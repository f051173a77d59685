//! The configuration in force: read without a lock, replaced as a whole by a dynamic change.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;

use levada_config::BrokerConfig;

/// The configuration of the running broker.
pub(crate) struct LiveConfig {
    current: ArcSwap<BrokerConfig>,
    changed: watch::Sender<()>,
}

impl LiveConfig {
    pub(crate) fn new(config: BrokerConfig) -> Self {
        Self { current: ArcSwap::from_pointee(config), changed: watch::Sender::new(()) }
    }

    /// The current configuration; a dynamic change replaces it.
    pub(crate) fn load(&self) -> Guard<Arc<BrokerConfig>> {
        self.current.load()
    }

    /// Changes of the configuration from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Replaces the configuration and wakes all that wait for a change.
    pub(crate) fn replace(&self, config: BrokerConfig) {
        self.current.store(Arc::new(config));
        self.changed.send_replace(());
    }
}
