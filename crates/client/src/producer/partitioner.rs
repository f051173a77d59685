//! The partition of a key, computed as in Kafka's clients, so that equal keys go to the same
//! partition from every client.

/// The partition, of `count`, for a key.
pub(super) fn partition_of(key: &[u8], count: i32) -> i32 {
    let positive = (murmur2(key) & 0x7fff_ffff).cast_signed();
    positive % count.max(1)
}

/// MurmurHash2, 32 bits, with the seed Kafka uses.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    for (index, byte) in tail.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * index);
    }
    if !tail.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Kafka's own `Utils.murmur2` test.
    #[test]
    fn partitioner_hash_matches_kafka() {
        let cases: [(&str, i32); 7] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
            ("", 275_646_681),
        ];
        for (text, hash) in cases {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
        }
    }

    #[test]
    fn partition_of_key_is_in_range() {
        assert_eq!(partition_of(b"foobar", 7), ((-790_332_482_i32) & 0x7fff_ffff) % 7);
        assert_eq!(partition_of(b"foobar", 1), 0);
    }
}
