//! Configuration as it is shown: what DescribeConfigs answers, and what `levada config show` prints.

use std::collections::BTreeMap;

use super::{
    BrokerConfig, ConfigType, Dynamic, Origin, Settings,
    table::{BROKER_KEYS, TOPIC_KEYS, TopicKey, broker_key},
};

/// Where a value comes from in Kafka's terms, numbered as in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigSource {
    /// The topic's own setting.
    Topic = 1,
    /// The broker's file, environment or flags.
    StaticBroker = 4,
    /// The table.
    Default = 5,
}

/// One key with its value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The key.
    pub name: &'static str,
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
    /// Whether the value must not be shown; no key of the table is secret so far.
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
    pub name: &'static str,
    /// Its value.
    pub value: Option<String>,
    /// The layer.
    pub source: ConfigSource,
}

impl BrokerConfig {
    /// Every broker key of the table, in order of name.
    pub fn describe(&self) -> Vec<Described> {
        let settings = self.settings();
        let mut rows: Vec<Described> = BROKER_KEYS
            .iter()
            .map(|key| {
                let synonyms = broker_synonyms(settings, key.name);
                Described {
                    name: key.name,
                    value: settings.text(key.name).map(str::to_owned),
                    source: synonyms.first().map_or(ConfigSource::Default, |first| first.source),
                    origin: settings.origin(key.name).clone(),
                    synonyms,
                    kind: key.kind,
                    sensitive: false,
                    read_only: key.dynamic == Dynamic::ReadOnly,
                    doc: key.doc,
                }
            })
            .collect();
        rows.sort_unstable_by_key(|row| row.name);
        rows
    }

    /// Every topic key, for a topic with these settings of its own, in order of name.
    pub fn describe_topic(&self, own: &BTreeMap<String, String>) -> Vec<Described> {
        let mut rows: Vec<Described> =
            TOPIC_KEYS.iter().map(|topic| self.describe_topic_key(topic, own)).collect();
        rows.sort_unstable_by_key(|row| row.name);
        rows
    }

    fn describe_topic_key(&self, topic: &TopicKey, own: &BTreeMap<String, String>) -> Described {
        let settings = self.settings();
        let name = topic.key.name;
        let own = own.get(name).map(|value| topic.key.normalise(value).unwrap_or_else(|| value.clone()));
        let mut synonyms = topic_synonyms(settings, topic);
        if let Some(value) = &own {
            synonyms.insert(0, Synonym { name, value: Some(value.clone()), source: ConfigSource::Topic });
        }
        Described {
            name,
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

/// The broker's layers behind a topic key. Kafka lists them from the first layer that sets the main synonym on, so a
/// retention given in hours alone has no synonyms; clients compare with that.
fn topic_synonyms(settings: &Settings, topic: &TopicKey) -> Vec<Synonym> {
    let Some(main) = topic.broker.first() else { return Vec::new() };
    let layers = layers(settings, topic.broker.iter().copied());
    layers.into_iter().skip_while(|synonym| synonym.name != *main).collect()
}

fn broker_synonyms(settings: &Settings, name: &'static str) -> Vec<Synonym> {
    layers(settings, std::iter::once(name))
}

/// What was set, then the defaults.
fn layers(settings: &Settings, names: impl Iterator<Item = &'static str> + Clone) -> Vec<Synonym> {
    let set = names.clone().filter_map(|name| {
        let (value, _) = settings.explicit(name)?;
        Some(Synonym { name, value: Some(value.to_owned()), source: ConfigSource::StaticBroker })
    });
    let defaults = names.filter_map(|name| {
        let value = broker_key(name)?.default?;
        Some(Synonym { name, value: Some(value.to_owned()), source: ConfigSource::Default })
    });
    set.chain(defaults).collect()
}
