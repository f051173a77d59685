//! Validation of configuration for the metadata: the broker's tables of keys, with Kafka's error
//! messages.

use levada_config::{
    BrokerConfig, ClientMetrics, ConfigError, ConfigType, TopicConfig, Values, Wrong, broker_default,
    broker_kind, check_client_metrics, check_group, is_client_metrics_key, is_group_key, topic_key,
};
use levada_metadata::controller::{ConfigRules, Reason, Refusal};
use levada_metadata::image::{ConfigResource, REMOTE_STORAGE, ResourceKind};

use crate::telemetry::check_patterns;
use crate::tls::Tls;

/// The rules of a broker with this configuration.
pub(crate) struct ByConfig<'a>(pub(crate) &'a BrokerConfig);

impl ConfigRules for ByConfig<'_> {
    fn check(&self, resource: &ConfigResource, values: &Values, before: &Values) -> Result<(), Refusal> {
        match resource.kind {
            ResourceKind::Topic => check_topic(self.0, values, before).map_err(invalid_config),
            ResourceKind::Broker => {
                self.0.check_dynamic(resource.name.is_empty(), values).map_err(invalid_request)?;
                check_tls(self.0, resource.name.is_empty(), values).map_err(invalid_request)
            }
            ResourceKind::Group => check_group(self.0, values).map_err(invalid_config),
            ResourceKind::ClientMetrics => check_subscription(values),
            ResourceKind::BrokerLogger => {
                Err(invalid_request("Log levels are not part of the metadata.".to_owned()))
            }
        }
    }

    fn is_supported(&self, resource: ResourceKind, key: &str) -> bool {
        match resource {
            ResourceKind::Topic => topic_key(key).is_some(),
            ResourceKind::Group => is_group_key(key),
            ResourceKind::ClientMetrics => is_client_metrics_key(key),
            ResourceKind::Broker | ResourceKind::BrokerLogger => true,
        }
    }

    fn is_list(&self, resource: ResourceKind, key: &str) -> Option<bool> {
        let kind = match resource {
            ResourceKind::Topic => topic_key(key).map(|topic| topic.key.kind),
            ResourceKind::Broker => broker_kind(key),
            // As in Kafka, whose controllers do not know the types of other keys.
            _ => None,
        };
        kind.map(|kind| kind == ConfigType::List)
    }

    fn default_value(&self, resource: ResourceKind, key: &str) -> Option<String> {
        // The value of the table, as in Kafka, independent of the configuration.
        let name = match resource {
            ResourceKind::Topic => topic_key(key)?.broker.first()?,
            _ => key,
        };
        broker_default(name).map(str::to_owned)
    }
}

/// Kafka's checks of a client metrics subscription. Kafka accepts every expression of Java; one
/// that this broker cannot compare with clients is refused as well.
fn check_subscription(values: &Values) -> Result<(), Refusal> {
    check_client_metrics(values).map_err(|wrong| match wrong {
        Wrong::Request(message) => invalid_request(message),
        Wrong::Config(message) => invalid_config(message),
    })?;
    check_patterns(&ClientMetrics::of(values)).map_err(|(pattern, reason)| {
        invalid_config(format!("Illegal client matching pattern: {pattern} ({reason})"))
    })
}

/// True if the listeners could use the keys and the trust stores that these values name; reads the
/// files.
fn check_tls(broker: &BrokerConfig, whole_cluster: bool, values: &Values) -> Result<(), String> {
    let concerns_tls = |name: &String| ["listener.name.", "ssl."].iter().any(|start| name.starts_with(start));
    if whole_cluster || !values.keys().any(concerns_tls) {
        return Ok(());
    }
    let changed = broker.with_own(values).map_err(|errors| errors.to_string())?;
    Tls::load(&changed, Tls::load(broker, None).ok().as_ref())
        .map(drop)
        .map_err(|error| format!("Validation of dynamic config update of SSLFactory failed: {error}"))
}

fn check_topic(broker: &BrokerConfig, values: &Values, before: &Values) -> Result<(), String> {
    if let Some(unknown) = values.keys().find(|key| topic_key(key).is_none()) {
        return Err(format!("Unknown topic config name: {unknown}"));
    }
    if let Some(refusal) = values.iter().find_map(|(name, value)| topic_key(name)?.key.refusal(value)) {
        return Err(refusal);
    }
    let config = TopicConfig::resolve(broker.settings(), values)
        .map_err(|error| in_kafkas_words(broker, values, &error))?;
    let was_tiered = before.get(REMOTE_STORAGE).is_some_and(|value| value == "true");
    config.check_tiers(was_tiered, broker.remote_log.is_enabled)
}

/// The message for an error that only names and values together show.
fn in_kafkas_words(broker: &BrokerConfig, values: &Values, error: &ConfigError) -> String {
    match error {
        ConfigError::Invalid { key, value, .. } if key == "min.compaction.lag.ms" => {
            let most = "max.compaction.lag.ms";
            let most_ms = values
                .get(most)
                .cloned()
                .unwrap_or_else(|| broker.topic_defaults.max_compaction_lag_ms.to_string());
            format!("conflict topic config setting {key} ({value}) > {most} ({most_ms})")
        }
        error => error.to_string(),
    }
}

fn invalid_config(message: String) -> Refusal {
    Refusal { reason: Reason::InvalidConfig, message: Some(message.into()) }
}

fn invalid_request(message: String) -> Refusal {
    Refusal { reason: Reason::InvalidRequest, message: Some(message.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_topics_and_brokers_append_to_lists() {
        let config = BrokerConfig::default();
        let broker = ByConfig(&config);
        assert_eq!(broker.is_list(ResourceKind::Topic, "cleanup.policy"), Some(true));
        assert_eq!(broker.is_list(ResourceKind::Broker, "log.cleanup.policy"), Some(true));
        for key in ["match", "metrics", "interval.ms"] {
            assert_eq!(broker.is_list(ResourceKind::ClientMetrics, key), None, "{key}");
        }
    }
}
