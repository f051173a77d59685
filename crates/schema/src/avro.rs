//! Schemas of Avro: types in a list, which name each other by their place.
//!
//! Reading and writing of values is here and not from a crate: `apache-avro` follows a recursive
//! schema as deep as the data says, and a record of a few hundred kilobytes overflows the stack.

mod decimal;
mod decode;
mod encode;

use std::collections::HashMap;

use serde_json::Value;

/// Deepest nesting of values.
const DEPTH_MAX: usize = 100;
/// Maximum number of types of one schema, those of its references included.
const TYPES_MAX: usize = 20_000;

/// A schema.
#[derive(Debug)]
pub(crate) struct Avro {
    types: Vec<Type>,
    root: usize,
}

#[derive(Debug)]
enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// Bytes, or fixed bytes of this type, that are the digits of a decimal number.
    Decimal {
        scale: u32,
        of: usize,
    },
    Fixed {
        name: String,
        size: usize,
    },
    Enum {
        name: String,
        symbols: Vec<String>,
    },
    Array(usize),
    Map(usize),
    Record {
        name: String,
        fields: Vec<Field>,
    },
    Union(Vec<usize>),
}

#[derive(Debug)]
struct Field {
    name: String,
    kind: usize,
    default: Option<Value>,
}

impl Type {
    /// Name of the type, as a union's value in JSON has it.
    fn name(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes | Self::Decimal { .. } => "bytes",
            Self::String => "string",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Union(_) => "union",
            Self::Fixed { name, .. } | Self::Enum { name, .. } | Self::Record { name, .. } => name,
        }
    }
}

impl Avro {
    /// Parses a schema. The schemas that it refers to come first, each after its own references.
    ///
    /// # Errors
    /// The reason why a text is no schema.
    pub(crate) fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        let mut reader = Reader::default();
        let mut root = None;
        for text in texts {
            // A name alone is a schema, also without quotes.
            let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.trim()));
            root = Some(reader.read(&value, "")?);
        }
        let root = root.ok_or("there is no schema")?;
        Ok(Self { types: reader.types, root })
    }

    /// The name of the outermost type.
    pub(crate) fn name(&self) -> &str {
        self.name_of(self.root)
    }

    fn name_of(&self, kind: usize) -> &str {
        match &self.types[kind] {
            Type::Decimal { of, .. } => self.types[*of].name(),
            kind => kind.name(),
        }
    }

    /// The only type of a union except null.
    fn nullable(&self, branches: &[usize]) -> Option<usize> {
        let is_null = |kind: &usize| matches!(self.types[*kind], Type::Null);
        match branches {
            [first, second] if is_null(first) && !is_null(second) => Some(*second),
            [first, second] if is_null(second) && !is_null(first) => Some(*first),
            _ => None,
        }
    }
}

/// The types that have been parsed, and the indexes of those with a name.
#[derive(Default)]
struct Reader {
    types: Vec<Type>,
    names: HashMap<String, usize>,
}

impl Reader {
    fn add(&mut self, kind: Type) -> Result<usize, String> {
        if self.types.len() == TYPES_MAX {
            return Err(format!("the schema has more than {TYPES_MAX} types"));
        }
        self.types.push(kind);
        Ok(self.types.len() - 1)
    }

    fn read(&mut self, value: &Value, namespace: &str) -> Result<usize, String> {
        match value {
            Value::String(name) => self.named(name, namespace),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.read(branch, namespace));
                let branches = branches.collect::<Result<_, _>>()?;
                self.add(Type::Union(branches))
            }
            Value::Object(object) => match object.get("type") {
                Some(Value::String(kind)) => self.object(kind, value, namespace),
                Some(inner) => self.read(inner, namespace),
                None => Err(format!("a type has no \"type\": {}", cut(value))),
            },
            other => Err(format!("expected a type, found {}", cut(other))),
        }
    }

    /// A primitive type, or one that was defined before.
    fn named(&mut self, name: &str, namespace: &str) -> Result<usize, String> {
        let kind = match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "int" => Type::Int,
            "long" => Type::Long,
            "float" => Type::Float,
            "double" => Type::Double,
            "bytes" => Type::Bytes,
            "string" => Type::String,
            _ => {
                let inside = full_name(name, namespace);
                let found = self.names.get(&inside).or_else(|| self.names.get(name));
                return found.copied().ok_or_else(|| format!("type {inside} is not defined"));
            }
        };
        self.add(kind)
    }

    fn object(&mut self, kind: &str, value: &Value, namespace: &str) -> Result<usize, String> {
        match kind {
            "array" | "map" => {
                let key = if kind == "array" { "items" } else { "values" };
                let inner = value.get(key).ok_or_else(|| format!("{kind} has no \"{key}\""))?;
                let inner = self.read(inner, namespace)?;
                self.add(if kind == "array" { Type::Array(inner) } else { Type::Map(inner) })
            }
            "record" | "error" => self.record(value, namespace),
            "enum" => {
                let (name, _) = own_name(value, namespace)?;
                let symbols = list(value, "symbols")?.iter().map(|symbol| symbol.as_str().map(str::to_owned));
                let symbols = symbols.collect::<Option<Vec<_>>>();
                let symbols = symbols.ok_or_else(|| format!("enum {name}: a symbol is not a string"))?;
                self.define(name.clone(), Type::Enum { name, symbols })
            }
            "fixed" => {
                let (name, _) = own_name(value, namespace)?;
                let size =
                    value.get("size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or_else(|| format!("fixed {name} has no size"))?;
                let fixed = self.define(name.clone(), Type::Fixed { name, size })?;
                self.logical(value, fixed)
            }
            name => {
                let plain = self.named(name, namespace)?;
                self.logical(value, plain)
            }
        }
    }

    /// The decimal number that the bytes represent, if the schema says so and its digits fit into
    /// 128 bits.
    fn logical(&mut self, value: &Value, of: usize) -> Result<usize, String> {
        let number = |key| value.get(key).and_then(Value::as_u64);
        let is_decimal = value.get("logicalType").and_then(Value::as_str) == Some("decimal")
            && matches!(self.types[of], Type::Bytes | Type::Fixed { size: 1..=16, .. });
        let (precision, scale) = (number("precision").unwrap_or(0), number("scale").unwrap_or(0));
        if is_decimal && (1..=decimal::DIGITS_MAX).contains(&precision) && scale <= precision {
            return self.add(Type::Decimal { scale: scale as u32, of });
        }
        Ok(of)
    }

    fn record(&mut self, value: &Value, namespace: &str) -> Result<usize, String> {
        let (name, namespace) = own_name(value, namespace)?;
        let place = self.define(name.clone(), Type::Record { name: name.clone(), fields: Vec::new() })?;
        let mut fields = Vec::new();
        for field in list(value, "fields")? {
            let Some(field_name) = field.get("name").and_then(Value::as_str) else {
                return Err(format!("record {name}: a field has no name"));
            };
            let kind = field.get("type").ok_or_else(|| format!("{name}.{field_name} has no type"))?;
            let kind = self.read(kind, &namespace)?;
            fields.push(Field { name: field_name.to_owned(), kind, default: field.get("default").cloned() });
        }
        self.types[place] = Type::Record { name, fields };
        Ok(place)
    }

    fn define(&mut self, name: String, kind: Type) -> Result<usize, String> {
        if self.names.contains_key(&name) {
            return Err(format!("type {name} is defined twice"));
        }
        let place = self.add(kind)?;
        self.names.insert(name, place);
        Ok(place)
    }
}

/// The full name of a type, and the namespace of the types in it.
fn own_name(value: &Value, namespace: &str) -> Result<(String, String), String> {
    let name = value.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| format!("a type has no name: {}", cut(value)))?;
    let namespace = value.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
    let full = full_name(name, namespace);
    let inside = full.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
    Ok((full, inside))
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>, String> {
    let found = value.get(key).and_then(Value::as_array);
    found.ok_or_else(|| format!("a type has no list \"{key}\": {}", cut(value)))
}

/// The beginning of a value, for messages.
fn cut(value: &Value) -> String {
    const SHOWN: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
pub(crate) mod tests;
