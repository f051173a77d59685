//! Every codec returns what it was given, refuses damage and stops at its limit.

use levada_testing::scaled;
use proptest::prelude::*;

use super::*;

const ALL: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn expand(codec: Compression, input: &[u8], limit: usize) -> Result<Vec<u8>, CompressError> {
    let mut output = vec![1, 2, 3];
    decompress(codec, input, &mut output, limit).map(|()| output)
}

fn packed(codec: Compression, data: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    compress(codec, data, &mut output).unwrap();
    output
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(48)))]
    #[test]
    fn compression_round_trips(data in prop::collection::vec(0_u8..8, 0..200_000)) {
        for codec in ALL {
            prop_assert_eq!(&expand(codec, &packed(codec, &data), data.len()).unwrap(), &data);
        }
    }

    #[test]
    fn damaged_compressed_data_never_panics(data in prop::collection::vec(any::<u8>(), 1..2_000), at in any::<prop::sample::Index>(), bit in 0_u32..8) {
        for codec in ALL {
            let mut bytes = packed(codec, &data);
            let cut = at.index(bytes.len());
            let _ = expand(codec, &bytes[..cut], 1 << 20);
            bytes[cut] ^= 1_u8 << bit;
            let _ = expand(codec, &bytes, 1 << 20);
            let _ = expand(codec, &data, 1 << 20);
        }
    }
}

#[test]
fn expansion_stops_at_the_limit() {
    let zeros = vec![0; 10_000_000];
    for codec in ALL {
        let bytes = packed(codec, &zeros);
        for limit in [0, 1, 65_536, 9_999_999] {
            let mut output = Vec::new();
            let refused = decompress(codec, &bytes, &mut output, limit);
            assert!(matches!(refused, Err(CompressError::TooLarge { .. })), "{codec:?} {refused:?}");
            assert!(output.len() <= limit, "{codec:?} gave {} for {limit}", output.len());
            assert!(output.capacity() <= 2 * limit + 100_000, "{codec:?} held {}", output.capacity());
        }
    }
}

#[test]
fn truncated_compressed_data_is_refused() {
    let data: Vec<u8> = (0..50_000_u32).flat_map(|n| (n % 977).to_be_bytes()).collect();
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let bytes = packed(codec, &data);
        let cut = expand(codec, &bytes[..bytes.len() / 2], 1 << 20);
        assert!(matches!(cut, Err(CompressError::Damaged { .. })), "{codec:?}");
    }
}

#[test]
fn raw_snappy_without_framing_is_read() {
    let data = b"levada levada levada levada".repeat(100);
    let raw = snap::raw::Encoder::new().compress_vec(&data).unwrap();
    assert_eq!(expand(Compression::Snappy, &raw, 1 << 20).unwrap(), data);
}

#[test]
fn claimed_snappy_length_is_not_allocated() {
    // A preamble that claims 64 MiB before two bytes of data.
    let lie = [0x80, 0x80, 0x80, 0x20, 0x00, 0x41];
    assert!(matches!(expand(Compression::Snappy, &lie, 1 << 30), Err(CompressError::Damaged { .. })));
}

#[test]
fn codec_numbers_match_their_names() {
    for codec in ALL {
        assert_eq!(Compression::from_id(codec.id()), Some(codec));
    }
    assert_eq!(Compression::from_id(5), None);
    assert_eq!(Compression::Zstd.name(), "zstd");
}

#[test]
fn highest_zstd_levels_need_memory_proportional_to_input() {
    for (level, input_bytes, most_mib) in
        [(22, 16 << 10, 8), (22, 1 << 20, 32), (20, 9 << 20, 200), (22, 9 << 20, 200)]
    {
        let input = vec![b'x'; input_bytes];
        let mut compressor = zstd_context(level, input.len()).unwrap();
        let mut output = Vec::new();
        zstd_whole(&mut compressor, &input, &mut output).unwrap();
        assert_eq!(expand(Compression::Zstd, &output, input.len()).unwrap(), input);
        let mib = compressor.context_mut().sizeof() >> 20;
        assert!(mib <= most_mib, "level {level}: {mib} MiB for {input_bytes} bytes");
    }
}
