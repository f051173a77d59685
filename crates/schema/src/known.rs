//! One compiled schema, the decoding of a record with it, and the reasons for failures.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::avro::Avro;
use crate::frame::{Framed, SchemaId};
use crate::protobuf::{self, Protobuf};
use crate::registry::{Language, Place, RegistryError, Source};
use crate::text;

/// Maximum number of bytes of an encoded part, and of its JSON.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a payload that is decoded. Its decoded form needs up to a hundred times of that in
    /// memory.
    pub payload: usize,
    /// Bytes of its JSON.
    pub json: usize,
}

/// A schema that can decode and encode.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) id: SchemaId,
    pub(crate) place: Option<Place>,
    pub(crate) language: Language,
    pub(crate) compiled: Compiled,
    pub(crate) text_bytes: usize,
}

#[derive(Debug)]
pub(crate) enum Compiled {
    Avro(Avro),
    Protobuf(Protobuf),
    Json { title: Option<String> },
}

/// A part of a record as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The JSON in one line.
    pub json: String,
    /// The schema that it has.
    pub label: Label,
}

/// Names of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The id in the record.
    pub id: SchemaId,
    /// The language.
    pub language: Language,
    /// Name of the type or message, or title of the JSON Schema.
    pub name: Option<String>,
    /// Subject and version, if the registry has any; the first of several.
    pub place: Option<Place>,
}

/// Reason why a part with the id of a schema is not decoded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// The registry has not returned the schema.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A schema that cannot be used.
    #[error("schema {id} cannot be used: {reason}")]
    Schema {
        /// The schema.
        id: SchemaId,
        /// The reason.
        reason: String,
    },
    /// A payload that is none of the schema.
    #[error("the bytes do not fit schema {id}: {reason}")]
    Payload {
        /// The schema.
        id: SchemaId,
        /// The reason.
        reason: String,
    },
}

impl Fault {
    /// True if the registry did not respond.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Registry(RegistryError::Unreachable { .. }))
    }
}

impl Compiled {
    pub(crate) fn of(source: &Source, used: &[(String, String)]) -> Result<Self, String> {
        match source.schema_type {
            Language::Avro => {
                let used = used.iter().map(|(_, text)| text.as_str());
                Avro::parse(used.chain([source.schema.as_str()])).map(Self::Avro)
            }
            Language::Protobuf => {
                let used = used.iter().map(|(name, text)| (name.as_str(), text.as_str()));
                Protobuf::parse(&source.schema, used).map(Self::Protobuf)
            }
            Language::Json => {
                let title =
                    serde_json::from_str::<Titled>(&source.schema).ok().and_then(|schema| schema.title);
                Ok(Self::Json { title })
            }
        }
    }
}

/// A JSON Schema, of which only the title is used.
#[derive(Deserialize)]
struct Titled {
    title: Option<String>,
}

impl Known {
    pub(crate) fn decode(&self, framed: &Framed<'_>, limits: Limits) -> Result<Decoded, Fault> {
        let fault = |reason: String| Fault::Payload { id: self.id, reason };
        let payload = framed.payload();
        if payload.len() > limits.payload {
            let (len, most) = (payload.len(), limits.payload);
            return Err(fault(format!("there are {len} bytes, and at most {most} are decoded")));
        }
        let (json, name) = match &self.compiled {
            Compiled::Avro(schema) => {
                let json = schema.decode(payload, limits.json).map_err(|damage| fault(damage.to_string()))?;
                (json, Some(schema.name().to_owned()))
            }
            Compiled::Protobuf(file) => {
                let found = framed.message();
                let (place, payload) =
                    found.ok_or_else(|| fault("the indexes of the message are malformed".to_owned()))?;
                let message = file.message(&place);
                let message =
                    message.ok_or_else(|| fault(format!("the file has no message at {place:?}")))?;
                let name = message.full_name().to_owned();
                (protobuf::decode(message, payload, limits.json).map_err(fault)?, Some(name))
            }
            Compiled::Json { title } => {
                let text = std::str::from_utf8(payload).map_err(|error| fault(error.to_string()))?;
                serde_json::from_str::<IgnoredAny>(text).map_err(|error| fault(error.to_string()))?;
                (text::compact(text), title.clone())
            }
        };
        Ok(Decoded { json, label: self.label(name) })
    }

    fn label(&self, name: Option<String>) -> Label {
        Label { id: self.id, language: self.language, name, place: self.place.clone() }
    }
}
