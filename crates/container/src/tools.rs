//! Kafka's command-line tools as calls of `levada`: the options that compose files, health checks
//! and examples use. Another option is refused by its name, and the message names the command of
//! `levada`. Lists print one name a line, as Kafka's tools do; other output has the form of
//! `levada`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::server::{self, LEVADA};

mod configs;
mod console;
mod groups;
mod options;
mod storage;
#[cfg(test)]
mod tests;
mod topics;

use options::{Options, Spec};

/// A tool of Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    ApiVersions,
    Configs,
    Consumer,
    Groups,
    Producer,
    Storage,
    Topics,
}

/// Effect of a call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Becomes `levada` with these arguments.
    Levada(Vec<String>),
    /// Prints the field of each object in the JSON that `levada` prints.
    Names(Vec<String>, &'static str),
    /// Prints a text.
    Print(String),
}

/// Names without `.sh`, as `confluentinc/cp-kafka` has them; `apache/kafka` has them with it.
const NAMES: [(&str, Tool); 7] = [
    ("kafka-broker-api-versions", Tool::ApiVersions),
    ("kafka-configs", Tool::Configs),
    ("kafka-console-consumer", Tool::Consumer),
    ("kafka-console-producer", Tool::Producer),
    ("kafka-consumer-groups", Tool::Groups),
    ("kafka-storage", Tool::Storage),
    ("kafka-topics", Tool::Topics),
];

impl Tool {
    pub(crate) fn of(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".sh").unwrap_or(name);
        NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, tool)| tool)
    }

    /// Runs the tool, and returns its exit code.
    pub(crate) fn run(self, words: &[String]) -> Result<i32, Failure> {
        match self.action(words)? {
            Action::Levada(words) => Err(server::levada(&words)),
            Action::Names(words, field) => names(&words, field),
            Action::Print(text) => print(&text),
        }
    }

    /// The call of `levada` for the arguments of the tool.
    fn action(self, words: &[String]) -> Result<Action, Failure> {
        match self {
            Self::ApiVersions => {
                let options = Options::parse(words, &[], "levada cluster info")?;
                Ok(Action::Levada(options.with_connection(&["cluster", "info"])))
            }
            Self::Configs => configs::action(words),
            Self::Consumer => console::consumer(words),
            Self::Groups => groups::action(words),
            Self::Producer => console::producer(words),
            Self::Storage => storage::action(words),
            Self::Topics => topics::action(words),
        }
    }
}

/// Runs `levada`, and prints one field of each object of the list that it prints.
fn names(words: &[String], field: &str) -> Result<i32, Failure> {
    let mut levada = Command::new(LEVADA);
    let output = levada.args(words).args(["--output", "json"]).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::not_started(LEVADA, &error))?;
    if output.status.success() {
        let list: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::new(format!("cannot read the output of levada: {error}")))?;
        let objects = list.as_array().into_iter().flatten();
        let names: Vec<&str> = objects.filter_map(|object| object[field].as_str()).collect();
        if !names.is_empty() {
            return print(&names.join("\n"));
        }
    }
    Ok(output.status.code().unwrap_or(1))
}

fn print(text: &str) -> Result<i32, Failure> {
    let written = writeln!(std::io::stdout(), "{text}");
    written.map(|()| 0).map_err(|error| Failure::new(format!("cannot write: {error}")))
}

/// One of several options that name the operation of a tool.
fn operation<'a>(options: &Options, operations: &[&'a str]) -> Result<&'a str, Failure> {
    let given: Vec<&str> = operations.iter().copied().filter(|one| options.has(one)).collect();
    match given.as_slice() {
        [one] => Ok(one),
        _ => Err(Failure::usage(format!("expected one of {}", operations.join(", ")))),
    }
}

/// Specification of an option without a value.
const fn flag(name: &'static str) -> Spec {
    Spec { name, has_value: false }
}

const fn value(name: &'static str) -> Spec {
    Spec { name, has_value: true }
}
