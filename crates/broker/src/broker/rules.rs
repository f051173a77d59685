//! Which topic configuration the metadata may hold: the broker's table of keys, in Kafka's words.

use std::collections::BTreeMap;

use crate::config::{BrokerConfig, ConfigType, TopicConfig, broker_key, topic_key};
use crate::metadata::controller::ConfigRules;
use crate::metadata::image::ResourceKind;

impl ConfigRules for BrokerConfig {
    fn check(&self, resource: ResourceKind, values: &BTreeMap<String, String>) -> Result<(), String> {
        if resource != ResourceKind::Topic {
            return Ok(());
        }
        if let Some(unknown) = values.keys().find(|key| topic_key(key).is_none()) {
            return Err(format!("Unknown topic config name: {unknown}"));
        }
        TopicConfig::resolve(self, values).map(drop).map_err(|error| error.to_string())
    }

    fn is_list(&self, resource: ResourceKind, key: &str) -> bool {
        let kind = match resource {
            ResourceKind::Topic => topic_key(key).map(|topic| topic.key.kind),
            _ => broker_key(key).map(|key| key.kind),
        };
        kind == Some(ConfigType::List)
    }

    fn default_value(&self, resource: ResourceKind, key: &str) -> Option<String> {
        match resource {
            ResourceKind::Topic => topic_key(key).map(|topic| self.settings().topic_default(topic)),
            _ => self.settings().text(key).map(str::to_owned),
        }
    }
}
