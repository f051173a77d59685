//! `levada profile create|list|use|show|delete`: clusters by name, each with its brokers and client
//! properties.

mod store;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use levada_client::properties::{self, Name};
use levada_config::parse_properties;
use serde_json::json;

pub(crate) use self::store::{Profile, Profiles};
use crate::question;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Manage profiles, which name clusters with their brokers and client properties
///
/// Profiles are in levada/profiles.toml under $XDG_CONFIG_HOME, by default ~/.config. They may
/// contain passwords: only the owner can read the file, and the command refuses a file that others
/// may read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada profile create prod --brokers broker-1:9092,broker-2:9092 --command-config prod.properties
  levada profile create local --brokers 127.0.0.1:9092 --use
  levada topic list --profile prod
  LEVADA_PROFILE=prod levada topic list
  levada profile use prod")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(Create),
    List(List),
    Use(Use),
    Show(Show),
    Delete(Delete),
}

/// Create a profile
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada profile create local --brokers 127.0.0.1:9092 --use
  levada profile create prod --brokers broker-1:9093 --command-config prod.properties
  levada profile create prod --brokers broker-1:9093 -X security.protocol=SSL")]
struct Create {
    /// Name of the profile
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: String,
    /// Brokers to contact first, separated by commas
    #[arg(short, long, value_name = "HOST:PORT")]
    brokers: String,
    /// File with Kafka's client properties; those for TLS and SASL are copied into the profile
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// A client property, such as security.protocol=SSL; repeatable
    #[arg(short = 'X', long = "property", value_name = "KEY=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// Make it the current profile, which commands use if no option or variable names brokers
    #[arg(long = "use")]
    make_current: bool,
}

/// List profiles
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada profile list
  levada profile list --output json | jq -r '.[] | select(.current) | .name'")]
struct List {
    #[command(flatten)]
    format: FormatArgs,
}

/// Make a profile the current one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada profile use prod
  levada profile use --none      commands connect to 127.0.0.1:9092 again")]
struct Use {
    /// Name of the profile
    #[arg(required_unless_present = "none")]
    name: Option<String>,
    /// Use no profile
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

/// Show a profile without its secrets
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada profile show
  levada profile show prod")]
struct Show {
    /// Name of the profile [default: the current one]
    name: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Delete a profile
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada profile delete prod")]
struct Delete {
    /// Name of the profile
    name: String,
    #[command(flatten)]
    question: question::Args,
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Result<(), Failure> {
    match args.verb {
        Verb::Create(create) => create.run(),
        Verb::List(list) => list.run(out),
        Verb::Use(chosen) => chosen.run(),
        Verb::Show(show) => show.run(out),
        Verb::Delete(delete) => delete.run(),
    }
}

impl Create {
    fn run(self) -> Result<(), Failure> {
        let mut profiles = Profiles::load()?;
        let mut properties = BTreeMap::new();
        if let Some(path) = &self.command_config {
            let shown = path.display();
            let wrong = |error: String| Failure::Usage(format!("--command-config {shown}: {error}"));
            let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
            let found = parse_properties(&text)
                .map_err(|error| wrong(format!("line {}: {}", error.line, error.reason)))?;
            let names = found.iter().map(|property| property.key.as_str());
            properties::check_names(&format!("--command-config {shown}"), names).map_err(Failure::Usage)?;
            let (known, others): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|property| Name::of(&property.key) == Name::Read);
            for property in others {
                tell!("note: {} is not a setting of a login; the profile omits it", property.key);
            }
            properties.extend(known.into_iter().map(|property| (property.key, property.value)));
        }
        properties.extend(self.properties);
        properties.iter_mut().for_each(|(key, value)| store::make_absolute(key, value));
        profiles.create(&self.name, Profile { brokers: self.brokers, properties })?;
        if self.make_current {
            profiles.make_current(Some(&self.name))?;
        }
        profiles.save()?;
        tell!("created profile {}", self.name);
        if profiles.current().is_none() {
            tell!("levada profile use {} makes it the current one", self.name);
        }
        Ok(())
    }
}

fn property(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as security.protocol=SSL")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl List {
    fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let profiles = Profiles::load()?;
        let is_current = |name: &String| profiles.current() == Some(name);
        if self.format.format == Format::Json {
            let object = |(name, profile): (&String, &Profile)| {
                json!({
                    "name": name,
                    "brokers": profile.brokers,
                    "security": profile.security(),
                    "current": is_current(name),
                })
            };
            return output::json(out, &profiles.all().map(object).collect::<Vec<_>>());
        }
        let row = |(name, profile): (&String, &Profile)| {
            let mark = if is_current(name) { "*" } else { "" };
            vec![name.clone(), mark.to_owned(), profile.security().to_owned(), profile.brokers.clone()]
        };
        output::table(out, &["NAME", "CURRENT", "SECURITY", "BROKERS"], profiles.all().map(row).collect())
    }
}

impl Use {
    fn run(&self) -> Result<(), Failure> {
        let mut profiles = Profiles::load()?;
        profiles.make_current(self.name.as_deref())?;
        profiles.save()?;
        match &self.name {
            Some(name) => tell!("{name} is the current profile"),
            None => tell!("no profile is current"),
        }
        Ok(())
    }
}

impl Show {
    fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let profiles = Profiles::load()?;
        let name = self.name.as_deref().or(profiles.current()).ok_or_else(|| {
            Failure::with_next(
                "no profile is current",
                "levada profile show NAME; levada profile list shows the names",
            )
        })?;
        let profile = profiles.profile(name)?;
        let shown = |key: &str, value: &str| (!properties::is_secret(key)).then(|| value.to_owned());
        if self.format.format == Format::Json {
            let properties: BTreeMap<&String, Option<String>> =
                profile.properties.iter().map(|(key, value)| (key, shown(key, value))).collect();
            return output::json(
                out,
                &json!({
                    "name": name,
                    "brokers": profile.brokers,
                    "current": profiles.current() == Some(name),
                    "properties": properties,
                }),
            );
        }
        let first = vec!["brokers".to_owned(), profile.brokers.clone()];
        let rest = profile.properties.iter().map(|(key, value)| {
            vec![key.clone(), shown(key, value).unwrap_or_else(|| "(hidden)".to_owned())]
        });
        output::table(out, &["KEY", "VALUE"], [first].into_iter().chain(rest).collect())
    }
}

impl Delete {
    fn run(&self) -> Result<(), Failure> {
        Profiles::load()?.profile(&self.name)?;
        self.question.ask(&format!("delete profile {}", self.name), question::NOTHING_DELETED)?;
        // Another command may have changed the profiles since the question.
        let mut profiles = Profiles::load()?;
        profiles.delete(&self.name)?;
        profiles.save()?;
        tell!("deleted profile {}", self.name);
        Ok(())
    }
}
