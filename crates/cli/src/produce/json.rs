//! `--input json`: lines in the form that `levada consume --output json` prints.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use levada_client::Record;
use levada_client::producer::Header;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::schemas::Encoders;

/// An input line. Topic and offset are those of the original record, as are the schemas and the
/// reasons why a part was not decoded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(rename = "topic", default)]
    _topic: Option<IgnoredAny>,
    #[serde(rename = "offset", default)]
    _offset: Option<IgnoredAny>,
    #[serde(rename = "key_schema", default)]
    _key_schema: Option<IgnoredAny>,
    #[serde(rename = "key_error", default)]
    _key_error: Option<IgnoredAny>,
    #[serde(rename = "value_schema", default)]
    _value_schema: Option<IgnoredAny>,
    #[serde(rename = "value_error", default)]
    _value_error: Option<IgnoredAny>,
    partition: Option<i32>,
    timestamp_ms: Option<i64>,
    #[serde(default)]
    headers: Vec<Entry>,
    key: Option<Box<RawValue>>,
    key_base64: Option<String>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Option<Box<RawValue>>>,
    value_base64: Option<String>,
}

/// A header.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
}

/// Distinguishes `null` from an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Box<RawValue>>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The record of a line. Only `"value": null` makes a tombstone: a misspelt or missing field is an
/// error. The encoders take any JSON as key and value, and leave bytes in base64 as they are.
pub(super) fn record(line: &[u8], encoders: &Encoders) -> Result<Record<'static>, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| shown(&error))?;
    if line.value.is_none() && line.value_base64.is_none() {
        return Err("the value is missing; write \"value\": null for a tombstone".to_owned());
    }
    let header = |entry: Entry| -> Result<Header<'static>, String> {
        let key = bytes("key", entry.key, entry.key_base64)?;
        Ok((key.ok_or("a header has no key")?, bytes("value", entry.value, entry.value_base64)?))
    };
    Ok(Record {
        key: match (&encoders.key, &line.key, &line.key_base64) {
            (Some(encoder), Some(json), None) => Some(Cow::Owned(encoder.encode("key", json.get())?)),
            _ => bytes("key", string("key", line.key)?, line.key_base64)?,
        },
        value: match (&encoders.value, &line.value, &line.value_base64) {
            (Some(encoder), Some(Some(json)), None) => Some(Cow::Owned(encoder.encode("value", json.get())?)),
            _ => bytes("value", string("value", line.value.flatten())?, line.value_base64)?,
        },
        headers: line.headers.into_iter().map(header).collect::<Result<_, _>>()?,
        timestamp_ms: line.timestamp_ms,
        partition: line.partition,
    })
}

/// The text of a part without a schema.
fn string(name: &str, json: Option<Box<RawValue>>) -> Result<Option<String>, String> {
    let Some(json) = json else { return Ok(None) };
    let parsed = serde_json::from_str(json.get());
    parsed.map(Some).map_err(|_| format!("{name}: expected a string; other JSON needs --{name}-schema"))
}

/// The error with only its column: the text is one line of the input.
fn shown(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(text) => format!("{text} at column {}", error.column()),
        None => text,
    }
}

fn bytes(
    name: &str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Cow<'static, [u8]>>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(format!("the line has both {name} and {name}_base64")),
        (Some(text), None) => Ok(Some(Cow::Owned(text.into_bytes()))),
        (None, Some(text)) => match BASE64.decode(text) {
            Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
            Err(error) => Err(format!("{name}_base64 is not base64: {error}")),
        },
        (None, None) => Ok(None),
    }
}
