//! The two layers of dynamic values above flags, environment and file.

use std::collections::BTreeMap;

use super::Origin;

/// Keys and values as the metadata has them.
pub type Values = BTreeMap<String, String>;

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
