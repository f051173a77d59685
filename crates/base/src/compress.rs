//! The four compression codecs of record batches, with bounded output: a few bytes from the network
//! must not become gigabytes of memory. It works on plain slices and is independent of batches.

use std::cell::RefCell;
use std::io::{self, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use thiserror::Error;
use zstd::bulk::Compressor;
use zstd::stream::raw::{CParameter, Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};

mod snappy;
#[cfg(test)]
mod tests;

/// Compression of a batch's records: the low three bits of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Records are stored uncompressed.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy: a raw block, or blocks in the framing of the xerial library that Java clients use.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// The codec with this number in a batch's attributes, if there is one.
    pub fn from_id(id: u8) -> Option<Self> {
        Some(match id {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            _ => return None,
        })
    }

    /// The number of this codec in a batch's attributes.
    pub fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The name used in configuration (`compression.type`).
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// The reason why compressed bytes could not be expanded.
#[derive(Debug, Error)]
pub enum CompressError {
    /// The codec refused the input.
    #[error("{codec} data is damaged: {detail}", codec = codec.name())]
    Damaged {
        /// The codec that refused.
        codec: Compression,
        /// The codec's message.
        detail: String,
    },
    /// The output would be larger than the caller allows.
    #[error("{codec} data expands to more than {limit} bytes", codec = codec.name())]
    TooLarge {
        /// The codec in use.
        codec: Compression,
        /// The caller's limit, bytes.
        limit: usize,
    },
}

/// Expands `input` into `output`, which is cleared first and grows only by bytes really produced;
/// it never holds more than `limit` bytes. Copies once.
pub fn decompress(
    codec: Compression,
    input: &[u8],
    output: &mut Vec<u8>,
    limit: usize,
) -> Result<(), CompressError> {
    output.clear();
    match codec {
        Compression::None if input.len() > limit => Err(CompressError::TooLarge { codec, limit }),
        Compression::None => {
            output.extend_from_slice(input);
            Ok(())
        }
        Compression::Gzip => drain(codec, MultiGzDecoder::new(input), output, limit),
        Compression::Snappy => snappy::decompress(input, output, limit),
        Compression::Lz4 => drain(codec, FrameDecoder::new(input), output, limit),
        Compression::Zstd => unzstd(input, output, limit),
    }
}

/// Compresses `input` and appends the result to `output`, in the form that Java clients write and
/// every client reads (snappy in xerial framing, LZ4 in 64 KiB independent blocks).
pub fn compress(codec: Compression, input: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    compress_at(codec, None, input, output)
}

/// Like [`compress`], at a level of gzip or zstd; other codecs have none here. `None` is the
/// codec's default.
pub fn compress_at(
    codec: Compression,
    level: Option<i32>,
    input: &[u8],
    output: &mut Vec<u8>,
) -> io::Result<()> {
    match codec {
        Compression::None => output.extend_from_slice(input),
        Compression::Gzip => {
            let level = level.and_then(|level| u32::try_from(level).ok()).map(flate2::Compression::new);
            let mut encoder = GzEncoder::new(output, level.unwrap_or_default());
            encoder.write_all(input)?;
            encoder.finish()?;
        }
        Compression::Snappy => snappy::compress(input, output)?,
        Compression::Lz4 => {
            let frame = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
            let mut encoder = FrameEncoder::with_frame_info(frame, output);
            encoder.write_all(input)?;
            encoder.finish().map_err(io::Error::other)?;
        }
        Compression::Zstd => match level {
            None => zstd::stream::copy_encode(input, output, zstd::DEFAULT_COMPRESSION_LEVEL)?,
            Some(level) => zstd_whole(&mut zstd_context(level, input.len())?, input, output)?,
        },
    }
    Ok(())
}

/// First level at which zstd would allocate windows and tables of up to 700 MiB for a large input.
const ZSTD_GREEDY_LEVEL: i32 = 20;
/// Largest window, as a power of two: that of the level below [`ZSTD_GREEDY_LEVEL`].
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// A compressor for one input of this number of bytes, with memory in proportion.
fn zstd_context(level: i32, input_bytes: usize) -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    compressor.set_parameter(CParameter::ContentSizeFlag(false))?;
    if level >= ZSTD_GREEDY_LEVEL && input_bytes > 1 << ZSTD_WINDOW_LOG_MAX {
        compressor.set_parameter(CParameter::WindowLog(ZSTD_WINDOW_LOG_MAX))?;
    }
    Ok(compressor)
}

/// Appends one frame. The compressor is given the length of the input, so that its tables are no
/// larger than needed.
fn zstd_whole(compressor: &mut Compressor<'_>, input: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    let frame = compressor.compress(input)?;
    output.extend_from_slice(&frame);
    Ok(())
}

const STEP: usize = 16 * 1024;

/// Appends zeroes for the output, up to a byte beyond the limit, which detects further output.
/// Returns the number of bytes before.
fn make_room(output: &mut Vec<u8>, limit: usize) -> usize {
    let filled = output.len();
    let step = STEP.max(filled.min(1 << 20));
    output.resize(filled.saturating_add(step).min(limit.saturating_add(1)), 0);
    filled
}

fn drain(
    codec: Compression,
    mut reader: impl Read,
    output: &mut Vec<u8>,
    limit: usize,
) -> Result<(), CompressError> {
    loop {
        let filled = make_room(output, limit);
        let read = reader.read(&mut output[filled..]);
        output.truncate(filled + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => return Ok(()),
            Ok(_) if output.len() > limit => {
                output.truncate(limit);
                return Err(CompressError::TooLarge { codec, limit });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CompressError::Damaged { codec, detail: error.to_string() }),
        }
    }
}

thread_local! {
    // A zstd context is some hundred kilobytes: one a thread, not one a batch.
    static ZSTD: RefCell<Option<ZstdDecoder<'static>>> = const { RefCell::new(None) };
}

/// Maximum number of output bytes of a context that is kept: with more it may have a window of up
/// to 128 MB.
const KEEP: usize = 1 << 20;

fn unzstd(input: &[u8], output: &mut Vec<u8>, limit: usize) -> Result<(), CompressError> {
    let damaged =
        |error: io::Error| CompressError::Damaged { codec: Compression::Zstd, detail: error.to_string() };
    ZSTD.with_borrow_mut(|slot| {
        let mut decoder = match slot.take() {
            Some(decoder) => decoder,
            None => ZstdDecoder::new().map_err(damaged)?,
        };
        decoder.reinit().map_err(damaged)?;
        unzstd_with(&mut decoder, input, output, limit)?;
        if output.len() <= KEEP {
            *slot = Some(decoder);
        }
        Ok(())
    })
}

fn unzstd_with(
    decoder: &mut ZstdDecoder<'_>,
    input: &[u8],
    output: &mut Vec<u8>,
    limit: usize,
) -> Result<(), CompressError> {
    let codec = Compression::Zstd;
    let damaged = |error: io::Error| CompressError::Damaged { codec, detail: error.to_string() };
    let mut source = InBuffer::around(input);
    let mut frame_open = false;
    loop {
        let filled = make_room(output, limit);
        let mut space = OutBuffer::around_pos(output.as_mut_slice(), filled);
        let hint = decoder.run(&mut source, &mut space);
        let end = space.pos();
        let full = end == output.len();
        output.truncate(end);
        let hint = hint.map_err(damaged)?;
        if output.len() > limit {
            output.truncate(limit);
            return Err(CompressError::TooLarge { codec, limit });
        }
        if hint == 0 {
            frame_open = false;
            if source.pos() == input.len() {
                return Ok(());
            }
            decoder.reinit().map_err(damaged)?;
            continue;
        }
        if source.pos() == input.len() && !full {
            // An empty input is not a frame at all and expands to nothing; anything else was cut
            // short.
            return if input.is_empty() && !frame_open {
                Ok(())
            } else {
                Err(CompressError::Damaged { codec, detail: "frame is cut short".to_owned() })
            };
        }
        frame_open = true;
    }
}
