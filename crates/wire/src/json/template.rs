//! Defaults as JSON.

use serde_json::{Map, Number, Value};

use super::layout::{Field, Kind};

/// All fields of a version with their defaults, arrays with one element.
pub(super) fn of(fields: &[Field], version: i16) -> Value {
    let present = fields.iter().filter(|field| field.versions.contains(version));
    let entry = |field: &Field| {
        let value = match &field.kind {
            Kind::Array(element) if field.default.is_none() => Value::Array(vec![example(element, version)]),
            Kind::Struct(fields) if field.default.is_none() => of(fields, version),
            _ => default(field, version),
        };
        (field.name.to_owned(), value)
    };
    Value::Object(present.map(entry).collect())
}

fn example(kind: &Kind, version: i16) -> Value {
    match kind {
        Kind::Struct(fields) => of(fields, version),
        kind => zero(kind),
    }
}

/// The value of a field that is left out.
pub(super) fn default(field: &Field, version: i16) -> Value {
    let Some(text) = field.default else { return zero(&field.kind) };
    let whole = || match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match (&field.kind, text) {
        (_, "null") if field.is_nullable(version) => Value::Null,
        (_, "null") => zero(&field.kind),
        (Kind::Bool, _) => Value::Bool(text == "true"),
        (Kind::Text, _) => Value::String(text.to_owned()),
        (Kind::Float64, _) => text.parse().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number),
        _ => whole().map_or(Value::Null, Value::from),
    }
}

/// The value of a type without another default.
fn zero(kind: &Kind) -> Value {
    match kind {
        Kind::Bool => Value::Bool(false),
        Kind::Int8 | Kind::Int16 | Kind::Uint16 | Kind::Int32 | Kind::Int64 => Value::from(0),
        Kind::Float64 => Value::from(0.0),
        Kind::Text | Kind::Bytes => Value::String(String::new()),
        Kind::Uuid => Value::String("AAAAAAAAAAAAAAAAAAAAAA".to_owned()),
        Kind::Struct(_) => Value::Object(Map::new()),
        Kind::Array(_) => Value::Array(Vec::new()),
    }
}
