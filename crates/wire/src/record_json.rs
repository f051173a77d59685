//! JSON of fields that records of internal topics have in common: ids as Kafka prints them, and
//! bytes in base64.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use levada_base::id_text;
use serde::{Serialize, Serializer};

use crate::Uuid;

/// An id, as its 22 characters.
pub fn uuid<S: Serializer>(id: &Uuid, to: S) -> Result<S::Ok, S::Error> {
    text(id).serialize(to)
}

/// A list of ids.
pub fn uuids<S: Serializer>(ids: &[Uuid], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(ids.iter().map(text))
}

/// A list of ids, or null.
pub fn optional_uuids<S: Serializer>(ids: &Option<Vec<Uuid>>, to: S) -> Result<S::Ok, S::Error> {
    ids.as_ref().map(|ids| ids.iter().map(text).collect::<Vec<_>>()).serialize(to)
}

/// Bytes in base64.
pub fn bytes<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
    STANDARD.encode(bytes).serialize(to)
}

/// An object whose fields are the ids of topics.
pub fn by_topic<V: Serialize, S: Serializer>(topics: &BTreeMap<Uuid, V>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(topics.iter().map(|(id, partitions)| (text(id), partitions)))
}

/// An object whose fields are the names of topics, or null.
pub fn topics<S: Serializer>(topics: &Option<Vec<(String, Vec<i32>)>>, to: S) -> Result<S::Ok, S::Error> {
    let by_name = |topics: &Vec<(String, Vec<i32>)>| topics.iter().cloned().collect::<BTreeMap<_, _>>();
    topics.as_ref().map(by_name).serialize(to)
}

/// The characters that Kafka prints for an id.
pub fn text(id: &Uuid) -> String {
    id_text(id.to_bytes())
}
