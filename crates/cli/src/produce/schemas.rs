//! Keys and values that are encoded by a schema.

use std::borrow::Cow;

use levada_client::Record;
use levada_schema::{Encoder, Schemas, Side};
use levada_terminal::failure::Failure;

use super::Args;
use crate::schema::Chosen;

/// Encoders of the parts that have a schema.
#[derive(Default)]
pub(super) struct Encoders {
    pub(super) key: Option<Part>,
    pub(super) value: Option<Part>,
}

/// The encoder of a part.
pub(super) struct Part(Encoder);

impl Part {
    /// The bytes of this JSON; an error names the part and the field.
    pub(super) fn encode(&self, name: &str, json: &str) -> Result<Vec<u8>, String> {
        self.0.encode(json).map_err(|reason| format!("the {name} does not fit its schema: {reason}"))
    }
}

impl Encoders {
    /// The encoders of the options. Requests their schemas.
    pub(super) fn of(args: &Args) -> Result<Self, Failure> {
        if args.key_schema.is_none() && args.value_schema.is_none() {
            return Ok(Self::default());
        }
        let schemas = Schemas::new(args.registry.required(&args.brokers)?);
        let encoder = |chosen: &Option<Chosen>, side: Side| {
            let encoder = chosen.as_ref().map(|chosen| chosen.encoder(&schemas, &args.topic, side));
            Ok::<_, Failure>(encoder.transpose()?.map(Part))
        };
        Ok(Self {
            key: encoder(&args.key_schema, Side::Key)?,
            value: encoder(&args.value_schema, Side::Value)?,
        })
    }

    /// The record with its parts, which are JSON, encoded.
    pub(super) fn encode<'l>(&self, record: Record<'l>) -> Result<Record<'l>, String> {
        let Record { key, value, headers, timestamp_ms, partition } = record;
        let (key, value) =
            (encoded(self.key.as_ref(), "key", key)?, encoded(self.value.as_ref(), "value", value)?);
        Ok(Record { key, value, headers, timestamp_ms, partition })
    }
}

fn encoded<'l>(
    encoder: Option<&Part>,
    name: &str,
    bytes: Option<Cow<'l, [u8]>>,
) -> Result<Option<Cow<'l, [u8]>>, String> {
    let (Some(encoder), Some(json)) = (encoder, &bytes) else { return Ok(bytes) };
    let json = std::str::from_utf8(json).map_err(|error| format!("the {name} is not JSON: {error}"))?;
    Ok(Some(Cow::Owned(encoder.encode(name, json)?)))
}
