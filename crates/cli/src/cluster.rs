//! Arguments that name a cluster: brokers, and a login by `--command-config` or a profile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::{env, fs};

use clap::Subcommand;
use levada_client::{Cluster, ConnectionOptions, Login, properties};
use levada_config::{Property, parse_properties};
use levada_schema::{Registry, RegistrySettings};
use levada_terminal::failure::Failure;

use crate::kafka_error;
use crate::profile::Profiles;

// Arguments of a noun whose verbs all need a cluster: the verb, and the cluster. Not a doc comment:
// clap would print it in place of the help of the noun.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterCommand<V: Subcommand> {
    #[command(flatten)]
    pub(crate) brokers: BrokerArgs,
    #[command(subcommand)]
    pub(crate) verb: V,
}

/// Address of a broker.
#[derive(Debug, clap::Args)]
pub(crate) struct BrokerArgs {
    /// Brokers to contact first, separated by commas [env: LEVADA_BROKERS] [default: the profile's,
    /// else 127.0.0.1:9092]
    #[arg(
        short,
        long,
        value_name = "HOST:PORT",
        alias = "bootstrap-server",
        global = true,
        display_order = 101
    )]
    brokers: Option<String>,
    /// File with Kafka's client properties, such as sasl.jaas.config [env: LEVADA_COMMAND_CONFIG]
    #[arg(long, value_name = "FILE", global = true, display_order = 102)]
    command_config: Option<PathBuf>,
    /// Profile with brokers and client properties (levada profile) [env: LEVADA_PROFILE]
    #[arg(long, value_name = "NAME", global = true, display_order = 103)]
    profile: Option<String>,
}

/// Address of the broker by default.
const DEFAULT_BROKER: &str = "127.0.0.1:9092";

impl BrokerArgs {
    /// Connects to the first of the brokers that responds.
    pub(crate) fn connect(&self) -> Result<Cluster, Failure> {
        self.connect_with(ConnectionOptions::default())
    }

    /// Like [`BrokerArgs::connect`], with other options of the connections. The client id stays.
    pub(crate) fn connect_with(&self, options: ConnectionOptions) -> Result<Cluster, Failure> {
        let target = self.target()?;
        let login = target.login()?;
        let options = ConnectionOptions { client_id: "levada-cli".to_owned(), ..options };
        Ok(Cluster::connect(&target.brokers, login, options)?)
    }

    /// The schema registry of the client properties, or the one at `url` with the login of the
    /// properties. None without a URL.
    pub(crate) fn registry(&self, url: Option<&str>) -> Result<Option<Registry>, Failure> {
        let target = self.target()?;
        let place = url.map_or(target.place.clone(), |_| "--schema-registry".to_owned());
        let value = |key: &str| match url {
            Some(url) if key == levada_schema::URL => Some(url),
            _ => target.value(key),
        };
        let settings = RegistrySettings::of(&place, value);
        Ok(settings.map_err(|error| Failure::Usage(error.to_string()))?.map(Registry::new))
    }

    /// The brokers, and the client properties for them.
    fn target(&self) -> Result<Target, Failure> {
        let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(name) = &self.profile {
            return self.of_profile(name, &Profiles::load()?);
        }
        // A caller who names brokers or a login does not mean those of the current profile:
        // they are not mixed.
        let brokers = self.brokers.clone();
        let brokers = brokers.or_else(|| Some(variable("LEVADA_BROKERS")?.to_string_lossy().into_owned()));
        let config = self.command_config.clone().or_else(|| Some(variable("LEVADA_COMMAND_CONFIG")?.into()));
        if brokers.is_none() && config.is_none() {
            let named = variable("LEVADA_PROFILE").map(|name| name.to_string_lossy().into_owned());
            let profiles = Profiles::load()?;
            if let Some(name) = named.as_deref().or(profiles.current()) {
                return self.of_profile(name, &profiles);
            }
        }
        let brokers = brokers.unwrap_or_else(|| DEFAULT_BROKER.to_owned());
        match config {
            Some(path) => Target::of_file(brokers, &path),
            None => Ok(Target { brokers, place: String::new(), properties: None }),
        }
    }

    /// True if an option names brokers or a login.
    pub(crate) fn names_any(&self) -> bool {
        self.brokers.is_some() || self.command_config.is_some() || self.profile.is_some()
    }

    /// Brokers and properties of a profile, except values that an option overrides.
    fn of_profile(&self, name: &str, profiles: &Profiles) -> Result<Target, Failure> {
        let profile = profiles.profile(name)?;
        let brokers = self.brokers.clone().unwrap_or_else(|| profile.brokers.clone());
        match &self.command_config {
            Some(file) => Target::of_file(brokers, file),
            None => {
                let place = format!("profile {name}");
                Ok(Target { brokers, place, properties: Some(profile.properties.clone()) })
            }
        }
    }
}

/// Brokers, and client properties with their place, for errors.
struct Target {
    brokers: String,
    place: String,
    /// None without a profile and without a file.
    properties: Option<BTreeMap<String, String>>,
}

impl Target {
    /// Reads a file with Kafka's client properties. Names that have no effect cause a warning, once
    /// a process.
    fn of_file(brokers: String, path: &Path) -> Result<Self, Failure> {
        static WARNING: Once = Once::new();
        let shown = path.display();
        let text = fs::read(path)
            .map_err(|error| Failure::Usage(format!("cannot read --command-config {shown}: {error}")))?;
        let properties: Vec<Property> = parse_properties(&text).map_err(|error| {
            Failure::Usage(format!("--command-config {shown}: line {}: {}", error.line, error.reason))
        })?;
        let place = format!("--command-config {shown}");
        let names = properties.iter().map(|property| property.key.as_str());
        if let Some(warning) = properties::check_names(&place, names).map_err(Failure::Usage)? {
            WARNING.call_once(|| tell!("warning: {warning}"));
        }
        // The last line of a key counts.
        let trimmed = |property: Property| (property.key, property.value.trim().to_owned());
        Ok(Self { brokers, place, properties: Some(properties.into_iter().map(trimmed).collect()) })
    }

    /// The value of a client property.
    fn value(&self, key: &str) -> Option<&str> {
        self.properties.as_ref()?.get(key).map(String::as_str)
    }

    /// The login that the client properties describe.
    fn login(&self) -> Result<Login, Failure> {
        if self.properties.is_none() {
            return Ok(Login::default());
        }
        let login = Login::of(&self.place, |key: &str| self.value(key));
        let login = login.map_err(|error| Failure::Usage(error.to_string()))?;
        kafka_error::ask_as(login.user().map(str::to_owned));
        Ok(login)
    }
}
