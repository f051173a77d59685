//! Schemas of Protobuf: files that are compiled in memory, and messages as JSON in Protobuf's own
//! form, with the names of the fields as the file has them.

mod nesting;
mod place;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, FileDescriptor, MessageDescriptor, ReflectMessage,
    SerializeOptions, Value,
};
use protox::Compiler;
use protox::file::{File, FileResolver, GoogleFileResolver};

use crate::text::JsonText;

/// Name of the file that a record refers to: no import has it.
const MAIN: &str = "levada/main.proto";
/// Maximum number of levels of messages nested as `google.protobuf.Any`, each of which is decoded
/// separately.
const ANY_MAX: usize = 8;
/// Files that Confluent's registry knows without a reference.
const KNOWN: [(&str, &str); 3] = [
    ("confluent/meta.proto", include_str!("protobuf/imports/meta.proto")),
    ("confluent/type/decimal.proto", include_str!("protobuf/imports/decimal.proto")),
    ("confluent/types/decimal.proto", "syntax = \"proto3\"; import public \"confluent/type/decimal.proto\";"),
];

/// A compiled file.
#[derive(Debug)]
pub(crate) struct Protobuf {
    pool: DescriptorPool,
}

/// The files of a schema by name: text, or a descriptor in base64.
struct Files(BTreeMap<String, String>);

impl FileResolver for Files {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.0.get(name) {
            Some(text) => opened(name, text),
            None => match KNOWN.iter().find(|(known, _)| *known == name) {
                Some((_, text)) => File::from_source(name, text),
                None => GoogleFileResolver::new().open_file(name),
            },
        }
    }
}

fn opened(name: &str, text: &str) -> Result<File, protox::Error> {
    let descriptor = BASE64.decode(text.trim()).ok();
    if let Some(mut file) = descriptor.and_then(|bytes| FileDescriptorProto::decode(&*bytes).ok()) {
        file.name = Some(name.to_owned());
        return Ok(File::from_file_descriptor_proto(file));
    }
    nesting::check(text).map_err(protox::Error::new)?;
    File::from_source(name, text)
}

impl Protobuf {
    /// Compiles a file with the files that it imports, by the name of the import.
    ///
    /// # Errors
    /// The reason why a file cannot be compiled.
    pub(crate) fn parse<'t>(
        text: &'t str,
        imports: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<Self, String> {
        let all = imports.into_iter().chain([(MAIN, text)]);
        let all = all.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        let mut compiler = Compiler::with_file_resolver(Files(all));
        compiler.include_imports(true);
        compiler.open_file(MAIN).map_err(|error| shown(&error))?;
        Ok(Self { pool: compiler.descriptor_pool() })
    }

    fn file(&self) -> Option<FileDescriptor> {
        self.pool.get_file_by_name(MAIN)
    }

    /// The message at this position in the file. The entry of a map has a position, as in the
    /// descriptor. No record is such an entry: its serializer has not counted the entries.
    pub(crate) fn message(&self, indexes: &[usize]) -> Option<MessageDescriptor> {
        let (first, rest) = indexes.split_first()?;
        let message = self.file()?.messages().nth(*first)?;
        rest.iter().try_fold(message, |message, index| {
            let found = message.child_messages().nth(*index)?;
            if found.is_map_entry() {
                return message.child_messages().filter(|inner| !inner.is_map_entry()).nth(*index);
            }
            Some(found)
        })
    }

    /// The message of this name, full or within the package, and its position; the first message
    /// without a name. An error names the messages that there are.
    pub(crate) fn named(&self, name: Option<&str>) -> Result<(MessageDescriptor, Vec<usize>), String> {
        let file = self.file().ok_or("there is no file")?;
        let mut all = Vec::new();
        for (at, message) in file.messages().enumerate() {
            list(message, vec![at], &mut all);
        }
        let package = file.package_name().to_owned();
        let is_it = |message: &MessageDescriptor| match name {
            None => true,
            Some(name) => {
                let full = message.full_name();
                full == name
                    || full.strip_prefix(&package).and_then(|rest| rest.strip_prefix('.')) == Some(name)
            }
        };
        let names: Vec<String> = all.iter().map(|(message, _)| message.full_name().to_owned()).collect();
        all.into_iter().find(|(message, _)| is_it(message)).ok_or_else(|| match name {
            Some(name) => format!("there is no message {name}; there are {}", names.join(", ")),
            None => "the file has no message".to_owned(),
        })
    }
}

/// Lists a message and its nested messages, without the entries of maps.
fn list(message: MessageDescriptor, place: Vec<usize>, all: &mut Vec<(MessageDescriptor, Vec<usize>)>) {
    let inner: Vec<MessageDescriptor> = message.child_messages().collect();
    all.push((message, place.clone()));
    for (at, message) in inner.into_iter().enumerate() {
        if !message.is_map_entry() {
            list(message, [&place[..], &[at]].concat(), all);
        }
    }
}

/// The cause of an error of the compiler, without the name of the file, which is made up.
fn shown(error: &protox::Error) -> String {
    error.to_string().replace(MAIN, "the schema")
}

/// A message as JSON of at most `most` bytes.
///
/// # Errors
/// The bytes are no such message, or the JSON is longer.
pub(crate) fn decode(message: MessageDescriptor, bytes: &[u8], most: usize) -> Result<String, String> {
    let message = DynamicMessage::decode(message, bytes).map_err(|error| error.to_string())?;
    check_any(&message, 0)?;
    let mut out = JsonText::new(most);
    let options = SerializeOptions::new().use_proto_field_name(true).skip_default_fields(false);
    let mut serializer = serde_json::Serializer::new(&mut out);
    match message.serialize_with_options(&mut serializer, &options) {
        Ok(()) => Ok(out.into_string()),
        Err(error) if error.is_io() => Err(format!("its JSON has more than {most} bytes")),
        Err(error) => Err(error.to_string()),
    }
}

/// The message of a JSON text.
///
/// # Errors
/// The field and the reason why the text is no such message.
pub(crate) fn encode(message: MessageDescriptor, json: &str) -> Result<Vec<u8>, String> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let read = DynamicMessage::deserialize_with_options(message, &mut reader, &options);
    let read = read.and_then(|message| reader.end().map(|()| message));
    match read {
        Ok(message) => Ok(message.encode_to_vec()),
        Err(error) => Err(place::explained(json, &error)),
    }
}

/// Checks the number of levels of `google.protobuf.Any`: no other limit applies to the depth of
/// their JSON.
fn check_any(message: &DynamicMessage, depth: usize) -> Result<(), String> {
    if depth > ANY_MAX {
        return Err(format!("more than {ANY_MAX} messages are inside of each other as google.protobuf.Any"));
    }
    let descriptor = message.descriptor();
    if descriptor.full_name() == "google.protobuf.Any" {
        let url = message.get_field_by_number(1);
        let url = url.as_deref().and_then(Value::as_str).unwrap_or_default();
        let name = url.rsplit('/').next().unwrap_or_default();
        let value = message.get_field_by_number(2);
        let Some(inner) = descriptor.parent_pool().get_message_by_name(name) else { return Ok(()) };
        let bytes = value.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
        let inner = DynamicMessage::decode(inner, bytes).map_err(|error| error.to_string())?;
        return check_any(&inner, depth + 1);
    }
    message.fields().try_for_each(|(_, value)| check_value(value, depth))
}

fn check_value(value: &Value, depth: usize) -> Result<(), String> {
    match value {
        Value::Message(message) => check_any(message, depth),
        Value::List(values) => values.iter().try_for_each(|value| check_value(value, depth)),
        Value::Map(values) => values.values().try_for_each(|value| check_value(value, depth)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
