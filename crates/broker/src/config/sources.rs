//! The layers that may set a key, laid over each other: flags over environment over file over default. Every value
//! is checked and keeps its origin; everything that is wrong is reported at once.

use std::{collections::BTreeMap, fmt, fs, path::PathBuf};

use super::{
    ConfigError, ConfigErrors, Origin,
    dynamic::DynamicLayers,
    foreign::{self, Foreign},
    prefix, properties,
    table::{BROKER_KEYS, TOPIC_KEYS, broker_key},
};

/// Where a configuration is read from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A file in `.properties` syntax.
    pub file: Option<PathBuf>,
    /// Environment variables; those whose name is no key's are ignored or noted.
    pub environment: Vec<(String, String)>,
    /// `key=value` pairs of the command line, the last one winning.
    pub flags: Vec<String>,
}

/// A key that was set without effect, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The key or variable as given.
    pub key: String,
    /// Where it was set.
    pub origin: Origin,
    /// Why it has no effect.
    pub text: String,
}

/// The broker's keys that were set, checked, each with its origin.
#[derive(Clone, Default)]
pub struct Settings {
    set: BTreeMap<&'static str, (String, Origin)>,
    /// Keys written for one listener.
    set_for_listeners: BTreeMap<String, (String, Origin)>,
    dynamic: DynamicLayers,
    notes: Vec<Note>,
}

impl fmt::Debug for Settings {
    /// Without values: some are passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.set.keys()).entries(self.set_for_listeners.keys()).finish()
    }
}

/// One assignment found in a layer.
struct Assignment {
    key: String,
    value: String,
    origin: Origin,
}

impl Sources {
    /// Sources made of `key=value` flags alone, untouched by the environment.
    pub fn flags<S: Into<String>>(flags: impl IntoIterator<Item = S>) -> Self {
        Self { flags: flags.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Reads and lays the layers over each other.
    pub fn settings(&self) -> Result<Settings, ConfigErrors> {
        let mut settings = Settings::default();
        let mut errors = Vec::new();
        let layers = [self.file_layer(), Ok(self.environment_layer(&mut settings.notes)), self.flag_layer()];
        for layer in layers {
            match layer {
                Ok(assignments) => {
                    errors.extend(assignments.into_iter().filter_map(|one| settings.assign(one).err()));
                }
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(settings) } else { Err(ConfigErrors(errors)) }
    }

    fn file_layer(&self) -> Result<Vec<Assignment>, ConfigError> {
        let Some(path) = &self.file else { return Ok(Vec::new()) };
        let text = fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
        let origin = |line| Origin::File { path: path.clone(), line };
        let entries = properties::parse(&text).map_err(|error| ConfigError::Syntax {
            origin: origin(error.line),
            reason: error.reason.to_owned(),
        })?;
        let assignment = |entry: properties::Entry| Assignment {
            key: entry.key,
            value: entry.value,
            origin: origin(entry.line),
        };
        Ok(entries.into_iter().map(assignment).collect())
    }

    /// Variables are looked up by the names of known keys. Others that start with `LEVADA_` are noted and not refused:
    /// containers and orchestrators set such names on their own (a service called levada gets `LEVADA_PORT`).
    fn environment_layer(&self, notes: &mut Vec<Note>) -> Vec<Assignment> {
        let by_variable: BTreeMap<String, &str> = known_names().map(|name| (env_name(name), name)).collect();
        let mut assignments = Vec::new();
        for (variable, value) in &self.environment {
            let origin = Origin::Environment(variable.clone());
            match by_variable.get(variable) {
                Some(key) => {
                    assignments.push(Assignment { key: (*key).to_owned(), value: value.clone(), origin });
                }
                None if variable.starts_with("LEVADA_") && !OTHER_VARIABLES.contains(&variable.as_str()) => {
                    let near = nearest(variable, by_variable.keys().map(String::as_str));
                    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                    let text = format!("no key has this variable{hint}");
                    notes.push(Note { key: variable.clone(), origin, text });
                }
                None => {}
            }
        }
        assignments
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

/// Variables with the prefix that are not keys: the command line reads them.
const OTHER_VARIABLES: [&str; 5] =
    ["LEVADA_BROKERS", "LEVADA_COMMAND_CONFIG", "LEVADA_CONFIG", "LEVADA_LOG", "LEVADA_OAUTHBEARER_TOKEN"];

impl Settings {
    /// The value of a key of the table: what was set, else the default, else `None`.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let dynamic = self.dynamic.find(name).map(|(value, _)| value);
        let default = || broker_key(name).and_then(|key| key.default);
        dynamic.or_else(|| self.explicit(name).map(|(value, _)| value)).or_else(default)
    }

    /// The value that a key has for one listener: its own, else that of all.
    pub fn listener_text(&self, listener: &str, name: &str) -> Option<&str> {
        self.text(&prefix::prefixed(listener, name)).or_else(|| self.text(name))
    }

    /// The value that was set for this listener alone.
    pub fn own_listener_text(&self, listener: &str, name: &str) -> Option<&str> {
        self.text(&prefix::prefixed(listener, name))
    }

    /// The keys that were set for one listener before the start.
    pub(super) fn for_listeners(&self) -> impl Iterator<Item = &str> {
        self.set_for_listeners.keys().map(String::as_str)
    }

    /// The same settings under other dynamic layers.
    pub(super) fn with_dynamic(&self, dynamic: DynamicLayers) -> Self {
        Self { dynamic, ..self.clone() }
    }

    /// What was set while the broker ran.
    pub(super) fn dynamic(&self) -> &DynamicLayers {
        &self.dynamic
    }

    /// The value that was set before the start, with its origin.
    pub(super) fn explicit(&self, name: &str) -> Option<(&str, &Origin)> {
        let found = self.set.get(name).or_else(|| self.set_for_listeners.get(name));
        found.map(|(value, origin)| (value.as_str(), origin))
    }

    /// Where the key's value came from.
    pub fn origin(&self, name: &str) -> &Origin {
        let set = || self.explicit(name).map(|(_, origin)| origin);
        self.dynamic.find(name).map(|(_, origin)| origin).or_else(set).unwrap_or(&Origin::Default)
    }

    /// Keys that were set without effect.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    fn assign(&mut self, assignment: Assignment) -> Result<(), ConfigError> {
        let Assignment { key: name, value, origin } = assignment;
        let name = prefix::canonical(&name).into_owned();
        let Some(key) = prefix::row(&name) else { return self.assign_foreign(name, value, origin) };
        let Some(normal) = key.normalise(&value) else {
            let value = key.shown(&value).to_owned();
            return Err(ConfigError::Invalid { key: name, value, origin, allowed: key.allowed() });
        };
        if prefix::is_prefixed(&name) {
            self.set_for_listeners.insert(name, (normal, origin));
        } else {
            self.set.insert(key.name, (normal, origin));
        }
        Ok(())
    }

    fn assign_foreign(&mut self, key: String, value: String, origin: Origin) -> Result<(), ConfigError> {
        let turned_off = ["", "false"].contains(&value.trim());
        let bare = prefix::bare(&key).unwrap_or(&key);
        let broker_wide = prefix::is_prefixed(&key) && broker_key(bare).is_some();
        let verdict = foreign::verdict(bare);
        match verdict.or(broker_wide.then_some(Foreign::Noted("it is set for all listeners at once"))) {
            Some(Foreign::Refused(reason)) if !turned_off => {
                Err(ConfigError::Refused { key, value, origin, reason: reason.to_owned() })
            }
            Some(Foreign::Refused(_)) => Ok(()),
            Some(Foreign::Noted(reason)) => {
                self.notes.retain(|note| note.key != key);
                self.notes.push(Note { key, origin, text: reason.to_owned() });
                Ok(())
            }
            None => {
                let broker_level = TOPIC_KEYS.iter().find(|topic| topic.key.name == key);
                let nearest = broker_level
                    .and_then(|topic| topic.broker.first().copied())
                    .or_else(|| nearest(&key, known_names()));
                Err(ConfigError::Unknown { key, origin, nearest })
            }
        }
    }
}

/// The environment variable of a key: `log.dirs` is `LEVADA_LOG_DIRS`, `levada.http.listen` is `LEVADA_HTTP_LISTEN`.
pub fn env_name(key: &str) -> String {
    let tail = key.strip_prefix("levada.").unwrap_or(key);
    format!("LEVADA_{}", tail.to_uppercase().replace('.', "_"))
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
