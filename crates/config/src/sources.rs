//! The layers of configuration: flags over environment over file over default. Every value is
//! validated and keeps its origin. All errors are reported together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::{fmt, fs};

use super::error::name_of;
use super::foreign::{self, Foreign};
use super::kafka::kafka_key;
use super::key::HIDDEN;
use super::layers::DynamicLayers;
use super::table::{BROKER_KEYS, TOPIC_KEYS, broker_key};
use super::{ConfigError, ConfigErrors, Dynamic, Origin, prefix, properties, removed};

mod environment;

pub use environment::env_name;

/// The origin of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A file in `.properties` syntax.
    pub file: Option<PathBuf>,
    /// Environment variables; those whose name is not that of a key are ignored or noted.
    pub environment: Vec<(String, String)>,
    /// True if variables named as for Kafka's container images (`KAFKA_LOG_DIRS`) set keys too.
    pub kafka_environment: bool,
    /// `key=value` pairs of the command line, the last one winning.
    pub flags: Vec<String>,
    /// True if unknown keys are noted instead of refused.
    pub lenient: bool,
}

/// A key that was set without effect, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The key or variable as given.
    pub key: String,
    /// The origin of the value.
    pub origin: Origin,
    /// The reason why it has no effect.
    pub text: String,
}

/// The broker's keys that were set, checked, each with its origin.
#[derive(Clone, Default)]
pub struct Settings {
    set: BTreeMap<&'static str, (String, Origin)>,
    /// Keys written for one listener, and keys that the table does not have.
    set_by_name: BTreeMap<String, (String, Origin)>,
    /// Keys of one listener as they were written, by their names with the listener in lower case.
    written: BTreeMap<String, String>,
    dynamic: DynamicLayers,
    notes: Vec<Note>,
    lenient: bool,
}

impl fmt::Debug for Settings {
    /// Omits values, because some are passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.set.keys()).entries(self.set_by_name.keys()).finish()
    }
}

/// Names of the keys that have other values in a configuration that was read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Keys whose new values take effect immediately.
    pub applied: Vec<String>,
    /// Keys whose new values need a restart.
    pub waiting: Vec<String>,
}

/// One assignment found in a layer.
struct Assignment {
    key: String,
    value: String,
    origin: Origin,
}

impl Sources {
    /// Sources with only `key=value` flags, without the environment.
    pub fn flags<S: Into<String>>(flags: impl IntoIterator<Item = S>) -> Self {
        Self { flags: flags.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Reads and lays the layers over each other.
    pub fn settings(&self) -> Result<Settings, ConfigErrors> {
        let mut settings = Settings { lenient: self.lenient, ..Settings::default() };
        let mut errors = Vec::new();
        let layers =
            [self.file_layer(), Ok(environment::layer(self, &mut settings.notes)), self.flag_layer()];
        for layer in layers {
            match layer {
                Ok(assignments) => {
                    errors.extend(assignments.into_iter().filter_map(|one| settings.assign(one).err()));
                }
                Err(error) => errors.push(error),
            }
        }
        errors.extend(settings.name_the_node().err());
        if errors.is_empty() { Ok(settings) } else { Err(ConfigErrors(errors)) }
    }

    fn file_layer(&self) -> Result<Vec<Assignment>, ConfigError> {
        let Some(path) = &self.file else { return Ok(Vec::new()) };
        let text = fs::read(path).map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
        let origin = |line| Origin::File { path: path.clone(), line };
        let entries = properties::parse(&text).map_err(|error| ConfigError::Syntax {
            origin: origin(error.line),
            reason: error.reason.to_owned(),
        })?;
        let assignment = |entry: properties::Property| Assignment {
            key: entry.key,
            value: entry.value,
            origin: origin(entry.line),
        };
        Ok(entries.into_iter().map(assignment).collect())
    }

    fn flag_layer(&self) -> Result<Vec<Assignment>, ConfigError> {
        let pair = |text: &String| match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(Assignment { key: key.trim().to_owned(), value: value.to_owned(), origin: Origin::Flag })
            }
            _ => Err(ConfigError::NotAPair { text: text.clone() }),
        };
        self.flags.iter().map(pair).collect()
    }
}

impl Settings {
    /// The value of a key of the table, or of another key of Kafka: the set value, otherwise the
    /// default, otherwise `None`.
    pub fn text(&self, name: &str) -> Option<&str> {
        let dynamic = self.dynamic.find(name).map(|(value, _)| value);
        let default = || match broker_key(name) {
            Some(key) => key.default,
            None => kafka_key(name)?.key.default,
        };
        dynamic.or_else(|| self.explicit(name).map(|(value, _)| value)).or_else(default)
    }

    /// The value of a key for one listener: its own, otherwise that for all listeners.
    pub fn listener_text(&self, listener: &str, name: &str) -> Option<&str> {
        self.text(&prefix::prefixed(listener, name)).or_else(|| self.text(name))
    }

    /// The name of the key from which [`Settings::listener_text`] takes its value.
    pub fn listener_key(&self, listener: &str, name: &str) -> String {
        let own = prefix::prefixed(listener, name);
        if self.text(&own).is_some() { own } else { name.to_owned() }
    }

    /// A key as it was written.
    pub fn as_written<'a>(&'a self, name: &'a str) -> &'a str {
        self.written.get(name).map_or(name, String::as_str)
    }

    /// The value that was set specifically for this listener.
    pub fn own_listener_text(&self, listener: &str, name: &str) -> Option<&str> {
        self.text(&prefix::prefixed(listener, name))
    }

    /// The keys that were set before the start for one listener, and those that the table does not
    /// have.
    pub(super) fn set_by_name(&self) -> impl Iterator<Item = &str> {
        self.set_by_name.keys().map(String::as_str)
    }

    /// Returns these settings with other dynamic layers.
    pub(super) fn with_dynamic(&self, dynamic: DynamicLayers) -> Self {
        Self { dynamic, ..self.clone() }
    }

    /// The settings with the values that `fresh` has for keys that may change while the broker
    /// runs, and the names of all keys whose values differ. The dynamic layers stay.
    pub(super) fn reloaded(&self, fresh: &Self) -> (Self, Differences) {
        let mut merged = fresh.with_dynamic(self.dynamic.clone());
        let mut differences = Differences::default();
        let names: BTreeSet<&str> = self.names().chain(fresh.names()).collect();
        for name in names {
            // A key without a row has no effect.
            let Some(key) = prefix::row(name) else { continue };
            if self.before_the_start(name) == fresh.before_the_start(name) {
                continue;
            }
            if key.dynamic == Dynamic::ReadOnly {
                merged.restore(name, self);
                differences.waiting.push(name.to_owned());
            } else {
                differences.applied.push(name.to_owned());
            }
        }
        (merged, differences)
    }

    /// Every key that was set before the start.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.set.keys().copied().chain(self.set_by_name())
    }

    /// The value of a key without the dynamic layers.
    pub(super) fn before_the_start(&self, name: &str) -> Option<&str> {
        let default = || broker_key(name)?.default;
        self.explicit(name).map(|(value, _)| value).or_else(default)
    }

    /// Copies the value of one key, or its absence, from `other`.
    fn restore(&mut self, name: &str, other: &Self) {
        self.set.remove(name);
        self.set_by_name.remove(name);
        self.set.extend(other.set.get_key_value(name).map(|(key, value)| (*key, value.clone())));
        let by_name = other.set_by_name.get_key_value(name);
        self.set_by_name.extend(by_name.map(|(key, value)| (key.clone(), value.clone())));
    }

    /// Settings of the dynamic layers.
    pub(super) fn dynamic(&self) -> &DynamicLayers {
        &self.dynamic
    }

    /// The value that was set before the start, with its origin.
    pub(super) fn explicit(&self, name: &str) -> Option<(&str, &Origin)> {
        let found = self.set.get(name).or_else(|| self.set_by_name.get(name));
        found.map(|(value, origin)| (value.as_str(), origin))
    }

    /// The origin of the key's value.
    pub fn origin(&self, name: &str) -> &Origin {
        let set = || self.explicit(name).map(|(_, origin)| origin);
        self.dynamic.find(name).map(|(_, origin)| origin).or_else(set).unwrap_or(&Origin::Default)
    }

    /// Keys that were set without effect.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Notes that these keys, which were set, have no effect.
    pub(super) fn note_without_effect(&mut self, keys: &[&str], reason: &str) {
        for key in keys {
            self.notes.retain(|note| note.key != *key);
            let origin = self.origin(key).clone();
            self.notes.push(Note { key: (*key).to_owned(), origin, text: reason.to_owned() });
        }
    }

    fn assign(&mut self, assignment: Assignment) -> Result<(), ConfigError> {
        let Assignment { key: written, value, origin } = assignment;
        let name = prefix::canonical(&written).into_owned();
        if written != name {
            self.written.insert(name.clone(), written.clone());
        }
        let Some(key) = prefix::row(&name) else { return self.assign_foreign(name, value, origin) };
        let Some(normal) = key.normalise(&value) else {
            let value = key.shown(&value).to_owned();
            return Err(ConfigError::Invalid { key: written, value, origin, allowed: key.allowed() });
        };
        if prefix::is_prefixed(&name) {
            self.set_by_name.insert(name, (normal, origin));
        } else {
            self.set.insert(key.name, (normal, origin));
        }
        Ok(())
    }

    /// Accepts a key that has no effect, unless its value requests behaviour that must not be
    /// ignored silently.
    fn assign_foreign(&mut self, name: String, value: String, origin: Origin) -> Result<(), ConfigError> {
        let bare = foreign::bare_foreign(&name);
        let key = broker_key(bare).or_else(|| kafka_key(bare).map(|known| &known.key));
        let shown = || key.map_or(HIDDEN, |key| key.shown(&value)).to_owned();
        let normal = key.map_or_else(|| Some(value.clone()), |key| key.normalise(&value));
        let Some(normal) = normal else {
            let allowed = key.map(super::ConfigKey::allowed).unwrap_or_default();
            let key = self.as_written(&name).to_owned();
            return Err(ConfigError::Invalid { value: shown(), key, origin, allowed });
        };
        let note = match foreign::verdict(&name, &value) {
            Some(Foreign::Noted(reason)) => reason.to_owned(),
            Some(Foreign::Refused(reason)) => {
                let (key, reason) = (self.as_written(&name).to_owned(), reason.to_owned());
                return Err(ConfigError::Refused { value: shown(), key, origin, reason });
            }
            None if self.lenient => no_such_key(&name),
            None => {
                let key = self.as_written(&name).to_owned();
                return Err(match removed::advice(bare) {
                    Some(advice) => ConfigError::Removed { key, origin, advice },
                    None => ConfigError::Unknown { nearest: nearest_key(&name), key, origin },
                });
            }
        };
        let told = name_of(&name);
        self.notes.retain(|note| note.key != told);
        self.notes.push(Note { key: told.clone(), origin: origin.clone(), text: note });
        if told == name {
            self.set_by_name.insert(name, (normal, origin));
        }
        Ok(())
    }

    /// Treats `node.id` and its older name `broker.id` as the same key, as in Kafka.
    fn name_the_node(&mut self) -> Result<(), ConfigError> {
        const NAMES: [&str; 2] = ["node.id", "broker.id"];
        let [node, broker] = NAMES.map(|name| self.set.get(name).cloned());
        let broker = broker.filter(|(value, _)| value != "-1");
        match (node, broker) {
            (Some((node, _)), Some((value, origin))) if node != value => {
                let allowed = format!("the same as node.id ({node}), or unset");
                return Err(ConfigError::Invalid { key: NAMES[1].to_owned(), value, origin, allowed });
            }
            (Some(one), _) | (None, Some(one)) => {
                self.set.extend(NAMES.map(|name| (name, one.clone())));
            }
            (None, None) => {}
        }
        Ok(())
    }
}

/// The key that was probably meant: the broker's key for a topic's key, otherwise the most similar
/// name.
fn nearest_key(name: &str) -> Option<&'static str> {
    let behind = TOPIC_KEYS.iter().find(|topic| topic.key.name == name);
    behind.and_then(|topic| topic.broker.first().copied()).or_else(|| nearest(name, known_names()))
}

/// A note about a key that neither Levada nor Kafka 4 has.
pub(super) fn no_such_key(name: &str) -> String {
    match removed::advice(foreign::bare_foreign(name)) {
        Some(advice) => format!("Kafka 4 no longer has this key: {advice}"),
        None => format!("no such key{}", hint(nearest_key(name))),
    }
}

fn hint(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// The name with the smallest edit distance, if at most a third of it would have to change.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|other| (strsim::damerau_levenshtein(name, other), other))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, other)| distance * 3 <= other.len())
        .map(|(_, other)| other)
}

fn known_names() -> impl Iterator<Item = &'static str> {
    BROKER_KEYS.iter().map(|key| key.name).chain(foreign::names())
}

#[cfg(test)]
mod tests;
