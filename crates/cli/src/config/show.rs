//! `levada config show`: the configuration with which `levada serve` would run, and the source of
//! each value.

use std::io::Write;
use std::path::PathBuf;

use levada_config::{BrokerConfig, ConfigErrors, Described, HIDDEN, Note, Origin, Sources};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use serde_json::json;

use crate::{not_started, settings};

/// Print the configuration that `levada serve` would use with the same options, environment and
/// file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada config show --origin
  levada config show --config server.properties --changed
  LEVADA_NUM_PARTITIONS=3 levada config show --changed --origin")]
pub(super) struct Show {
    #[command(flatten)]
    sources: SourceArgs,
    /// Show the source of each value
    #[arg(long)]
    origin: bool,
    /// Omit keys that no source sets
    #[arg(long)]
    changed: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Source of the broker's configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// File in Kafka's server.properties syntax
    #[arg(long, value_name = "FILE", env = "LEVADA_CONFIG")]
    config: Option<PathBuf>,
    /// Set a key; wins over environment (LEVADA_LOG_DIRS for log.dirs) and file. A value in ms or
    /// bytes may have a unit: 7d, 1GiB
    #[arg(short = 'o', long = "option", value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Ignore keys that neither Levada nor Kafka has, with a warning on stderr
    #[arg(long)]
    lenient: bool,
    /// Read variables named as for Kafka's container images too (KAFKA_LOG_DIRS for log.dirs)
    #[arg(long, env = "LEVADA_KAFKA_ENVIRONMENT")]
    kafka_environment: bool,
}

impl SourceArgs {
    /// True if programs that expect Kafka's container images start this broker.
    pub(crate) fn is_like_kafkas_images(&self) -> bool {
        self.kafka_environment
    }

    /// Sets a key like an `-o` after all given ones.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.options.push(format!("{key}={value}"));
    }

    /// Reads the configuration and prints settings without effect on stderr.
    pub(crate) fn load(&self) -> Result<BrokerConfig, Failure> {
        let config = self.read().map_err(not_started::config)?;
        for note in config.settings().notes() {
            tell!("note: {}", shown_note(note));
        }
        Ok(config)
    }

    /// Reads the configuration.
    pub(crate) fn read(&self) -> Result<BrokerConfig, ConfigErrors> {
        let text = |pair: (std::ffi::OsString, std::ffi::OsString)| {
            Some((pair.0.into_string().ok()?, pair.1.into_string().ok()?))
        };
        let sources = Sources {
            file: self.config.clone(),
            environment: std::env::vars_os().filter_map(text).collect(),
            kafka_environment: self.kafka_environment,
            flags: self.options.iter().map(|option| in_basic_unit(option)).collect(),
            lenient: self.lenient,
        };
        BrokerConfig::load(&sources)
    }
}

/// An option whose duration or size is in the basic unit of its key.
fn in_basic_unit(option: &str) -> String {
    match option.split_once('=') {
        Some((key, value)) => format!("{key}={}", settings::in_basic_unit(key, value)),
        None => option.to_owned(),
    }
}

/// A setting without effect, its origin and the reason. An environment variable without a key is
/// named once.
fn shown_note(note: &Note) -> String {
    match &note.origin {
        origin @ Origin::Environment(variable) if *variable == note.key => {
            format!("{origin} has no effect: {}", note.text)
        }
        origin => format!("{} ({origin}) has no effect: {}", note.key, note.text),
    }
}

impl Show {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let config = self.sources.load()?;
        print(out, &config.describe(), self)
    }
}

fn print(out: &mut dyn Write, rows: &[Described], show: &Show) -> Result<(), Failure> {
    let rows = rows.iter().filter(|row| !show.changed || row.origin != Origin::Default);
    if show.format.format == Format::Json {
        let object = |row: &Described| {
            let origin = row.origin.to_string();
            json!({ "key": row.name, "value": shown(row), "origin": origin, "doc": row.doc })
        };
        return output::json(out, &rows.map(object).collect::<Vec<_>>());
    }
    let mut header = vec!["KEY", "VALUE"];
    if show.origin {
        header.push("ORIGIN");
    }
    let cells = |row: &Described| {
        let mut cells = vec![row.name.to_string(), shown(row).unwrap_or_default().to_owned()];
        if show.origin {
            cells.push(row.origin.to_string());
        }
        cells
    };
    output::table(out, &header, rows.map(cells).collect())
}

/// The value, unless it is secret.
fn shown(row: &Described) -> Option<&str> {
    row.value.as_deref().map(|value| if row.sensitive { HIDDEN } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_a_variable_once() {
        let environment = vec![("LEVADA_NUM_PARTITON".to_owned(), "3".to_owned())];
        let sources = Sources { environment, ..Sources::flags(["ssl.cipher=x"]) };
        let config = BrokerConfig::load(&Sources { lenient: true, ..sources }).unwrap();
        let shown: Vec<String> = config.settings().notes().iter().map(shown_note).collect();
        assert!(
            shown.iter().any(|note| note.starts_with("environment LEVADA_NUM_PARTITON has no effect: ")),
            "{shown:?}"
        );
        assert!(
            shown.iter().any(|note| note.starts_with("ssl.cipher (flag -o) has no effect: ")),
            "{shown:?}"
        );
    }

    #[test]
    fn changed_values_are_shown_with_their_origin() {
        let config = BrokerConfig::load(&Sources::flags(["num.partitions=3"])).unwrap();
        let show = |format| Show {
            sources: SourceArgs {
                config: None,
                options: Vec::new(),
                lenient: false,
                kafka_environment: false,
            },
            origin: true,
            changed: true,
            format: FormatArgs { format },
        };
        let mut text = Vec::new();
        print(&mut text, &config.describe(), &show(Format::Table)).unwrap();
        let expected = "KEY             VALUE  ORIGIN\nnum.partitions      3  flag -o\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);

        let mut text = Vec::new();
        print(&mut text, &config.describe(), &show(Format::Json)).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((&json[0]["value"], &json[0]["origin"]), (&json!("3"), &json!("flag -o")));
    }

    #[test]
    fn options_accept_durations_and_sizes() {
        let options = ["log.retention.ms=7d", "log.segment.bytes=1GiB", "log.retention.bytes=-1"];
        let sources = SourceArgs {
            config: None,
            options: options.map(str::to_owned).to_vec(),
            lenient: false,
            kafka_environment: false,
        };
        let rows = sources.read().unwrap().describe();
        for (key, expected) in [
            ("log.retention.ms", "604800000"),
            ("log.segment.bytes", "1073741824"),
            ("log.retention.bytes", "-1"),
        ] {
            let row = rows.iter().find(|row| row.name == key).unwrap();
            assert_eq!(row.value.as_deref(), Some(expected), "{key}");
        }
    }
}
