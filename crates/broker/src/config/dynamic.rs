//! What was set while the broker ran: the two layers above flags, environment and file. The metadata keeps
//! them; here they are checked, laid over the rest, and turned into a configuration.

use std::collections::BTreeMap;

use super::{BrokerConfig, ConfigErrors, Dynamic, Origin, foreign, table::broker_key};

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

    /// Whether one of the dynamic layers may become these values, `whole_cluster` telling which; the error is
    /// Kafka's sentence. A name that nobody knows is allowed, as in Kafka: plug-ins have keys of their own.
    pub(crate) fn check_dynamic(&self, whole_cluster: bool, values: &Values) -> Result<(), String> {
        let fixed: Vec<&str> = values.keys().map(String::as_str).filter(|name| !may_change(name)).collect();
        if !fixed.is_empty() {
            return Err(format!("Cannot update these configs dynamically: [{}]", fixed.join(", ")));
        }
        if let Some(refusal) = values.iter().find_map(|(name, value)| broker_key(name)?.refusal(value)) {
            return Err(refusal);
        }
        let DynamicLayers { own, cluster } = self.settings().dynamic();
        let (own, cluster) = if whole_cluster { (own, values) } else { (values, cluster) };
        self.with_dynamic(own, cluster).map(drop).map_err(|errors| errors.to_string())
    }
}

fn usable(values: &Values) -> Values {
    let mut usable = Values::new();
    for (name, value) in values {
        match broker_key(name) {
            Some(key) if key.dynamic == Dynamic::ReadOnly => {
                tracing::error!(key = name, "a stored value of a key that only a restart changes is ignored");
            }
            Some(key) => match key.normalise(value) {
                Some(value) => drop(usable.insert(name.clone(), value)),
                None => tracing::error!(key = name, value, "a stored value that is not allowed is ignored"),
            },
            None => drop(usable.insert(name.clone(), value.clone())),
        }
    }
    usable
}

fn may_change(name: &str) -> bool {
    match broker_key(name) {
        Some(key) => key.dynamic != Dynamic::ReadOnly,
        None => foreign::may_change(name),
    }
}
