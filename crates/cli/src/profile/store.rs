//! The profile file: TOML, readable only by its owner.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::{Deserialize, Serialize};

use levada_client::properties::{self, Name};
use levada_terminal::failure::Failure;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Permissions of anyone but the owner.
const OF_OTHERS: u32 = 0o077;

/// A cluster by name.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// Addresses, separated by commas.
    pub(crate) brokers: String,
    /// Settings of a Kafka client, as in its properties file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) properties: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Content {
    current: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// All profiles of the user.
#[derive(Debug)]
pub(crate) struct Profiles {
    path: Option<PathBuf>,
    content: Content,
}

/// Makes the path of a key or trust store independent of the working directory.
pub(super) fn make_absolute(key: &str, value: &mut String) {
    if key.ends_with(".location")
        && let Ok(path) = std::path::absolute(&*value)
    {
        *value = path.display().to_string();
    }
}

impl Profile {
    /// Protocol, and mechanism if there is one.
    pub(super) fn security(&self) -> &str {
        self.properties.get("security.protocol").map_or("PLAINTEXT", String::as_str)
    }

    fn check(&self, name: &str) -> Result<(), Failure> {
        if self.brokers.trim().is_empty() {
            return Err(Failure::Usage(format!("profile {name}: brokers is empty: expected HOST:PORT")));
        }
        for key in self.properties.keys() {
            let hint = match Name::of(key) {
                Name::Read => continue,
                Name::Misspelt(nearest) | Name::Unknown(Some(nearest)) => format!("the nearest is {nearest}"),
                Name::Omitted | Name::Unknown(None) => {
                    format!("a profile has {}", properties::READ)
                }
            };
            return Err(Failure::Usage(format!("profile {name}: unknown client property {key}; {hint}")));
        }
        Ok(())
    }

    /// Checks the values that a new profile must not have wrong: addresses, protocol and mechanism.
    fn check_values(&self, name: &str) -> Result<(), Failure> {
        let wrong = |what: &str| Failure::Usage(format!("profile {name}: {what}"));
        for address in self.brokers.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            check_address(address).map_err(|what| wrong(&format!("broker {address}: {what}")))?;
        }
        let value = |key: &str| self.properties.get(key).map(|value| value.trim());
        let (_, has_sasl) = properties::protocol(value("security.protocol")).map_err(wrong)?;
        if has_sasl || value("sasl.mechanism").is_some() {
            properties::mechanism(value("sasl.mechanism")).map_err(wrong)?;
        }
        Ok(())
    }
}

/// Checks `HOST`, `HOST:PORT` or the same with an IPv6 address in brackets.
fn check_address(address: &str) -> Result<(), &'static str> {
    const EXPECTED: &str = "expected HOST:PORT with a port from 1 to 65535, such as localhost:9092";
    if address.contains('/') {
        return Err("expected HOST:PORT without http:// or a path");
    }
    let (host, port) = match address.rsplit_once(']') {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or(EXPECTED)?)),
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    let is_port = |port: &str| port.parse().is_ok_and(|port: u16| port > 0);
    if host.is_empty() || !port.is_none_or(is_port) { Err(EXPECTED) } else { Ok(()) }
}

impl Profiles {
    /// Reads the user's profiles; none if there is no file.
    pub(crate) fn load() -> Result<Self, Failure> {
        match path() {
            Some(path) => Self::read(path),
            None => Ok(Self { path: None, content: Content::default() }),
        }
    }

    pub(super) fn read(path: PathBuf) -> Result<Self, Failure> {
        let content = match fs::metadata(&path) {
            Ok(metadata) => content(&path, &metadata)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Content::default(),
            Err(error) => return Err(failed("read", &path, &error)),
        };
        for (name, profile) in &content.profiles {
            profile.check(name)?;
        }
        Ok(Self { path: Some(path), content })
    }

    /// The name of the current profile.
    pub(crate) fn current(&self) -> Option<&str> {
        self.content.current.as_deref()
    }

    /// A profile by name.
    pub(crate) fn profile(&self, name: &str) -> Result<&Profile, Failure> {
        self.content.profiles.get(name).ok_or_else(|| missing(name))
    }

    /// All profiles by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &Profile)> {
        self.content.profiles.iter()
    }

    /// Adds a profile; one of that name must not exist.
    pub(super) fn create(&mut self, name: &str, profile: Profile) -> Result<(), Failure> {
        profile.check(name)?;
        profile.check_values(name)?;
        if self.content.profiles.contains_key(name) {
            return Err(Failure::with_next(
                format!("profile {name} exists"),
                format!("levada profile delete {name}, or another name"),
            ));
        }
        self.content.profiles.insert(name.to_owned(), profile);
        Ok(())
    }

    /// Selects the current profile, or none.
    pub(super) fn make_current(&mut self, name: Option<&str>) -> Result<(), Failure> {
        if let Some(name) = name {
            self.profile(name)?;
        }
        self.content.current = name.map(str::to_owned);
        Ok(())
    }

    /// Removes a profile.
    pub(super) fn delete(&mut self, name: &str) -> Result<(), Failure> {
        self.content.profiles.remove(name).ok_or_else(|| missing(name))?;
        if self.current() == Some(name) {
            self.content.current = None;
        }
        Ok(())
    }

    /// Replaces the whole file, readable only by its owner.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let path = self.path.as_ref().ok_or_else(|| {
            Failure::with_next(
                "the directory for profiles is unknown: HOME is not set",
                "HOME or XDG_CONFIG_HOME",
            )
        })?;
        let text = toml::to_string_pretty(&self.content)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
        replace(path, &text).map_err(|error| failed("write", path, &error))
    }
}

/// The file of the profiles; `None` for a user without a home.
fn path() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(directory.join("levada/profiles.toml"))
}

fn content(path: &Path, metadata: &fs::Metadata) -> Result<Content, Failure> {
    let shown = path.display();
    let mode = metadata.mode() & 0o777;
    if mode & OF_OTHERS != 0 {
        return Err(Failure::with_next(
            format!("{shown} may hold passwords and is open to other users (mode {mode:04o})"),
            format!("chmod 600 {shown}"),
        ));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(Failure::new(format!("{shown} is larger than 1 MiB: it holds no profiles")));
    }
    let text = fs::read_to_string(path).map_err(|error| failed("read", path, &error))?;
    toml::from_str(&text).map_err(|error| {
        // Other messages of the parser repeat values, which may be passwords.
        let is_about_a_key =
            ["unknown field", "missing field"].iter().any(|one| error.message().starts_with(one));
        let what =
            if is_about_a_key { error.message() } else { "the syntax, or the type of a value, is wrong" };
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        Failure::Usage(format!("{shown}: line {line}: {what}"))
    })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let new = path.with_extension("toml.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn failed(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {verb} the profiles in {}: {error}", path.display()))
}

fn missing(name: &str) -> Failure {
    Failure::with_next(format!("there is no profile {name}"), "levada profile list shows the names")
}

#[cfg(test)]
mod tests;
