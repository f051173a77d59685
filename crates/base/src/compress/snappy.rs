//! Snappy as it occurs in batches: a raw block (librdkafka, Go, Rust clients) or the xerial
//! library's framing (Java clients): a 16-byte header, then blocks, each after its compressed
//! length.

use std::io;

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::{CompressError, Compression};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER_LEN: usize = 16;
const BLOCK_LEN: usize = 32 * 1024;

pub(super) fn decompress(input: &[u8], output: &mut Vec<u8>, limit: usize) -> Result<(), CompressError> {
    if !input.starts_with(&MAGIC) {
        return block(input, output, limit);
    }
    let mut rest = input.get(HEADER_LEN..).ok_or_else(|| damaged("header is cut short"))?;
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("length is cut short"))?;
        let length = u32::from_be_bytes(*length) as usize;
        let (compressed, tail) =
            tail.split_at_checked(length).ok_or_else(|| damaged("block is cut short"))?;
        block(compressed, output, limit)?;
        rest = tail;
    }
    Ok(())
}

fn block(input: &[u8], output: &mut Vec<u8>, limit: usize) -> Result<(), CompressError> {
    let claimed = decompress_len(input).map_err(|error| damaged(&error.to_string()))?;
    let filled = output.len();
    if claimed > limit.saturating_sub(filled) {
        return Err(CompressError::TooLarge { codec: Compression::Snappy, limit });
    }
    // The densest element turns three bytes into 64: a larger claim is false, and gets no memory.
    if claimed / 22 > input.len() {
        return Err(damaged("claims more output than its input can give"));
    }
    output.resize(filled + claimed, 0);
    let written = Decoder::new().decompress(input, &mut output[filled..]);
    let written = written.map_err(|error| damaged(&error.to_string()))?;
    output.truncate(filled + written);
    Ok(())
}

pub(super) fn compress(input: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    output.extend_from_slice(&MAGIC);
    output.extend_from_slice(&1_i32.to_be_bytes());
    output.extend_from_slice(&1_i32.to_be_bytes());
    let mut encoder = Encoder::new();
    for chunk in input.chunks(BLOCK_LEN) {
        let at = output.len();
        output.resize(at + 4 + max_compress_len(chunk.len()), 0);
        let written = encoder.compress(chunk, &mut output[at + 4..])?;
        let length = u32::try_from(written).map_err(io::Error::other)?;
        output[at..at + 4].copy_from_slice(&length.to_be_bytes());
        output.truncate(at + 4 + written);
    }
    Ok(())
}

fn damaged(detail: &str) -> CompressError {
    CompressError::Damaged { codec: Compression::Snappy, detail: detail.to_owned() }
}
