//! Settings of topics, brokers and groups: fetched, changed, and shown with the origin of each
//! value.

use std::collections::BTreeMap;

use levada_client::Cluster;
use levada_config::{without_effect, without_effect_on_broker};
use levada_terminal::failure::Failure;
use levada_wire::StrBytes;
use levada_wire::messages::describe_configs_request::DescribeConfigsResource;
use levada_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use levada_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use levada_wire::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use serde::Serialize;

use crate::{kafka_error, output, sizes, time};

/// Kinds of resources with settings, numbered as in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Topic = 2,
    Broker = 4,
    ClientMetrics = 16,
    Group = 32,
}

/// A resource with settings. A broker's name is its number, or empty for all brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

/// A key with its value in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Setting {
    pub(crate) key: String,
    /// `None` if it is unset or hidden.
    pub(crate) value: Option<String>,
    pub(crate) source: String,
    pub(crate) read_only: bool,
    pub(crate) sensitive: bool,
    /// Every layer that gives the key a value, the layer in force first.
    pub(crate) synonyms: Vec<Synonym>,
}

/// One layer that gives a key a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Synonym {
    key: String,
    value: Option<String>,
    source: String,
}

/// Change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Set(String, String),
    Delete(String),
    /// More entries of a list.
    Append(String, String),
    /// Fewer entries of a list.
    Subtract(String, String),
}

/// Source of values that are not set.
const DEFAULT: &str = "default";

impl Setting {
    fn new(described: DescribeConfigsResourceResult) -> Self {
        let text = |value: Option<StrBytes>| value.map(|value| value.as_str().to_owned());
        let synonyms = described.synonyms.into_iter().map(|one| Synonym {
            key: one.name.as_str().to_owned(),
            value: text(one.value),
            source: source(one.source),
        });
        Self {
            key: described.name.as_str().to_owned(),
            value: text(described.value),
            source: source(described.config_source),
            read_only: described.read_only,
            sensitive: described.is_sensitive,
            synonyms: synonyms.collect(),
        }
    }

    /// True if the value is a default.
    pub(crate) fn is_default(&self) -> bool {
        self.source == DEFAULT
    }

    /// Key, value and source as a table shows them.
    pub(crate) fn row(&self) -> Vec<String> {
        let value = match &self.value {
            Some(value) => value.clone(),
            None if self.sensitive => "(hidden)".to_owned(),
            None => output::NOTHING.to_owned(),
        };
        vec![self.key.clone(), value, self.source.clone()]
    }
}

/// The header over [`Setting::row`].
pub(crate) const HEADER: [&str; 3] = ["KEY", "VALUE", "SOURCE"];

/// The settings of one resource by key: the named ones, or all.
pub(crate) fn describe(
    cluster: &mut Cluster,
    resource: &Resource,
    keys: &[String],
) -> Result<Vec<Setting>, Failure> {
    let mut asked = DescribeConfigsResource::default();
    asked.resource_type = resource.kind as i8;
    asked.resource_name = StrBytes::from(resource.name.as_str());
    let keys: Vec<StrBytes> = keys.iter().map(|key| StrBytes::from(key.as_str())).collect();
    asked.configuration_keys = Some(keys).filter(|keys| !keys.is_empty());
    let mut request = DescribeConfigsRequest::default();
    request.resources = vec![asked];
    request.include_synonyms = true;
    let response = match resource.node()? {
        Some(node) => cluster.open_broker(node)?.request(&request)?,
        None => cluster.ask(&request)?,
    };
    let Some(result) = response.results.into_iter().next() else { return Ok(Vec::new()) };
    let doing = format!("settings of {}", resource.shown());
    let checked = kafka_error::check(result.error_code, &doing, result.error_message.as_deref());
    kafka_error::needing(checked, "describe-configs", &resource.option())?;
    let mut settings: Vec<Setting> = result.configs.into_iter().map(Setting::new).collect();
    settings.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(settings)
}

/// Number of topics of one DescribeConfigs.
const TOPICS_PER_REQUEST: usize = 500;

/// Some settings of many topics, by topic.
///
/// # Errors
/// One of the topics may not be described.
pub(crate) fn of_topics(
    cluster: &mut Cluster,
    topics: &[&str],
    keys: &[&str],
) -> Result<BTreeMap<String, Vec<Setting>>, Failure> {
    let mut settings = BTreeMap::new();
    for result in raw_of_topics(cluster, topics, keys)? {
        let name = result.resource_name.as_str().to_owned();
        let doing = format!("settings of topic {name}");
        let checked = kafka_error::check(result.error_code, &doing, result.error_message.as_deref());
        kafka_error::needing(checked, "describe-configs", &format!("--topic {name}"))?;
        settings.insert(name, result.configs.into_iter().map(Setting::new).collect());
    }
    Ok(settings)
}

/// The results of a broker about settings of many topics; some may be refusals.
pub(crate) fn raw_of_topics(
    cluster: &mut Cluster,
    topics: &[&str],
    keys: &[&str],
) -> Result<Vec<DescribeConfigsResult>, Failure> {
    let mut results = Vec::new();
    for topics in topics.chunks(TOPICS_PER_REQUEST) {
        let resource = |name: &&str| {
            let mut resource = DescribeConfigsResource::default();
            (resource.resource_type, resource.resource_name) = (Kind::Topic as i8, StrBytes::from(*name));
            resource.configuration_keys = Some(keys.iter().map(|key| StrBytes::from(*key)).collect());
            resource
        };
        let mut request = DescribeConfigsRequest::default();
        request.resources = topics.iter().map(resource).collect();
        results.extend(cluster.ask(&request)?.results);
    }
    Ok(results)
}

/// Changes settings of one resource, all or none; or only checks if the change is possible.
pub(crate) fn alter(
    cluster: &mut Cluster,
    resource: &Resource,
    changes: &[Change],
    dry_run: bool,
) -> Result<(), Failure> {
    let mut asked = AlterConfigsResource::default();
    asked.resource_type = resource.kind as i8;
    asked.resource_name = StrBytes::from(resource.name.as_str());
    asked.configs = changes.iter().map(Change::asked).collect();
    let mut request = IncrementalAlterConfigsRequest::default();
    request.resources = vec![asked];
    request.validate_only = dry_run;
    let response = match resource.node()? {
        Some(node) => cluster.open_broker(node)?.request(&request)?,
        None => cluster.ask(&request)?,
    };
    let doing = format!("change settings of {}", resource.shown());
    let mut results = response.responses.iter();
    let checked =
        results.try_for_each(|one| kafka_error::check(one.error_code, &doing, one.error_message.as_deref()));
    kafka_error::needing(checked, "alter-configs", &resource.option())
}

/// A key that Levada's brokers and topics have, and Kafka's have not.
const LEVADAS: &str = "levada.ack.durability";

/// The key that distinguishes a broker of a cluster from one without a cluster.
const ROLES: &str = "process.roles";

/// Prints the keys that the broker stores and shows but does not use. Prints nothing for a broker
/// of Kafka, which may use them, or if the caller has no permission to ask.
pub(crate) fn tell_idle<'k>(cluster: &mut Cluster, resource: &Resource, keys: impl Iterator<Item = &'k str>) {
    let reason = |key: &str, is_alone| match resource.kind {
        Kind::Broker => without_effect_on_broker(key, is_alone),
        Kind::Topic | Kind::Group | Kind::ClientMetrics => without_effect(key).map(str::to_owned),
    };
    let idle: Vec<&str> = keys.filter(|key| reason(key, true).is_some()).collect();
    if idle.is_empty() {
        return;
    }
    let described = resource
        .witness(cluster)
        .and_then(|witness| describe(cluster, &witness, &[LEVADAS.to_owned(), ROLES.to_owned()]));
    let described = described.unwrap_or_default();
    let value = |key: &str| described.iter().find(|one| one.key == key).and_then(|one| one.value.as_deref());
    if value(LEVADAS).is_none() {
        return;
    }
    let is_alone = value(ROLES) != Some("broker");
    for key in idle {
        if let Some(reason) = reason(key, is_alone) {
            tell!("note: {key} is stored, but has no effect: {reason}");
        }
    }
}

impl Resource {
    pub(crate) fn topic(name: &str) -> Self {
        Self { kind: Kind::Topic, name: name.to_owned() }
    }

    /// The resource in a sentence.
    pub(crate) fn shown(&self) -> String {
        match self.kind {
            Kind::Topic => format!("topic {}", self.name),
            Kind::Group => format!("group {}", self.name),
            Kind::ClientMetrics => format!("client metrics subscription {}", self.name),
            Kind::Broker if self.name.is_empty() => "all brokers".to_owned(),
            Kind::Broker => format!("broker {}", self.name),
        }
    }

    /// A resource whose settings identify the program: the topic itself, or a broker.
    fn witness(&self, cluster: &mut Cluster) -> Result<Self, Failure> {
        if self.kind == Kind::Topic || self.node()?.is_some() {
            return Ok(self.clone());
        }
        let name = cluster.brokers()?.first().map(i32::to_string).unwrap_or_default();
        Ok(Self { kind: Kind::Broker, name })
    }

    /// The option of `levada acl` that names the resource.
    fn option(&self) -> String {
        match self.kind {
            Kind::Topic => format!("--topic {}", self.name),
            Kind::Group => format!("--group {}", self.name),
            Kind::Broker | Kind::ClientMetrics => "--cluster".to_owned(),
        }
    }

    /// The only broker, if there is only one.
    fn node(&self) -> Result<Option<i32>, Failure> {
        let expected = || Failure::Usage(format!("{}: expected a broker's number, or default", self.name));
        match self.kind {
            Kind::Broker if !self.name.is_empty() => Ok(Some(self.name.parse().map_err(|_| expected())?)),
            _ => Ok(None),
        }
    }
}

impl Change {
    /// The key that changes.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Set(key, _) | Self::Append(key, _) | Self::Subtract(key, _) | Self::Delete(key) => key,
        }
    }

    fn asked(&self) -> AlterableConfig {
        let (operation, key, value) = match self {
            Self::Set(key, value) => (0, key, Some(value)),
            Self::Delete(key) => (1, key, None),
            Self::Append(key, value) => (2, key, Some(value)),
            Self::Subtract(key, value) => (3, key, Some(value)),
        };
        let mut asked = AlterableConfig::default();
        asked.name = StrBytes::from(key.as_str());
        asked.config_operation = operation;
        asked.value = value.map(|value| StrBytes::from(value.as_str()));
        asked
    }
}

/// Reads `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), in_basic_unit(key, value))),
        _ => Err("expected KEY=VALUE, such as retention.ms=7d".to_owned()),
    }
}

/// Converts a duration such as 7d for a key in milliseconds, and a size such as 10GiB for a key in
/// bytes. The broker checks everything else.
pub(crate) fn in_basic_unit(key: &str, value: &str) -> String {
    let key = key.trim_end_matches(['+', '-']);
    if value.parse::<f64>().is_ok() {
        return value.to_owned();
    }
    let read = if key.ends_with(".ms") {
        time::duration(value).ok().map(|milliseconds| milliseconds.to_string())
    } else if is_in_bytes(key) {
        sizes::bytes(value).ok().map(|bytes| bytes.to_string())
    } else {
        None
    };
    read.unwrap_or_else(|| value.to_owned())
}

/// True for keys of sizes, and of rates in bytes per second.
fn is_in_bytes(key: &str) -> bool {
    [".bytes", "_byte_rate", ".throttled.rate", ".bytes.per.second"].iter().any(|end| key.ends_with(end))
}

/// Reads `KEY=VALUE`, `KEY+=VALUE` or `KEY-=VALUE`.
pub(crate) fn change(text: &str) -> Result<Change, String> {
    let (key, value) = pair(text)?;
    let (change, key): (fn(String, String) -> Change, _) = match key.as_bytes().last() {
        Some(b'+') => (Change::Append, &key[..key.len() - 1]),
        Some(b'-') => (Change::Subtract, &key[..key.len() - 1]),
        _ => (Change::Set, key.as_str()),
    };
    if key.is_empty() {
        return Err("expected KEY=VALUE, KEY+=VALUE or KEY-=VALUE".to_owned());
    }
    Ok(change(key.to_owned(), value))
}

/// Origin of a value, by DescribeConfigs' number.
fn source(number: i8) -> String {
    match number {
        1 => "topic".to_owned(),
        2 => "dynamic-broker".to_owned(),
        3 => "dynamic-default".to_owned(),
        4 => "static-broker".to_owned(),
        5 => DEFAULT.to_owned(),
        6 => "dynamic-logger".to_owned(),
        7 => "client-metrics".to_owned(),
        8 => "group".to_owned(),
        other => format!("source-{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_values_accept_durations_and_sizes() {
        let value = |text: &str| pair(text).map(|(_, value)| value);
        assert_eq!(value("retention.ms=7d"), Ok("604800000".to_owned()));
        assert_eq!(value("retention.ms=-1"), Ok("-1".to_owned()));
        assert_eq!(value("retention.ms=soon"), Ok("soon".to_owned()), "the broker says what is wrong");
        assert_eq!(value("segment.bytes=7d"), Ok("7d".to_owned()));
        assert_eq!(value("retention.bytes=10GiB"), Ok("10737418240".to_owned()));
        assert_eq!(value("retention.bytes=-1"), Ok("-1".to_owned()));
        assert_eq!(value("producer_byte_rate=1MB"), Ok("1000000".to_owned()));
        assert_eq!(value("producer_byte_rate=1.5"), Ok("1.5".to_owned()));
        assert_eq!(value("cleanup.policy=1MB"), Ok("1MB".to_owned()));
    }

    #[test]
    fn config_changes_are_parsed() {
        fn check(text: &str, expected: fn(String, String) -> Change) {
            assert_eq!(change(text), Ok(expected("k".to_owned(), "v=1".to_owned())), "{text}");
        }
        check("k=v=1", Change::Set);
        check("k+=v=1", Change::Append);
        check("k-=v=1", Change::Subtract);
        for text in ["", "k", "=v", "+=v", "-=v"] {
            assert!(change(text).is_err(), "{text}");
        }
    }
}
