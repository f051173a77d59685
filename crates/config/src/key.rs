//! One row of the table of keys: name, type, default, allowed values and documentation, and the
//! validation of a value.

use super::throttled::ThrottledReplicas;
use super::words::words;

/// A configuration key as users, DescribeConfigs and the documentation see it.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// Kafka's name of the key; Levada's own start with `levada.`.
    pub name: &'static str,
    /// The type as DescribeConfigs reports it.
    pub kind: ConfigType,
    /// The value when nothing sets the key; `None` is Kafka's null.
    pub default: Option<&'static str>,
    /// Allowed values.
    pub valid: Valid,
    /// Update mode of the key.
    pub dynamic: Dynamic,
    /// True if `listener.name.NAME.` before it sets it for one listener.
    pub per_listener: bool,
    /// One sentence for users.
    pub doc: &'static str,
}

/// The type of a key, numbered as in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigType {
    /// A key that no table has.
    Unknown = 0,
    /// `true` or `false`.
    Boolean = 1,
    /// Any text.
    String = 2,
    /// A 32-bit integer.
    Int = 3,
    /// A 16-bit integer.
    Short = 4,
    /// A 64-bit integer.
    Long = 5,
    /// A floating-point number.
    Double = 6,
    /// Texts separated by commas.
    List = 7,
    /// The name of a Java class.
    Class = 8,
    /// A text that is never shown.
    Password = 9,
}

/// Text that replaces a secret in output.
pub const HIDDEN: &str = "(hidden)";

/// Values that a key allows, in addition to the check of its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Valid {
    /// Every value of the type.
    Any,
    /// An integer in this range, both ends included.
    Range(i64, i64),
    /// -1, or an integer in this range.
    UnsetOr(i64, i64),
    /// A number in this range, both ends included.
    Ratio(f64, f64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of some of these words.
    SomeOf(&'static [&'static str]),
    /// `*`, or a list of replicas.
    Replicas,
}

/// Update mode of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dynamic {
    /// The value changes only by a restart.
    ReadOnly,
    /// The value can be set for one listener of one broker, by the listener's prefix.
    PerListener,
    /// The value can be set on one broker, for all listeners or for one.
    PerBroker,
    /// Per broker, or for the whole cluster.
    ClusterWide,
}

/// A boolean key.
pub(super) const fn boolean(name: &'static str, doc: &'static str) -> ConfigKey {
    key(name, ConfigType::Boolean, doc)
}

/// A text key.
pub(super) const fn string(name: &'static str, doc: &'static str) -> ConfigKey {
    key(name, ConfigType::String, doc)
}

/// A key whose value is secret.
pub(super) const fn password(name: &'static str, doc: &'static str) -> ConfigKey {
    key(name, ConfigType::Password, doc)
}

/// A 32-bit integer key.
pub(super) const fn short(name: &'static str, doc: &'static str) -> ConfigKey {
    key(name, ConfigType::Short, doc)
}

pub(super) const fn int(name: &'static str, doc: &'static str) -> ConfigKey {
    key(name, ConfigType::Int, doc)
}

/// A 64-bit integer key.
pub(super) const fn long(name: &'static str, doc: &'static str) -> ConfigKey {
    key(name, ConfigType::Long, doc)
}

/// A floating-point key.
pub(super) const fn double(name: &'static str, doc: &'static str) -> ConfigKey {
    key(name, ConfigType::Double, doc)
}

/// A list key.
pub(super) const fn list(name: &'static str, doc: &'static str) -> ConfigKey {
    key(name, ConfigType::List, doc)
}

const fn key(name: &'static str, kind: ConfigType, doc: &'static str) -> ConfigKey {
    ConfigKey {
        name,
        kind,
        default: None,
        valid: Valid::Any,
        dynamic: Dynamic::ReadOnly,
        per_listener: false,
        doc,
    }
}

impl ConfigKey {
    /// Returns the key with a default.
    pub(super) const fn default(mut self, value: &'static str) -> Self {
        self.default = Some(value);
        self
    }

    /// Returns the key with these allowed values.
    pub(super) const fn valid(mut self, valid: Valid) -> Self {
        self.valid = valid;
        self
    }

    /// Returns the key as an integer that is not below `low`.
    pub(super) const fn at_least(self, low: i64) -> Self {
        self.valid(Valid::Range(low, i64::MAX))
    }

    /// Returns the key as one that can change while the broker runs.
    pub(super) const fn cluster_wide(mut self) -> Self {
        self.dynamic = Dynamic::ClusterWide;
        self
    }

    /// Marks the key as one of which each listener may have its own value.
    pub(super) const fn per_listener(mut self) -> Self {
        self.per_listener = true;
        self
    }

    /// Returns the key as one that can change for a listener while the broker runs.
    pub(super) const fn reloaded(mut self) -> Self {
        self.dynamic = Dynamic::PerListener;
        self.per_listener()
    }

    /// Returns the key as one that can change for all listeners of a broker, or for one, while the
    /// broker runs.
    pub(super) const fn per_broker(mut self) -> Self {
        self.dynamic = Dynamic::PerBroker;
        self.per_listener()
    }

    /// Returns the key as one that can change on a single broker while it runs.
    pub(super) const fn own(mut self) -> Self {
        self.dynamic = Dynamic::PerBroker;
        self
    }

    /// True if its value must not be shown.
    pub fn is_secret(&self) -> bool {
        self.kind == ConfigType::Password
    }

    /// The value, or a placeholder if it is secret.
    pub(super) fn shown<'v>(&self, value: &'v str) -> &'v str {
        if self.is_secret() { HIDDEN } else { value }
    }

    /// The value in the form the rest of the module reads, or `None` if it is not allowed.
    pub fn normalise(&self, text: &str) -> Option<String> {
        let text = text.trim();
        match self.kind {
            ConfigType::Boolean => match text.to_ascii_lowercase().as_str() {
                word @ ("true" | "false") => Some(word.to_owned()),
                _ => None,
            },
            ConfigType::Int | ConfigType::Short | ConfigType::Long => text
                .parse()
                .ok()
                .filter(|value| self.allows_integer(*value))
                .map(|value: i64| value.to_string()),
            ConfigType::Double => {
                text.parse().ok().filter(|value| self.allows_number(*value)).map(|_| text.to_owned())
            }
            ConfigType::String | ConfigType::Class | ConfigType::Password | ConfigType::Unknown => {
                self.allows_word(text).then(|| text.to_owned())
            }
            ConfigType::List if self.valid == Valid::Replicas => {
                let words: Vec<&str> = words(text).collect();
                ThrottledReplicas::parse(text).map(|_| words.join(","))
            }
            ConfigType::List => {
                let words: Vec<&str> = words(text).collect();
                words.iter().all(|word| self.allows_word(word)).then(|| words.join(","))
            }
        }
    }

    /// The allowed values as text, for error messages and documentation.
    pub fn allowed(&self) -> String {
        let (least, most) = self.limits();
        match self.valid {
            Valid::OneOf(words) => format!("one of {}", words.join(", ")),
            Valid::SomeOf(words) => format!("a list of {}", words.join(", ")),
            Valid::Ratio(low, high) => format!("a number from {low} to {high}"),
            Valid::Replicas => "* or a list of PARTITION:BROKER".to_owned(),
            Valid::UnsetOr(..) => format!("-1 or an integer from {least} to {most}"),
            Valid::Any | Valid::Range(..) => match self.kind {
                ConfigType::Boolean => "true or false".to_owned(),
                ConfigType::Int | ConfigType::Short | ConfigType::Long => {
                    format!("an integer from {least} to {most}")
                }
                ConfigType::Double => "a number".to_owned(),
                ConfigType::String | ConfigType::Class | ConfigType::Password | ConfigType::Unknown => {
                    "a text".to_owned()
                }
                ConfigType::List => "a list separated by commas".to_owned(),
            },
        }
    }

    fn allows_integer(&self, value: i64) -> bool {
        let (least, most) = self.limits();
        (least..=most).contains(&value) || (matches!(self.valid, Valid::UnsetOr(..)) && value == -1)
    }

    fn allows_number(&self, value: f64) -> bool {
        match self.valid {
            Valid::Ratio(low, high) => (low..=high).contains(&value),
            _ => value.is_finite(),
        }
    }

    pub(super) fn allows_word(&self, word: &str) -> bool {
        match self.valid {
            Valid::OneOf(words) | Valid::SomeOf(words) => words.contains(&word),
            _ => true,
        }
    }

    fn limits(&self) -> (i64, i64) {
        let (least, most) = match self.kind {
            ConfigType::Short => (i64::from(i16::MIN), i64::from(i16::MAX)),
            ConfigType::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        match self.valid {
            Valid::Range(low, high) | Valid::UnsetOr(low, high) => (low.max(least), high.min(most)),
            _ => (least, most),
        }
    }
}
