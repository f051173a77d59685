//! `--input json`: lines in the form that `levada consume --output json` prints.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use levada_client::Record;
use levada_client::producer::Header;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// A line. Topic and offset are those of the original record.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(rename = "topic", default)]
    _topic: Option<IgnoredAny>,
    #[serde(rename = "offset", default)]
    _offset: Option<IgnoredAny>,
    partition: Option<i32>,
    timestamp_ms: Option<i64>,
    #[serde(default)]
    headers: Vec<Entry>,
    key: Option<String>,
    key_base64: Option<String>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Option<String>>,
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
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// The record of a line. Only `"value": null` makes a tombstone: a misspelt or missing field is an
/// error.
pub(super) fn record(line: &[u8]) -> Result<Record<'static>, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| shown(&error))?;
    if line.value.is_none() && line.value_base64.is_none() {
        return Err("there is no value; a tombstone has \"value\": null".to_owned());
    }
    let header = |entry: Entry| -> Result<Header<'static>, String> {
        let key = bytes("key", entry.key, entry.key_base64)?;
        Ok((key.ok_or("a header has no key")?, bytes("value", entry.value, entry.value_base64)?))
    };
    Ok(Record {
        key: bytes("key", line.key, line.key_base64)?,
        value: bytes("value", line.value.flatten(), line.value_base64)?,
        headers: line.headers.into_iter().map(header).collect::<Result<_, _>>()?,
        timestamp_ms: line.timestamp_ms,
        partition: line.partition,
    })
}

/// The error with its column alone: the text is one line of the input.
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
