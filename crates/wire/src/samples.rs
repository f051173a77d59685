//! Valid messages of any type and version, generated from random bytes: where the decoder rejects a
//! byte, the generator repairs it. It needs no description of the message, so it reaches every
//! field of a version.

use bytes::Bytes;
use kafka_wire_core::{ApiVersion, DecodeError, DecodeLimits, Decoder};

use crate::messages::KafkaMessage;

/// Small deterministic generator (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }
}

/// Messages of type `M`, each with the bytes it was decoded from: the `count` longest found.
pub(crate) fn samples<M: KafkaMessage>(version: i16, count: usize) -> Vec<(M, Bytes)> {
    let mut random = Random::new(version as u64 + 1);
    let mut found = Vec::new();
    for _ in 0..4 * count {
        // High bits are rare, so that varints (unknown tags, above all) stay short.
        let high = |random: &mut Random| if random.below(12) == 0 { 0xff } else { 0x7f };
        let mut bytes: Vec<u8> = (0..2000).map(|_| random.next() as u8 & high(&mut random)).collect();
        for _ in 0..300 {
            match decode_prefix::<M>(Bytes::copy_from_slice(&bytes), version) {
                Ok(sample) => {
                    found.push(sample);
                    break;
                }
                Err(error) => {
                    if repair(&mut bytes, &error, &mut random).is_none() {
                        break;
                    }
                }
            }
        }
    }
    found.sort_by_key(|(_, bytes)| std::cmp::Reverse(bytes.len()));
    found.truncate(count);
    found
}

fn decode_prefix<M: KafkaMessage>(bytes: Bytes, version: i16) -> Result<(M, Bytes), DecodeError> {
    let mut limits = DecodeLimits::default();
    limits.max_string_bytes = 5;
    limits.max_bytes_bytes = 9;
    limits.max_array_elements = 3;
    limits.max_tagged_fields = 2;
    limits.max_tag_bytes = 20;
    let mut decoder = Decoder::new(bytes.clone(), limits)?;
    let message = M::decode(&mut decoder, ApiVersion::new(version))?;
    Ok((message, bytes.slice(..decoder.offset())))
}

/// Overwrites the rejected bytes of `error` with valid ones. `None` if it cannot locate them.
fn repair(bytes: &mut [u8], error: &DecodeError, random: &mut Random) -> Option<()> {
    let small = random.below(4) as u8;
    match *error {
        DecodeError::LimitExceeded { kind, offset, .. }
        | DecodeError::NegativeLength { kind, offset, .. }
        | DecodeError::NullNotAllowed { kind, offset } => {
            let null = !matches!(error, DecodeError::NullNotAllowed { .. }) && random.below(8) == 0;
            if kind == "tagged field" && small > 1 {
                // The payload of a known tag; most are about this long.
                bytes[offset] = [8, 9, 13, 16][random.below(4)];
            } else if kind.contains("tagged") {
                bytes[offset] = small / 2;
            } else if kind.contains("compact") {
                bytes[offset] = if null { 0 } else { 1 + small };
            } else if kind.contains("string") {
                bytes[offset..offset + 2].copy_from_slice(&if null { [0xff; 2] } else { [0, small] });
            } else {
                bytes[offset..offset + 4].copy_from_slice(&if null { [0xff; 4] } else { [0, 0, 0, small] });
            }
        }
        DecodeError::MalformedVarint { offset } => bytes[offset] = small,
        DecodeError::InvalidBoolean { offset, .. } => bytes[offset] = small % 2,
        DecodeError::InvalidUtf8 { offset, valid_up_to } => bytes[offset + valid_up_to] = b'a' + small,
        DecodeError::TaggedFieldOrder { current, offset, .. } if current < 128 => bytes[offset] = 100 + small,
        DecodeError::TaggedFieldSize { consumed, offset, .. } => bytes[offset] = consumed as u8,
        _ => return None,
    }
    Some(())
}
