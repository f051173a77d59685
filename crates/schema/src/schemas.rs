//! Schemas of a registry: records are decoded into JSON, and JSON is encoded into records.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::de::IgnoredAny;

use crate::cache::Cache;
use crate::frame::{self, Framed, SchemaId};
use crate::known::{Compiled, Decoded, Fault, Known, Limits};
use crate::protobuf;
use crate::registry::{Reference, Registry, RegistryError, Source};
use crate::text;

/// Maximum number of schemas that one schema may use, directly or through others.
const REFERENCES_MAX: usize = 128;
/// Bytes of their texts.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Time limit for all schemas that one schema uses.
const PATIENCE: Duration = Duration::from_secs(8);

/// Schemas that are read from a registry when they are first needed, and kept.
pub struct Schemas {
    registry: Registry,
    cache: Mutex<Cache>,
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").field("urls", &self.registry.urls()).finish_non_exhaustive()
    }
}

impl Schemas {
    /// An empty cache of schemas from a registry.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self { registry, cache: Mutex::default() }
    }

    /// The registry.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A part of a record as JSON; `header` is the value of its [`Side::header`](crate::Side). None
    /// if the part has no id of a schema. Blocks for a few seconds if the schema is not known and
    /// the registry does not respond.
    pub fn decode(
        &self,
        bytes: &[u8],
        header: Option<&[u8]>,
        limits: Limits,
    ) -> Option<Result<Decoded, Arc<Fault>>> {
        let framed = Framed::of(bytes, header)?;
        Some(self.known(framed.id, Instant::now()).and_then(|known| Ok(known.decode(&framed, limits)?)))
    }

    /// An encoder of the schema with this number. `message` is a message of a Protobuf file; the
    /// first one without it. Blocks as [`Schemas::decode`].
    ///
    /// # Errors
    /// The registry does not return the schema, the schema cannot be used, or the file has no such
    /// message.
    pub fn encoder(&self, number: u32, message: Option<&str>) -> Result<Encoder, Arc<Fault>> {
        let id = SchemaId::Number(number);
        let known = self.known(id, Instant::now())?;
        let place = match &known.compiled {
            Compiled::Protobuf(file) => {
                let found = file.named(message).map_err(|reason| Fault::Schema { id, reason })?;
                Some(found.1)
            }
            _ => None,
        };
        Ok(Encoder { known, number, place })
    }

    fn known(&self, id: SchemaId, now: Instant) -> Result<Arc<Known>, Arc<Fault>> {
        if let Some(found) = self.cache.lock().find(id, now) {
            return found;
        }
        // The lock is free meanwhile: another thread may ask the same.
        let found = self.read(id).map(Arc::new).map_err(Arc::new);
        self.cache.lock().keep(id, &found, Instant::now());
        found
    }

    fn read(&self, id: SchemaId) -> Result<Known, Fault> {
        let source = self.registry.schema(id)?;
        let mut used = Used::new(&source);
        self.collect(id, &source.references, &mut used)?;
        // A name for people: a registry that cannot tell it is no fault.
        let place = match id {
            SchemaId::Number(number) => {
                self.registry.places(number).ok().and_then(|places| places.into_iter().next())
            }
            SchemaId::Guid(_) => None,
        };
        let compiled = Compiled::of(&source, &used.found).map_err(|reason| Fault::Schema { id, reason })?;
        Ok(Known { id, place, language: source.schema_type, compiled, text_bytes: used.text_bytes })
    }

    /// Reads the schemas to which a schema refers, each after its own references.
    fn collect(&self, id: SchemaId, references: &[Reference], used: &mut Used) -> Result<(), Fault> {
        for reference in references {
            if !used.seen.insert((reference.subject.clone(), reference.version)) {
                continue;
            }
            if Instant::now() > used.until {
                let reason = format!("the schemas that schema {id} uses take longer than {PATIENCE:?}");
                return Err(RegistryError::Unreachable { urls: self.registry.urls(), reason }.into());
            }
            let source = self.registry.version(&reference.subject, Some(reference.version))?.source;
            used.text_bytes += source.schema.len();
            if used.seen.len() > REFERENCES_MAX || used.text_bytes > TEXT_BYTES_MAX {
                let reason = format!(
                    "it uses more than {REFERENCES_MAX} schemas, or more than {TEXT_BYTES_MAX} bytes of them"
                );
                return Err(Fault::Schema { id, reason });
            }
            self.collect(id, &source.references, used)?;
            used.found.push((reference.name.clone(), source.schema));
        }
        Ok(())
    }
}

/// Schemas that a schema uses, by the name of the reference.
struct Used {
    found: Vec<(String, String)>,
    seen: HashSet<(String, i32)>,
    text_bytes: usize,
    until: Instant,
}

impl Used {
    fn new(source: &Source) -> Self {
        let (found, seen, text_bytes) = (Vec::new(), HashSet::new(), source.schema.len());
        Self { found, seen, text_bytes, until: Instant::now() + PATIENCE }
    }
}

/// Encodes JSON by one schema.
#[derive(Clone, Debug)]
pub struct Encoder {
    known: Arc<Known>,
    number: u32,
    /// Position of the message in a Protobuf file.
    place: Option<Vec<usize>>,
}

impl Encoder {
    /// The id, and the encoded payload of this JSON. The JSON of a JSON Schema is not validated.
    ///
    /// # Errors
    /// The field that does not fit, and what the schema has there.
    pub fn encode(&self, json: &str) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(json.len());
        frame::push_prefix(&mut out, self.number, self.place.as_deref());
        let not_json = |error: serde_json::Error| format!("this is not JSON: {error}");
        match &self.known.compiled {
            Compiled::Avro(schema) => {
                let value = serde_json::from_str(json).map_err(not_json)?;
                schema.encode(&value, &mut out).map_err(|misfit| misfit.to_string())?;
            }
            Compiled::Protobuf(file) => {
                let message = self.place.as_deref().and_then(|place| file.message(place));
                let message = message.ok_or("the file has no message")?;
                out.extend(protobuf::encode(message, json)?);
            }
            Compiled::Json { .. } => {
                serde_json::from_str::<IgnoredAny>(json).map_err(not_json)?;
                out.extend_from_slice(text::compact(json).as_bytes());
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
pub(crate) mod tests;
