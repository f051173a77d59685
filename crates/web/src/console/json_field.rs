//! A field of JSON that a record's value must have: `order.items.0.id=7`.

use serde_json::Value;

/// Longest JSON that is searched for a field, in bytes: parsed JSON takes many times its length.
const BYTES_MAX: usize = 256 << 10;

/// The path to a field, and its value.
#[derive(Clone, Debug)]
pub(super) struct JsonField {
    path: Vec<String>,
    value: String,
}

impl JsonField {
    /// Reads `path=value`; an error is a sentence for the reader.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => {
                let path = path.trim().split('.').map(str::to_owned).collect();
                Ok(Self { path, value: value.trim().to_owned() })
            }
            _ => Err(format!("{text:?} is not a field with a value; write order.id=7")),
        }
    }

    /// True if the text is JSON whose field has the value: text without quotes, everything else as
    /// JSON writes it.
    pub(super) fn is_in(&self, json: &[u8]) -> bool {
        if json.len() > BYTES_MAX {
            return false;
        }
        let Ok(whole) = serde_json::from_slice::<Value>(json) else { return false };
        match self.path.iter().try_fold(&whole, |value, name| child(value, name)) {
            Some(Value::String(text)) => *text == self.value,
            Some(other) => serde_json::to_string(other).is_ok_and(|text| text == self.value),
            None => false,
        }
    }
}

/// The field of an object, or the element of an array by its number.
fn child<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(values) => values.get(name.parse::<usize>().ok()?),
        Value::Object(fields) => fields.get(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
