//! Configuration as it is shown: what DescribeConfigs answers, and what `levada config show` prints.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{
    BrokerConfig, ConfigType, Origin, Settings,
    dynamic::may_change,
    foreign, prefix,
    table::{BROKER_KEYS, TOPIC_KEYS, TopicKey, broker_key},
};

/// Where a value comes from in Kafka's terms, numbered as in DescribeConfigs.
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
    /// The table.
    Default = 5,
    /// A client metrics subscription's own setting.
    ClientMetrics = 7,
    /// A group's own setting.
    Group = 8,
}

/// One key with its value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The key.
    pub name: Cow<'static, str>,
    /// The value; `None` is Kafka's null.
    pub value: Option<String>,
    /// Where the value comes from in Kafka's terms.
    pub source: ConfigSource,
    /// Where the value comes from in full.
    pub origin: Origin,
    /// Every layer that gives the key a value, the one in force first.
    pub synonyms: Vec<Synonym>,
    /// The type.
    pub kind: ConfigType,
    /// Whether the value must not be shown: passwords, and keys that nobody knows, which might be secret.
    pub sensitive: bool,
    /// Whether only a restart changes it.
    pub read_only: bool,
    /// One sentence for users.
    pub doc: &'static str,
}

/// One layer that gives a key a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The key in that layer.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: Option<String>,
    /// The layer.
    pub source: ConfigSource,
}

impl BrokerConfig {
    /// Every broker key of the table, and what else was set while the broker ran, in order of name.
    pub fn describe(&self) -> Vec<Described> {
        let known = BROKER_KEYS.iter().map(|key| self.describe_broker_key(key.name.into()));
        let dynamic = self.settings().dynamic();
        let strangers: std::collections::BTreeSet<&String> = dynamic
            .own
            .keys()
            .chain(dynamic.cluster.keys())
            .filter(|name| broker_key(name).is_none())
            .collect();
        let set = self.settings().for_listeners().filter(|name| !strangers.iter().any(|other| other == name));
        let for_listeners: Vec<_> =
            set.map(|name| self.describe_broker_key(name.to_owned().into())).collect();
        let strangers = strangers.into_iter().map(|name| self.describe_broker_key(name.clone().into()));
        in_order(known.chain(strangers).chain(for_listeners).collect())
    }

    /// What was set on all brokers while they ran, in order of name.
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
        let key = prefix::row(&name);
        let synonyms = broker_synonyms(settings, name.clone());
        Described {
            value: settings.text(&name).map(str::to_owned),
            source: synonyms.first().map_or(ConfigSource::Default, |first| first.source),
            origin: settings.origin(&name).clone(),
            synonyms,
            kind: key.map_or(ConfigType::Unknown, |key| key.kind),
            sensitive: match key {
                Some(key) => key.is_secret(),
                None => foreign::verdict(&name).is_none(),
            },
            read_only: match key {
                Some(key) => !may_change(&name, key),
                None => foreign::verdict(&name).is_none(),
            },
            doc: key.map_or("", |key| key.doc),
            name,
        }
    }

    /// Every topic key, for a topic with these settings of its own, in order of name.
    pub fn describe_topic(&self, own: &BTreeMap<String, String>) -> Vec<Described> {
        in_order(TOPIC_KEYS.iter().map(|topic| self.describe_topic_key(topic, own)).collect())
    }

    fn describe_topic_key(&self, topic: &TopicKey, own: &BTreeMap<String, String>) -> Described {
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

/// The broker's layers behind a topic key. Kafka lists them from the first layer that sets the main synonym on, so a
/// retention given in hours alone has no synonyms; clients compare with that.
fn topic_synonyms(settings: &Settings, topic: &TopicKey) -> Vec<Synonym> {
    let Some(main) = topic.broker.first() else { return Vec::new() };
    from_main(main, layers(settings, topic.broker.iter().map(|name| (*name).into())))
}

/// The layers behind a broker key. A key that a topic key takes its default from brings those that stand in for it.
fn broker_synonyms(settings: &Settings, name: Cow<'static, str>) -> Vec<Synonym> {
    let family = TOPIC_KEYS.iter().map(|topic| topic.broker).find(|names| names.contains(&&*name));
    match family {
        Some(names) => from_main(&name, layers(settings, names.iter().map(|name| (*name).into()))),
        None => layers(settings, std::iter::once(name)),
    }
}

fn from_main(main: &str, layers: Vec<Synonym>) -> Vec<Synonym> {
    layers.into_iter().skip_while(|synonym| synonym.name != main).collect()
}

/// What was set, from the strongest layer down, then the defaults.
fn layers(settings: &Settings, names: impl Iterator<Item = Cow<'static, str>> + Clone) -> Vec<Synonym> {
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
        of(ConfigSource::Default, &|name| broker_key(name)?.default.map(str::to_owned)),
    ]
    .concat()
}
