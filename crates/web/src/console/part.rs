//! The key or the value of a record: its bytes, or the value that the schemas of a registry decode
//! from it.

use std::sync::Arc;

use levada_base::batch::Record;
use levada_schema::{Decoded, Fault, Label, Language, Limits, Schemas, Side};

use super::format::{self, Shown};

/// Bytes of a key or value that are shown.
pub(super) const SHOWN_BYTES: usize = 4096;
/// Largest payload that is decoded, and its largest JSON.
const LIMITS: Limits = Limits { payload: 256 << 10, json: 1 << 20 };

/// A part of a record that is searched and perhaps shown.
pub(super) struct Part<'a> {
    bytes: &'a [u8],
    /// The decoded part if it has the id of a schema, or the reason why it is not decoded.
    decoded: Option<Result<Decoded, Arc<Fault>>>,
}

/// A part as a page shows it.
#[derive(Clone, Debug)]
pub(super) struct ShownPart {
    /// Beginning of the part.
    pub(super) shown: Shown,
    /// Length of the part, bytes.
    pub(super) len: usize,
    /// The names of its schema, or the reason why it is not decoded.
    pub(super) schema: Option<Result<String, String>>,
}

impl<'a> Part<'a> {
    /// A part of a record, if the record has it. Waits for the registry if there is one and the
    /// schema is new.
    pub(super) fn of(schemas: Option<&Schemas>, side: Side, record: &'a Record) -> Option<Self> {
        let bytes: &[u8] = match side {
            Side::Key => record.key.as_ref()?,
            Side::Value => record.value.as_ref()?,
        };
        let decoded = schemas.and_then(|schemas| {
            let header = record.headers.iter().find(|header| header.key == side.header().as_bytes());
            schemas.decode(bytes, header.and_then(|header| header.value), LIMITS)
        });
        Some(Self { bytes, decoded })
    }

    /// The bytes in which a filter searches: those of the JSON if the part is decoded.
    pub(super) fn searched(&self) -> &[u8] {
        match &self.decoded {
            Some(Ok(decoded)) => decoded.json.as_bytes(),
            _ => self.bytes,
        }
    }

    /// The part for a page.
    pub(super) fn shown(self) -> ShownPart {
        let shown = format::shown(self.searched(), SHOWN_BYTES);
        let schema = self.decoded.map(|decoded| match decoded {
            Ok(decoded) => Ok(names(&decoded.label)),
            Err(fault) => Err(format!("not decoded: {fault}")),
        });
        ShownPart { shown, len: self.bytes.len(), schema }
    }
}

impl ShownPart {
    /// Form of the text, and the schema.
    pub(super) fn form(&self) -> String {
        match &self.schema {
            None => self.shown.form.to_owned(),
            Some(Ok(schema)) => schema.clone(),
            Some(Err(reason)) => format!("{}; {reason}", self.shown.form),
        }
    }
}

/// Language, id, name and subject of a schema.
fn names(label: &Label) -> String {
    let language = match label.language {
        Language::Avro => "Avro",
        Language::Protobuf => "Protobuf",
        Language::Json => "JSON",
    };
    let mut text = format!("{language}, schema {}", label.id);
    if let Some(name) = &label.name {
        text.push_str(&format!(", {name}"));
    }
    if let Some(place) = &label.place {
        text.push_str(&format!(" ({} version {})", place.subject, place.version));
    }
    text
}
