//! Texts of ids of 128 bits, as Kafka writes them.

/// The 128 bits of a topic's or directory's id, highest byte first.
pub type IdBytes = [u8; 16];

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// An id as Kafka writes it: 22 characters of URL-safe base 64.
pub fn id_text(id: IdBytes) -> String {
    let bits = u128::from_be_bytes(id);
    let digits = (0..21).map(|at| (bits >> (122 - 6 * at)) & 63).chain([(bits & 3) << 4]);
    digits.map(|digit| char::from(ALPHABET[digit as usize])).collect()
}

/// The id in a text; `None` if the text is not an id.
pub fn parse_id(text: &str) -> Option<IdBytes> {
    let bytes = text.trim_end_matches('=').as_bytes();
    if bytes.len() != 22 {
        return None;
    }
    let mut bits = 0_u128;
    for (at, byte) in bytes.iter().enumerate() {
        let digit = ALPHABET.iter().position(|letter| letter == byte)? as u128;
        bits = if at < 21 { bits << 6 | digit } else { bits << 2 | digit >> 4 };
    }
    Some(bits.to_be_bytes())
}
