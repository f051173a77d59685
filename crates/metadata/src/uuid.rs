//! Ids of 128 bits: random generation, parsing and formatting.

use levada_base::{id_text, parse_id};
use levada_wire::primitives::Uuid;

/// The id of the metadata log itself, in its `partition.metadata`.
pub const METADATA_TOPIC_ID: Uuid = Uuid::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// The directory of a replica whose log cannot serve, while the broker's directories work: the
/// controllers elect another leader.
pub const LOST_DIRECTORY: Uuid = Uuid::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

/// A new random id for a topic, directory, cluster or process. Like Kafka's, it is never one of the
/// reserved small ids and its text never begins with `-`, which tools would take for an option.
pub fn random() -> Uuid {
    loop {
        let id = Uuid::from_bytes(uuid::Uuid::new_v4().into_bytes());
        if !text(id).starts_with('-') {
            return id;
        }
    }
}

/// True for ids below 100, which are reserved: unassigned, lost, migrating.
pub fn is_reserved(id: Uuid) -> bool {
    u128::from_be_bytes(id.to_bytes()) < 100
}

/// The 22 characters that Kafka prints for `id`.
pub fn text(id: Uuid) -> String {
    id_text(id.to_bytes())
}

/// The id in `text`; `None` if the text is not an id.
pub fn parse(text: &str) -> Option<Uuid> {
    parse_id(text).map(Uuid::from_bytes)
}

#[cfg(test)]
mod tests;
