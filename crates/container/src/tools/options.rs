//! Options of Kafka's tools: `--name`, `--name value` and `--name=value`.

use crate::failure::Failure;

/// An option that a tool accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) has_value: bool,
}

/// Options of the connection, which every tool accepts, with the option of `levada`.
const CONNECTION: [(&str, &str); 7] = [
    ("--bootstrap-server", "--brokers"),
    ("--broker-list", "--brokers"),
    ("--command-config", "--command-config"),
    ("--consumer.config", "--command-config"),
    ("--consumer-config", "--command-config"),
    ("--producer.config", "--command-config"),
    ("--producer-config", "--command-config"),
];

/// Options of one call, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    given: Vec<(&'static str, String)>,
    connection: Vec<String>,
}

impl Options {
    /// Reads the arguments of a tool. `instead` is the command of `levada` that has more options.
    pub(super) fn parse(words: &[String], specs: &[Spec], instead: &str) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, inline) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let mut value = || {
                let value = inline.clone().or_else(|| words.next().cloned());
                value.ok_or_else(|| Failure::usage(format!("{name}: a value is missing")))
            };
            if let Some((_, ours)) = CONNECTION.into_iter().find(|(theirs, _)| *theirs == name) {
                options.connection.extend([ours.to_owned(), value()?]);
                continue;
            }
            let spec = specs.iter().find(|spec| spec.name == name);
            let spec = spec.ok_or_else(|| not_supported(name, instead))?;
            let value = if spec.has_value { value()? } else { String::new() };
            options.given.push((spec.name, value));
        }
        Ok(options)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// The last value of an option.
    pub(super) fn last(&self, name: &str) -> Option<&str> {
        let found = self.given.iter().rev().find(|(given, _)| *given == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.given.iter().filter(move |(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.last(name).ok_or_else(|| Failure::usage(format!("{name} is missing")))
    }

    /// Arguments of `levada`, with the options of the connection.
    pub(super) fn with_connection(&self, words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).chain(self.connection.iter().cloned()).collect()
    }
}

fn not_supported(name: &str, instead: &str) -> Failure {
    if name == "--zookeeper" {
        return Failure::usage("--zookeeper: Kafka 4 has no ZooKeeper; use --bootstrap-server HOST:PORT");
    }
    Failure::usage(format!(
        "{name} is not supported in this image; `{instead} --help` lists the options of levada"
    ))
}
