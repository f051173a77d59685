//! Keys and values of records, decoded by the schemas of a registry.

use std::collections::HashSet;
use std::sync::Arc;

use levada_base::batch::Record;
use levada_schema::{Decoded, Fault, Label, Limits, Schemas, Side};
use serde_json::{Value, json};

/// Largest payload that is decoded, and its largest JSON.
const LIMITS: Limits = Limits { payload: 16 << 20, json: 64 << 20 };
/// Maximum number of causes of failures that are reported, each once.
const TOLD_MAX: usize = 50;

/// The decoder of a command.
pub(super) struct Reader {
    schemas: Schemas,
    /// Causes that the command has reported.
    told: HashSet<String>,
}

/// The parts of a record that have the id of a schema.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) key: Option<Part>,
    pub(super) value: Option<Part>,
}

/// A decoded part, or the reason why it is not decoded.
pub(super) type Part = Result<Decoded, Arc<Fault>>;

impl Parts {
    /// The JSON of a part, or otherwise its bytes.
    pub(super) fn shown<'p>(part: Option<&'p Part>, bytes: Option<&'p [u8]>) -> Option<&'p [u8]> {
        match part {
            Some(Ok(decoded)) => Some(decoded.json.as_bytes()),
            _ => bytes,
        }
    }
}

impl Reader {
    pub(super) fn new(schemas: Schemas) -> Self {
        Self { schemas, told: HashSet::new() }
    }

    /// Decodes a record, and reports the first failure of each cause.
    pub(super) fn decode(&mut self, record: &Record) -> Parts {
        let mut part = |side: Side, bytes: Option<&[u8]>| {
            let header = record.headers.iter().find(|header| header.key == side.header().as_bytes());
            let part = self.schemas.decode(bytes?, header.and_then(|header| header.value), LIMITS)?;
            if let Err(fault) = &part {
                self.tell(fault);
            }
            Some(part)
        };
        Parts {
            key: part(Side::Key, record.key.as_deref()),
            value: part(Side::Value, record.value.as_deref()),
        }
    }

    fn tell(&mut self, fault: &Fault) {
        let cause = match fault {
            // The reasons differ from record to record.
            Fault::Payload { id, .. } => format!("payload {id}"),
            other => other.to_string(),
        };
        if self.told.len() < TOLD_MAX && self.told.insert(cause) {
            tell!("not decoded: {fault}");
            if self.told.len() == TOLD_MAX {
                tell!("further causes are not shown; --output json has all of them");
            }
        }
    }
}

/// The names of a schema, for JSON.
pub(super) fn names(label: &Label) -> Value {
    let id = match label.id {
        levada_schema::SchemaId::Number(number) => json!(number),
        guid @ levada_schema::SchemaId::Guid(_) => json!(guid.to_string()),
    };
    json!({
        "id": id,
        "type": label.language.name(),
        "name": label.name,
        "subject": label.place.as_ref().map(|place| &place.subject),
        "version": label.place.as_ref().map(|place| place.version),
    })
}
