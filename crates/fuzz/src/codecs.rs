//! Arbitrary bytes as the input of a codec: the output stays within the limit, and memory follows
//! the produced output. Our own compressed data decompresses to the original.

use levada_base::compress::{Compression, compress, decompress};

/// Checks one input.
pub fn run(input: &[u8]) {
    let [which, limit, rest @ ..] = input else { return };
    let Some(codec) = Compression::from_id(which % 5) else { return };
    let limit = usize::from(*limit) << 12;
    let mut output = Vec::new();
    let expanded = decompress(codec, rest, &mut output, limit);
    assert!(output.len() <= limit, "{} bytes where {limit} are allowed", output.len());
    // A vector doubles, and a codec's window may be larger than a small limit.
    assert!(output.capacity() <= 2 * limit + (1 << 17), "{} bytes for {limit}", output.capacity());
    if expanded.is_ok() {
        let mut again = Vec::new();
        compress(codec, &output, &mut again).expect("memory takes it");
        let mut back = Vec::new();
        decompress(codec, &again, &mut back, limit).expect("our own bytes");
        assert_eq!(back, output);
    }
}
