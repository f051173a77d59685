//! Values that follow from several keys, or from one key in an unusual way.

use std::path::{Path, PathBuf};

use super::{BrokerConfig, Listener, ListenerLimits, Settings};

impl BrokerConfig {
    /// The directory of the metadata log: `metadata.log.dir`, otherwise the first of `log.dirs`.
    pub fn metadata_dir(&self) -> &Path {
        let named = self.settings().text("metadata.log.dir").filter(|dir| !dir.is_empty()).map(Path::new);
        named.or(self.log_dirs.first().map(PathBuf::as_path)).unwrap_or(Path::new("."))
    }

    /// True if a listener's socket must not accept IPv4, because another listener uses the same
    /// port for it.
    pub fn is_v6_only(&self, listener: &Listener) -> bool {
        let same_port = |other: &&Listener| other.bind.port == listener.bind.port && other.bind.port != 0;
        self.listeners.iter().filter(same_port).any(|other| other.bind.is_v4() == Some(true))
    }

    /// Limits of a listener's connections.
    pub fn limits_of(&self, listener: &str) -> ListenerLimits {
        self.listener_limits.get(listener).copied().unwrap_or_default()
    }

    /// True if `levada.log.format` is `json`.
    pub fn logs_json(&self) -> bool {
        self.settings().text("levada.log.format") == Some("json")
    }

    /// `levada.audit.log`: a path or `stderr`.
    pub fn audit_log(&self) -> Option<&str> {
        self.settings().text("levada.audit.log").filter(|place| !place.is_empty())
    }

    /// True if a directory, as `log.dirs` names it, gets no new replicas.
    pub fn is_cordoned(&self, dir: &Path) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.cordoned.has(dir))
    }
}

impl Settings {
    /// The certificates that a listener requests from clients: `required`, `requested` or `none`.
    ///
    /// On a listener with SASL, which authenticates clients, certificates are requested only if the
    /// listener itself requires it (KIP-684).
    #[must_use]
    pub fn client_auth(&self, listener: &Listener) -> &str {
        const KEY: &str = "ssl.client.auth";
        let found = if listener.protocol.has_sasl() {
            self.own_listener_text(&listener.name, KEY)
        } else {
            self.listener_text(&listener.name, KEY)
        };
        found.unwrap_or("none")
    }
}
