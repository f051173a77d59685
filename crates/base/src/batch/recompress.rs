//! Recompression of a batch with another codec. Records, producer, timestamps and attributes stay
//! the same.

use std::io;

use bytes::BytesMut;

use super::records::MAX_EXPANDED;
use super::{ATTRIBUTES_AT, BatchError, BatchView, HEADER_LEN, LENGTH_AT, PREFIX_LEN, seal};
use crate::compress::{self, Compression};

/// The low bits of the attributes, which name the codec.
pub(super) const CODEC_MASK: i16 = 0x07;

/// The reason why a batch cannot be recompressed.
#[derive(Debug, thiserror::Error)]
pub enum RecompressError {
    /// The contents of the batch contradict its header.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The codec failed, or the result is larger than a batch can be.
    #[error("cannot compress the batch: {0}")]
    Codec(#[from] io::Error),
}

/// The batch at the start of `bytes`, compressed with `codec` at `level` (`None`: its default).
/// Copies.
///
/// # Errors
/// A batch that does not expand, within the bound of [`super::records()`], or the codec's.
pub fn recompress(bytes: &[u8], codec: Compression, level: Option<i32>) -> Result<BytesMut, RecompressError> {
    let view = BatchView::parse(bytes)?;
    let mut expanded = Vec::new();
    compress::decompress(view.compression()?, view.payload(), &mut expanded, MAX_EXPANDED)
        .map_err(BatchError::from)?;
    let mut batch = view.bytes()[..HEADER_LEN].to_vec();
    compress::compress_at(codec, level, &expanded, &mut batch)?;
    let length = i32::try_from(batch.len() - PREFIX_LEN).map_err(io::Error::other)?;
    let attributes = view.attributes() & !CODEC_MASK | i16::from(codec.id());
    batch[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length.to_be_bytes());
    batch[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&attributes.to_be_bytes());
    seal(&mut batch);
    Ok(BytesMut::from(&batch[..]))
}

#[cfg(test)]
mod tests;
