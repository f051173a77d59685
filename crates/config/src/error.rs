//! Errors in a configuration, with the origin of the invalid value.

use std::path::PathBuf;
use std::{fmt, io};

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `-o key=value` on the command line.
    Flag,
    /// Environment variable with this name.
    Environment(String),
    /// Line of a configuration file.
    File {
        /// The file, as named by the user.
        path: PathBuf,
        /// The line the entry starts on, from 1.
        line: usize,
    },
    /// Set on this broker while it ran.
    DynamicBroker,
    /// Set on all brokers while they ran.
    DynamicCluster,
    /// A setting of one topic.
    Topic,
    /// A setting of one group.
    Group,
    /// A setting of one client metrics subscription.
    ClientMetrics,
    /// The table of keys.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag -o"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::DynamicBroker => f.write_str("broker, dynamic"),
            Self::DynamicCluster => f.write_str("cluster, dynamic"),
            Self::Topic => f.write_str("topic"),
            Self::Group => f.write_str("group"),
            Self::ClientMetrics => f.write_str("client metrics"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Unreadable {
        /// File that cannot be read.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The configuration file is not in `.properties` syntax.
    #[error("{origin}: {reason}")]
    Syntax {
        /// Origin of the line.
        origin: Origin,
        /// Description of the problem.
        reason: String,
    },
    /// A flag without `=`.
    #[error("flag -o {:?}: expected key=value", name_of(text))]
    NotAPair {
        /// Value of the flag.
        text: String,
    },
    /// No table has the key.
    #[error("unknown key {} ({origin}){}", name_of(key), nearest.map(|near| format!(": did you mean {near}?")).unwrap_or_default())]
    Unknown {
        /// The key as given.
        key: String,
        /// Origin of the key.
        origin: Origin,
        /// The known key with the smallest edit distance, if any is near.
        nearest: Option<&'static str>,
    },
    /// A key of an earlier version of Kafka.
    #[error("{key} ({origin}): Kafka 4 no longer has this key: {advice}")]
    Removed {
        /// The key as given.
        key: String,
        /// Origin of the key.
        origin: Origin,
        /// Next step for the user.
        advice: &'static str,
    },
    /// A value that the key does not allow.
    #[error("{key}={value} ({origin}): must be {allowed}")]
    Invalid {
        /// Name of the key.
        key: String,
        /// The value as given.
        value: String,
        /// Origin of the value.
        origin: Origin,
        /// The allowed values, as text.
        allowed: String,
    },
    /// A key of Kafka's that Levada does not serve and cannot ignore without breaking a promise.
    #[error("{key}={value} ({origin}): {reason}")]
    Refused {
        /// Name of the key.
        key: String,
        /// The value as given.
        value: String,
        /// Origin of the value.
        origin: Origin,
        /// The reason, and the next step.
        reason: String,
    },
}

/// The part of a text that may be the name of a key. The text after a name may be a secret, and so
/// may a line of a private key after a missing backslash.
pub(super) fn name_of(text: &str) -> String {
    let is_named = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let (name, rest) = text.split_at(text.find(|c| !is_named(c)).unwrap_or(text.len()));
    let likely = name.len() <= LONGEST_WORD || (name.contains('.') && name.len() <= LONGEST_NAME);
    match rest.chars().next() {
        None if likely => name.to_owned(),
        Some(':' | ' ' | '\t') if likely => format!("{name}…"),
        _ => "(hidden)".to_owned(),
    }
}

/// Maximum number of letters of a name without a point, and of one with.
const LONGEST_WORD: usize = 30;
const LONGEST_NAME: usize = 150;

/// Everything that is wrong with a configuration; never empty.
#[derive(Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}
