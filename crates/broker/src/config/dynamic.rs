//! What was set while the broker ran: the two layers above flags, environment and file. The metadata keeps
//! them; here they are checked, laid over the rest, and turned into a configuration.

use std::collections::BTreeMap;

use super::{BrokerConfig, ConfigErrors, Dynamic, Key, Origin, foreign, prefix};

/// Keys and values as the metadata has them.
pub(crate) type Values = BTreeMap<String, String>;

/// The dynamic layers: one broker's own values over those of the whole cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct DynamicLayers {
    pub(super) own: Values,
    pub(super) cluster: Values,
}

impl DynamicLayers {
    /// The value in force, if one of the layers has the key.
    pub(super) fn find(&self, name: &str) -> Option<(&str, &'static Origin)> {
        let own = self.own.get(name).map(|value| (value.as_str(), &Origin::DynamicBroker));
        own.or_else(|| self.cluster.get(name).map(|value| (value.as_str(), &Origin::DynamicCluster)))
    }
}

impl BrokerConfig {
    /// This configuration with other dynamic layers: `own` of this broker, `cluster` of all. Values that the table does
    /// not allow, left by other software, are logged and count as not set.
    pub(crate) fn with_dynamic(&self, own: &Values, cluster: &Values) -> Result<Self, ConfigErrors> {
        let layers = DynamicLayers { own: usable(own), cluster: usable(cluster) };
        Self::from_settings(self.settings().with_dynamic(layers))
    }

    /// This configuration with other values of its own broker.
    pub(crate) fn with_own(&self, own: &Values) -> Result<Self, ConfigErrors> {
        self.with_dynamic(own, &self.settings().dynamic().cluster)
    }

    /// Whether one of the dynamic layers may become these values, `whole_cluster` telling which; the error is
    /// Kafka's sentence. A name that nobody knows is allowed, as in Kafka: plug-ins have keys of their own.
    pub(crate) fn check_dynamic(&self, whole_cluster: bool, values: &Values) -> Result<(), String> {
        let those = |which: &dyn Fn(&str) -> bool, message: &str| {
            let those: Vec<&str> = values.keys().map(String::as_str).filter(|name| which(name)).collect();
            if those.is_empty() { Ok(()) } else { Err(format!("{message}: [{}]", those.join(", "))) }
        };
        let per_listener =
            |name: &str| prefix::row(name).is_some_and(|key| key.dynamic == Dynamic::PerListener);
        those(&is_fixed, "Cannot update these configs dynamically")?;
        those(
            &|name| per_listener(name) && !prefix::is_prefixed(name),
            "These security configs can be dynamically updated only per-listener using the listener prefix",
        )?;
        if let Some(refusal) = values.iter().find_map(|(name, value)| prefix::row(name)?.refusal(value)) {
            return Err(refusal);
        }
        if whole_cluster {
            those(&per_listener, "Cannot update these configs at default cluster level, must be per-broker")?;
        }
        let DynamicLayers { own, cluster } = self.settings().dynamic();
        let (own, cluster) = if whole_cluster { (own, values) } else { (values, cluster) };
        self.with_dynamic(own, cluster).map(drop).map_err(|errors| errors.to_string())
    }
}

fn usable(values: &Values) -> Values {
    let mut usable = Values::new();
    for (name, value) in values {
        match prefix::row(name) {
            Some(key) if !may_change(name, key) => {
                tracing::error!(key = name, "a stored value of a key that only a restart changes is ignored");
            }
            Some(key) => match key.normalise(value) {
                Some(value) => drop(usable.insert(name.clone(), value)),
                None => tracing::error!(
                    key = name,
                    value = key.shown(value),
                    "a stored value that is not allowed is ignored"
                ),
            },
            None => drop(usable.insert(name.clone(), value.clone())),
        }
    }
    usable
}

/// Whether only a restart changes what this name stands for. That a listener's key needs its prefix is said apart.
fn is_fixed(name: &str) -> bool {
    match prefix::row(name) {
        Some(key) => key.dynamic == Dynamic::ReadOnly,
        None => !foreign::may_change(name),
    }
}

/// Whether a dynamic layer may set `key` under this name.
pub(super) fn may_change(name: &str, key: &Key) -> bool {
    match key.dynamic {
        Dynamic::ReadOnly => false,
        Dynamic::PerListener => prefix::is_prefixed(name),
        Dynamic::ClusterWide => true,
    }
}
