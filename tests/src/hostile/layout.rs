//! Layouts of requests, read from their one line each.

use std::ops::RangeInclusive;

/// The fields of an API's requests, the same for several versions.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The API's number.
    pub key: i16,
    /// The API's name.
    pub name: String,
    /// The versions with these fields.
    pub versions: RangeInclusive<i16>,
    /// True for compact lengths and tagged fields.
    pub compact: bool,
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// This number of bytes.
    Number(usize),
    Bool,
    Uuid,
    String,
    Bytes,
    Array(Box<Self>),
    Fields(Vec<Field>),
}

/// All layouts, in the order of the keys and versions.
pub fn layouts() -> Vec<Layout> {
    include_str!("requests.txt").lines().map(layout).collect()
}

fn layout(line: &str) -> Layout {
    let mut words = line.splitn(5, ' ');
    let mut word = || words.next().unwrap_or("");
    let (key, name, versions, encoding, mut fields) = (word(), word(), word(), word(), word());
    let (first, last) = versions.split_once('-').expect("first and last version");
    let number = |text: &str| text.parse().expect("a number");
    Layout {
        key: number(key),
        name: name.to_string(),
        versions: number(first)..=number(last),
        compact: encoding == "compact",
        fields: read_fields(&mut fields),
    }
}

fn read_fields(rest: &mut &str) -> Vec<Field> {
    let mut fields = Vec::new();
    while !rest.is_empty() && !rest.starts_with('}') {
        let (name, after) = rest.split_once(':').expect("a field has a type");
        *rest = after;
        fields.push(Field { name: name.trim().to_string(), kind: read_kind(rest) });
        *rest = rest.trim_start();
    }
    fields
}

fn read_kind(rest: &mut &str) -> Kind {
    let kind = if let Some(after) = rest.strip_prefix('[') {
        *rest = after;
        let element = read_kind(rest);
        *rest = rest.strip_prefix(']').expect("the end of an array");
        Kind::Array(Box::new(element))
    } else if let Some(after) = rest.strip_prefix('{') {
        *rest = after;
        let fields = read_fields(rest);
        *rest = rest.strip_prefix('}').expect("the end of the fields");
        Kind::Fields(fields)
    } else {
        let end = rest.find([' ', ']', '}', '?']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        *rest = after;
        match name {
            "i8" => Kind::Number(1),
            "i16" => Kind::Number(2),
            "i32" => Kind::Number(4),
            "i64" | "f64" => Kind::Number(8),
            "bool" => Kind::Bool,
            "uuid" => Kind::Uuid,
            "s" => Kind::String,
            "b" | "r" => Kind::Bytes,
            other => panic!("unknown type {other}"),
        }
    };
    *rest = rest.strip_prefix('?').unwrap_or(rest);
    kind
}
