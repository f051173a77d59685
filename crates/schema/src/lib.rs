//! Records with a schema: the wire format of Confluent's schema registry, the client of a registry,
//! and Avro, Protobuf and JSON as JSON text.
//!
//! [`Schemas`] decodes and encodes. It asks the registry for a schema once; its memory and the time
//! of a request have limits, and so have the depth and the JSON of a record. Everything here
//! blocks: nothing of it may run on a shard.

mod avro;
mod cache;
mod frame;
mod known;
mod protobuf;
mod registry;
mod schemas;
mod settings;
mod text;

pub use self::frame::{SchemaId, Side};
pub use self::known::{Decoded, Fault, Label, Limits};
pub use self::registry::{Language, Place, Reference, Registry, RegistryError, Source, Version};
pub use self::schemas::{Encoder, Schemas};
pub use self::settings::{RegistrySettings, SettingsError, URL};
