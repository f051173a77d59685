//! A schema that an option names: by its id or its subject.

use std::str::FromStr;

use levada_schema::{Encoder, Schemas, Side};
use levada_terminal::failure::Failure;

use super::failed;

/// An id, or a subject with a version; `latest` is the subject of the topic. A message of a
/// Protobuf file may follow after a `#`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    schema: Schema,
    message: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Schema {
    Number(u32),
    /// The latest version without a number.
    Subject(String, Option<i32>),
    OfTopic,
}

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, message) = match text.split_once('#') {
            Some((text, message)) => (text, Some(message.to_owned()).filter(|message| !message.is_empty())),
            None => (text, None),
        };
        if text.is_empty() {
            return Err("expected an id, SUBJECT, SUBJECT:VERSION or latest".to_owned());
        }
        let schema = match (text, text.parse(), text.rsplit_once(':')) {
            ("latest", _, _) => Schema::OfTopic,
            (_, Ok(number), _) => Schema::Number(number),
            (_, _, Some((subject, "latest"))) => Schema::Subject(subject.to_owned(), None),
            (_, _, Some((subject, version))) if version.bytes().all(|byte| byte.is_ascii_digit()) => {
                let version = version.parse().map_err(|_| format!("{version:?} is no version"))?;
                Schema::Subject(subject.to_owned(), Some(version))
            }
            _ => Schema::Subject(text.to_owned(), None),
        };
        Ok(Self { schema, message })
    }
}

impl Chosen {
    /// The id of the schema, if the schema is chosen by its id.
    pub(super) fn number(&self) -> Option<u32> {
        match self.schema {
            Schema::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Subject and version; `latest` needs the subject of a topic.
    pub(super) fn subject(&self, of_topic: Option<String>) -> Result<(String, Option<i32>), Failure> {
        match (&self.schema, of_topic) {
            (Schema::Subject(subject, version), _) => Ok((subject.clone(), *version)),
            (_, Some(subject)) => Ok((subject, None)),
            (_, None) => {
                Err(Failure::Usage("latest has no subject here: expected SUBJECT:latest".to_owned()))
            }
        }
    }

    /// The encoder for a part of a topic's records. Requests the schema.
    pub(crate) fn encoder(&self, schemas: &Schemas, topic: &str, side: Side) -> Result<Encoder, Failure> {
        let number = match self.number() {
            Some(number) => number,
            None => {
                let (subject, version) = self.subject(Some(format!("{topic}{}", side.suffix())))?;
                schemas.registry().version(&subject, version).map_err(|error| failed(&error))?.id
            }
        };
        let encoder = schemas.encoder(number, self.message.as_deref());
        encoder
            .map_err(|fault| Failure::with_next(fault.to_string(), "levada schema get ID shows the schema"))
    }
}
