//! Kafka's text form of a 128-bit id (URL-safe base64 without padding) and fresh random ids.

use levada_wire::primitives::Uuid;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const TEXT_LEN: usize = 22;

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
    let bits = u128::from_be_bytes(id.to_bytes());
    (0..TEXT_LEN)
        .map(|position| {
            // 22 characters hold 132 bits: the last one holds 2 bits and 4 zeros.
            let sextet =
                if position == TEXT_LEN - 1 { bits << 4 } else { bits >> (122 - 6 * position) } & 0x3f;
            char::from(ALPHABET[sextet as usize])
        })
        .collect()
}

/// The id that `text` stands for; `None` if it is not one.
pub fn parse(text: &str) -> Option<Uuid> {
    if text.len() != TEXT_LEN {
        return None;
    }
    let mut bits = 0_u128;
    for (position, character) in text.bytes().enumerate() {
        let sextet = ALPHABET.iter().position(|known| *known == character)? as u128;
        if position == TEXT_LEN - 1 {
            bits = bits << 2 | sextet >> 4;
        } else {
            bits = bits << 6 | sextet;
        }
    }
    Some(Uuid::from_bytes(bits.to_be_bytes()))
}

#[cfg(test)]
mod tests;
