//! Configuration for display: the response to DescribeConfigs, and the output of
//! `levada config show`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::dynamic::known;
use super::kafka::{ConfigScope, kafka_key, kafka_keys};
use super::table::{
    BROKER_KEYS, INTERNAL_SEGMENT_BYTES, OF_KAFKA_4_4, TOPIC_KEYS, TopicConfigKey, broker_key,
};
use super::{BrokerConfig, ConfigKey, ConfigType, Dynamic, Origin, Settings, foreign, prefix};

/// The origin of a value in Kafka's terms, numbered as in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigSource {
    /// The topic's own setting.
    Topic = 1,
    /// Set on this broker while it ran.
    DynamicBroker = 2,
    /// Set on all brokers while they ran.
    DynamicCluster = 3,
    /// The broker's file, environment or flags.
    StaticBroker = 4,
    /// The default value in the table of keys.
    Default = 5,
    /// The level of a logger.
    Logger = 6,
    /// A client metrics subscription's own setting.
    ClientMetrics = 7,
    /// A group's own setting.
    Group = 8,
}

/// One key with its value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Name of the key.
    pub name: Cow<'static, str>,
    /// The value; `None` is Kafka's null.
    pub value: Option<String>,
    /// The origin of the value in Kafka's terms.
    pub source: ConfigSource,
    /// The exact origin of the value.
    pub origin: Origin,
    /// Every layer that gives the key a value, the layer in force first.
    pub synonyms: Vec<Synonym>,
    /// Type of the value.
    pub kind: ConfigType,
    /// True if the value must not be shown: passwords, and unknown keys, which might be
    /// secret.
    pub sensitive: bool,
    /// True if only a restart changes it.
    pub read_only: bool,
    /// One sentence for users.
    pub doc: &'static str,
}

/// One layer that gives a key a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The key in that layer.
    pub name: Cow<'static, str>,
    /// Value in this layer.
    pub value: Option<String>,
    /// Layer that sets the value.
    pub source: ConfigSource,
}

/// Keys that Kafka's authorizer reads, and that Kafka's broker does not know.
const OF_AUTHORIZER: [&str; 2] = ["super.users", "allow.everyone.if.no.acl.found"];

/// True if the value of a broker key must not be shown: it is a password, or the key is unknown.
pub fn is_sensitive(name: &str) -> bool {
    known(name).is_none_or(ConfigKey::is_secret)
}

impl BrokerConfig {
    /// Every broker key that has an effect, and other keys that were set, in order of their names.
    pub fn describe(&self) -> Vec<Described> {
        self.describe_those(BROKER_KEYS.iter().map(|key| key.name))
    }

    /// Every broker key that Kafka describes, those of our own, and what else was set, in order of
    /// name. The keys of the authorizer are shown as in Kafka, whose broker does not know them:
    /// only if they are set, and without their values, which name the administrators.
    pub fn describe_as_kafka(&self) -> Vec<Described> {
        let is_hidden = |name| {
            OF_AUTHORIZER.contains(&name)
                || OF_KAFKA_4_4.contains(&name)
                || kafka_key(name).is_some_and(|known| known.level != ConfigScope::Public)
        };
        let served = BROKER_KEYS.iter().map(|key| key.name);
        let served = served.filter(|name| !is_hidden(name) || self.settings().explicit(name).is_some());
        let public =
            kafka_keys().filter(|known| known.level == ConfigScope::Public).map(|known| known.key.name);
        let mut rows = self.describe_those(served.chain(public));
        for row in rows.iter_mut().filter(|row| OF_AUTHORIZER.contains(&&*row.name)) {
            (row.kind, row.sensitive, row.doc) = (ConfigType::Unknown, true, "");
        }
        rows
    }

    fn describe_those(&self, names: impl Iterator<Item = &'static str>) -> Vec<Described> {
        let settings = self.settings();
        let dynamic = settings.dynamic();
        let set = dynamic.own.keys().chain(dynamic.cluster.keys()).map(String::as_str);
        let set = set.chain(settings.set_by_name()).map(|name| Cow::Owned(name.to_owned()));
        let names: BTreeSet<Cow<'static, str>> = names.map(Cow::Borrowed).chain(set).collect();
        names.into_iter().map(|name| self.describe_broker_key(name)).collect()
    }

    /// Settings made on all brokers while they ran, in order of name.
    pub fn describe_cluster(&self) -> Vec<Described> {
        let cluster = &self.settings().dynamic().cluster;
        let rows = cluster.iter().map(|(name, value)| {
            let mut row = self.describe_broker_key(name.clone().into());
            row.value = Some(value.clone());
            row.source = ConfigSource::DynamicCluster;
            row.synonyms.retain(|synonym| synonym.source == ConfigSource::DynamicCluster);
            row
        });
        rows.collect()
    }

    fn describe_broker_key(&self, name: Cow<'static, str>) -> Described {
        let settings = self.settings();
        let key = known(&name);
        let synonyms = broker_synonyms(settings, name.clone());
        let reason = || foreign::reason(foreign::bare_foreign(&name)).unwrap_or_default();
        Described {
            value: settings.text(&name).map(str::to_owned),
            source: synonyms.first().map_or(ConfigSource::Default, |first| first.source),
            origin: settings.origin(&name).clone(),
            synonyms,
            kind: key.map_or(ConfigType::Unknown, |key| key.kind),
            sensitive: is_sensitive(&name),
            read_only: is_read_only(&name),
            doc: key.map(|key| key.doc).filter(|doc| !doc.is_empty()).unwrap_or_else(reason),
            name,
        }
    }

    /// Every topic key, for a topic with these settings, in order of name.
    pub fn describe_topic(&self, own: &BTreeMap<String, String>) -> Vec<Described> {
        let is_hidden = |name: &str| name == INTERNAL_SEGMENT_BYTES || OF_KAFKA_4_4.contains(&name);
        let is_shown = |name: &str| !is_hidden(name) || own.contains_key(name);
        let shown = TOPIC_KEYS.iter().filter(|topic| is_shown(topic.key.name));
        in_order(shown.map(|topic| self.describe_topic_key(topic, own)).collect())
    }

    fn describe_topic_key(&self, topic: &TopicConfigKey, own: &BTreeMap<String, String>) -> Described {
        let settings = self.settings();
        let name = topic.key.name;
        let own = own.get(name).map(|value| topic.key.normalise(value).unwrap_or_else(|| value.clone()));
        let mut synonyms = topic_synonyms(settings, topic);
        if let Some(value) = &own {
            synonyms.insert(
                0,
                Synonym { name: name.into(), value: Some(value.clone()), source: ConfigSource::Topic },
            );
        }
        Described {
            name: name.into(),
            source: synonyms.first().map_or(ConfigSource::Default, |first| first.source),
            origin: if own.is_some() { Origin::Topic } else { settings.topic_origin(name) },
            value: Some(own.unwrap_or_else(|| settings.topic_default(topic))),
            synonyms,
            kind: topic.key.kind,
            sensitive: false,
            read_only: false,
            doc: topic.key.doc,
        }
    }
}

fn in_order(mut rows: Vec<Described>) -> Vec<Described> {
    rows.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    rows
}

/// The broker's layers below a topic key. Kafka begins the list with the first layer that sets the
/// main synonym, so a retention that is only given in hours has no synonyms; clients rely on that.
fn topic_synonyms(settings: &Settings, topic: &TopicConfigKey) -> Vec<Synonym> {
    let Some(main) = topic.broker.first() else { return Vec::new() };
    from_main(main, layers(settings, topic.broker.iter().map(|name| (*name).into())))
}

/// True if only a restart changes the key. As in Kafka, this applies to every key with a listener's
/// prefix, even to those that can be changed.
fn is_read_only(name: &str) -> bool {
    let fixed = |key: &ConfigKey| key.dynamic == Dynamic::ReadOnly;
    match (broker_key(name), kafka_key(name)) {
        (Some(served), Some(known)) => fixed(served) || fixed(&known.key),
        (Some(own), None) => fixed(own),
        (None, Some(known)) => fixed(&known.key),
        (None, None) => true,
    }
}

/// The layers behind a broker key. If a topic key takes its default from the key, the layers
/// include the keys that replace it.
fn broker_synonyms(settings: &Settings, name: Cow<'static, str>) -> Vec<Synonym> {
    let family = TOPIC_KEYS.iter().map(|topic| topic.broker).find(|names| names.contains(&&*name));
    match family {
        Some(names) => from_main(&name, layers(settings, names.iter().map(|name| (*name).into()))),
        None => {
            let behind = prefix::is_prefixed(&name).then(|| bare(&name).to_owned().into());
            layers(settings, std::iter::once(name).chain(behind))
        }
    }
}

/// The key without the listener's prefix, whose value applies if the listener has none.
fn bare(name: &str) -> &str {
    known(name).map_or_else(|| prefix::bare(name).unwrap_or(name), |key| key.name)
}

fn from_main(main: &str, layers: Vec<Synonym>) -> Vec<Synonym> {
    layers.into_iter().skip_while(|synonym| synonym.name != main).collect()
}

/// Settings from the strongest layer down, then the defaults.
pub(super) fn layers(
    settings: &Settings,
    names: impl Iterator<Item = Cow<'static, str>> + Clone,
) -> Vec<Synonym> {
    let dynamic = settings.dynamic();
    let of = |source: ConfigSource, find: &dyn Fn(&str) -> Option<String>| -> Vec<Synonym> {
        let found = names.clone().filter_map(|name| {
            let value = Some(find(&name)?);
            Some(Synonym { name, value, source })
        });
        found.collect()
    };
    [
        of(ConfigSource::DynamicBroker, &|name| dynamic.own.get(name).cloned()),
        of(ConfigSource::DynamicCluster, &|name| dynamic.cluster.get(name).cloned()),
        of(ConfigSource::StaticBroker, &|name| settings.explicit(name).map(|(value, _)| value.to_owned())),
        of(ConfigSource::Default, &|name| static_default(name).map(str::to_owned)),
    ]
    .concat()
}

/// The default of a key that may be set before the start.
fn static_default(name: &str) -> Option<&'static str> {
    match (broker_key(name), kafka_key(name)) {
        (_, Some(known)) if known.level == ConfigScope::DynamicOnly => None,
        (Some(key), _) => key.default,
        (None, Some(known)) => known.key.default,
        (None, None) => None,
    }
}
