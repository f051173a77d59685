//! Trailers as bytes.

use super::*;

fn example() -> Trailer {
    let segment = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    Trailer { key: ChunkKey { segment, part: Part::Records(7) }, len: 5, crc: crc32c(b"12345") }
}

#[test]
fn trailer_has_the_documented_bytes() {
    let hex: String = example().encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "4c564443484e4b31000102030405060708090a0b0c0d0e0f\
         0000000000000007000000000000000518d12335cf85956a"
    );
}

#[test]
fn trailer_survives_a_round_trip() {
    for part in [Part::Records(u32::MAX), Part::Offsets, Part::Times, Part::Aborted] {
        let trailer = Trailer { key: ChunkKey { segment: [9; 16], part }, ..example() };
        assert_eq!(Trailer::decode(&trailer.encode()), Some(trailer));
    }
}

#[test]
fn trailer_with_a_flipped_bit_is_refused() {
    for bit in 0..TRAILER_LEN * 8 {
        let mut bytes = example().encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Trailer::decode(&bytes), None, "bit {bit}");
    }
    assert_eq!(Trailer::decode(&[0; TRAILER_LEN]), None);
}
