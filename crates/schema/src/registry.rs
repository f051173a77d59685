//! Requests to a schema registry, by Confluent's REST API: blocking, with limits for the time and
//! the size of each response.

use std::io::{ErrorKind, Read as _};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ureq::Agent;

use crate::frame::SchemaId;
use crate::settings::RegistrySettings;

/// Longest time for a response, including the connection.
const PATIENCE: Duration = Duration::from_secs(4);
/// Largest response, in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// Longest text of an error that is shown.
const SHOWN_CHARS: usize = 200;
const MEDIA: &str = "application/vnd.schemaregistry.v1+json, application/json";
/// Characters of a subject that a path contains unescaped.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of a registry.
pub struct Registry {
    agent: Agent,
    settings: RegistrySettings,
}

/// Language of a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Language {
    /// Apache Avro, also if the registry names no language.
    #[default]
    Avro,
    /// Protocol Buffers.
    Protobuf,
    /// JSON Schema.
    Json,
}

impl Language {
    /// The name that registries use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Avro => "AVRO",
            Self::Protobuf => "PROTOBUF",
            Self::Json => "JSON",
        }
    }
}

/// A schema that another one uses by a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Name in the text of the schema: a type of Avro, an import of Protobuf, a URL of JSON Schema.
    pub name: String,
    /// Subject of the schema.
    pub subject: String,
    /// Version of the subject.
    pub version: i32,
}

/// The text of a schema, as a registry returns it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Text of the schema.
    pub schema: String,
    /// Language of the schema.
    #[serde(default)]
    pub schema_type: Language,
    /// Schemas that the text uses.
    #[serde(default)]
    pub references: Vec<Reference>,
}

/// A schema under the version of a subject.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// The subject.
    pub subject: String,
    /// Number of the version.
    pub version: i32,
    /// Id of the schema.
    pub id: u32,
    /// The schema.
    #[serde(flatten)]
    pub source: Source,
}

/// A subject and a version of it that have a schema.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Place {
    /// The subject.
    pub subject: String,
    /// Number of the version.
    pub version: i32,
}

/// Reason why a request to a registry got no response. The text names the registry and the request.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegistryError {
    /// No address responded within the time.
    #[error("no response from the schema registry {urls}: {reason}")]
    Unreachable {
        /// The addresses, separated by commas.
        urls: String,
        /// The reason of the last one.
        reason: String,
    },
    /// The registry has no such schema, subject or version.
    #[error("the schema registry {url} has no {what} ({reason})")]
    Missing {
        /// The address.
        url: String,
        /// The request as text.
        what: String,
        /// Reason in the registry's words.
        reason: String,
    },
    /// The registry refuses the request.
    #[error("the schema registry {url} responds to the request for {what} with status {status} ({reason})")]
    Refused {
        /// The address.
        url: String,
        /// The request as text.
        what: String,
        /// HTTP status.
        status: u16,
        /// Reason in the registry's words.
        reason: String,
    },
    /// The response has an unexpected form.
    #[error("the schema registry {url} sends an unexpected response to the request for {what}: {reason}")]
    Garbage {
        /// The address.
        url: String,
        /// The request as text.
        what: String,
        /// The problem.
        reason: String,
    },
}

/// The body of an error.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

/// The response to a registration.
#[derive(Deserialize)]
struct Registered {
    id: u32,
}

impl Registry {
    /// A client, which connects with its first request.
    #[must_use]
    pub fn new(settings: RegistrySettings) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .proxy(None)
            // A redirect would take the login, and the request, to another host.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .tls_config(settings.tls.clone().unwrap_or_default());
        Self { agent: config.build().new_agent(), settings }
    }

    /// The addresses, separated by commas.
    #[must_use]
    pub fn urls(&self) -> String {
        self.settings.urls.join(", ")
    }

    /// The schema with an id.
    ///
    /// # Errors
    /// As [`RegistryError`] says.
    pub fn schema(&self, id: SchemaId) -> Result<Source, RegistryError> {
        match id {
            SchemaId::Number(number) => {
                self.ask(&format!("/schemas/ids/{number}"), &format!("schema {id}"), None)
            }
            SchemaId::Guid(_) => self.ask(&format!("/schemas/guids/{id}"), &format!("schema {id}"), None),
        }
    }

    /// Subjects and versions of the schema with this number.
    ///
    /// # Errors
    /// As [`RegistryError`] says.
    pub fn places(&self, number: u32) -> Result<Vec<Place>, RegistryError> {
        self.ask(&format!("/schemas/ids/{number}/versions"), &format!("versions of schema {number}"), None)
    }

    /// All subjects.
    ///
    /// # Errors
    /// As [`RegistryError`] says.
    pub fn subjects(&self) -> Result<Vec<String>, RegistryError> {
        self.ask("/subjects", "the list of subjects", None)
    }

    /// A version of a subject; without a number, the latest one.
    ///
    /// # Errors
    /// As [`RegistryError`] says.
    pub fn version(&self, subject: &str, version: Option<i32>) -> Result<Version, RegistryError> {
        let version = version.map_or_else(|| "latest".to_owned(), |version| version.to_string());
        let path = format!("/subjects/{}/versions/{version}", utf8_percent_encode(subject, IN_PATH));
        self.ask(&path, &format!("version {version} of subject {subject}"), None)
    }

    /// Registers a schema under a subject. Returns its id, which is the existing id if the subject
    /// already has this schema.
    ///
    /// # Errors
    /// As [`RegistryError`] says.
    pub fn register(&self, subject: &str, source: &Source) -> Result<u32, RegistryError> {
        let body = serde_json::json!({
            "schema": source.schema,
            "schemaType": source.schema_type,
            "references": source.references,
        });
        let path = format!("/subjects/{}/versions", utf8_percent_encode(subject, IN_PATH));
        let registered: Registered =
            self.ask(&path, &format!("registration under subject {subject}"), Some(&body.to_string()))?;
        Ok(registered.id)
    }

    /// Sends a request to one address after the other, until one of them responds.
    fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        what: &str,
        body: Option<&str>,
    ) -> Result<T, RegistryError> {
        let mut reason = String::new();
        for base in &self.settings.urls {
            let url = format!("{base}{path}");
            // A registry closes connections that were idle; the same schema gets the same id again.
            let sent = match self.send(&url, body) {
                Err(error) if has_closed(&error) => self.send(&url, body),
                sent => sent,
            };
            match sent {
                Ok((status, answer)) => return understood(base, what, (status, &answer)),
                Err(error) => reason = shown(&error.to_string()),
            }
        }
        Err(RegistryError::Unreachable { urls: self.urls(), reason })
    }

    /// The status and the body of a response, at most [`ANSWER_BYTES_MAX`] and one byte of it.
    fn send(&self, url: &str, body: Option<&str>) -> Result<(u16, Vec<u8>), ureq::Error> {
        let login = self.settings.authorization.as_deref();
        let mut response = match body {
            None => {
                let mut request = self.agent.get(url).header("Accept", MEDIA);
                if let Some(login) = login {
                    request = request.header("Authorization", login);
                }
                request.call()?
            }
            Some(body) => {
                let mut request = self.agent.post(url).header("Accept", MEDIA);
                if let Some(login) = login {
                    request = request.header("Authorization", login);
                }
                request.header("Content-Type", "application/vnd.schemaregistry.v1+json").send(body)?
            }
        };
        let mut answer = Vec::new();
        response.body_mut().as_reader().take(ANSWER_BYTES_MAX + 1).read_to_end(&mut answer)?;
        Ok((response.status().as_u16(), answer))
    }
}

/// True if the other side has closed the connection.
fn has_closed(error: &ureq::Error) -> bool {
    let ureq::Error::Io(error) = error else { return false };
    let (reset, aborted) = (ErrorKind::ConnectionReset, ErrorKind::ConnectionAborted);
    [reset, aborted, ErrorKind::BrokenPipe, ErrorKind::UnexpectedEof].contains(&error.kind())
}

fn understood<T: DeserializeOwned>(
    url: &str,
    what: &str,
    (status, answer): (u16, &[u8]),
) -> Result<T, RegistryError> {
    let (url, what) = (url.to_owned(), what.to_owned());
    if status != 200 {
        let reason = match serde_json::from_slice::<Refusal>(answer) {
            Ok(refusal) => shown(&refusal.message),
            Err(_) => format!("status {status}"),
        };
        return Err(match status {
            404 => RegistryError::Missing { url, what, reason },
            _ => RegistryError::Refused { url, what, status, reason },
        });
    }
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        let reason = format!("it has more than {ANSWER_BYTES_MAX} bytes");
        return Err(RegistryError::Garbage { url, what, reason });
    }
    serde_json::from_slice(answer).map_err(|error| RegistryError::Garbage {
        url,
        what,
        reason: shown(&error.to_string()),
    })
}

/// The beginning of a text of another program, in one line.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
pub(crate) mod tests;
