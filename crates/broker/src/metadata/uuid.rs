//! Ids of 128 bits: fresh random ones, and those of the protocol in the form that files have them in.

use levada_log::checkpoint;
use levada_wire::primitives::Uuid;

/// The id of the metadata log itself, in its `partition.metadata`.
pub const METADATA_TOPIC_ID: Uuid = Uuid::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

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

/// The 22 characters that Kafka prints for `id`.
pub fn text(id: Uuid) -> String {
    stored(id).to_string()
}

/// The id that `text` stands for; `None` if it is not one.
pub fn parse(text: &str) -> Option<Uuid> {
    text.parse().ok().map(loaded)
}

/// The id in the form of the log's files.
pub fn stored(id: Uuid) -> checkpoint::Uuid {
    checkpoint::Uuid(u128::from_be_bytes(id.to_bytes()))
}

/// The id that was in one of the log's files.
pub fn loaded(checkpoint::Uuid(bits): checkpoint::Uuid) -> Uuid {
    Uuid::from_bytes(bits.to_be_bytes())
}

#[cfg(test)]
mod tests;
