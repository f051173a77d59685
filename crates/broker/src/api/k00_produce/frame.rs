//! The one batch in a partition's records, found by Kafka's rules: bytes after the batch that begin
//! no other whole batch are left out, and records that end within their first batch have none.

use bytes::BytesMut;
use levada_base::batch::{self, BatchError, BatchView, PREFIX_LEN};

use levada_wire::error_code::{ErrorCode, Failure};

const LENGTH_AT: usize = 8;
const FORMAT_AT: usize = 16;
/// The length of the shortest message of the oldest format.
const LENGTH_MIN: i32 = 14;

/// The records without stray bytes after their only batch. The batch has the present format and the
/// length that its header states; its checksum and its records are not checked.
pub(super) fn only_batch(version: i16, mut records: BytesMut) -> Result<BytesMut, Failure> {
    let Some(size) = next_batch(&records)? else {
        let text = format!(
            "Produce requests with version {version} must have at least one record batch per partition"
        );
        return Err(Failure::new(ErrorCode::InvalidRecord, text));
    };
    // Before the length: a message of an old format is shorter than the header of a batch.
    if records[FORMAT_AT].cast_signed() != batch::MAGIC {
        let text = format!(
            "Produce requests with version {version} are only allowed to contain record batches with magic version 2"
        );
        return Err(Failure::new(ErrorCode::InvalidRecord, text));
    }
    BatchView::parse(&records)?;
    if next_batch(&records[size..])?.is_some() {
        let text = format!(
            "Produce requests with version {version} are only allowed to contain exactly one record batch per partition"
        );
        return Err(Failure::new(ErrorCode::InvalidRecord, text));
    }
    records.truncate(size);
    Ok(records)
}

/// Bytes of the batch, or of the message of an old format, at the beginning of `bytes`; none if
/// they do not hold it whole.
fn next_batch(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(length) = bytes.get(LENGTH_AT..PREFIX_LEN) else { return Ok(None) };
    let length = i32::from_be_bytes(length.try_into().expect("four bytes"));
    let size = usize::try_from(length).ok().filter(|_| length >= LENGTH_MIN);
    let size = PREFIX_LEN + size.ok_or(BatchError::Length(length))?;
    match bytes.get(FORMAT_AT) {
        None => Ok(None),
        Some(0..=2) => Ok(Some(size).filter(|size| *size <= bytes.len())),
        Some(format) => {
            let text = format!("batch format {} does not exist", format.cast_signed());
            Err(Failure::new(ErrorCode::CorruptMessage, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use levada_base::batch::Builder;

    use super::*;

    fn one() -> Vec<u8> {
        let mut builder = Builder::new();
        builder.push(0, None, Some(b"value"));
        builder.build().unwrap().to_vec()
    }

    /// A message of an old format, whose length field is right.
    fn old(format: u8) -> Vec<u8> {
        let mut bytes = vec![0; 34];
        bytes[11] = 22;
        bytes[FORMAT_AT] = format;
        bytes
    }

    fn with(at: usize, byte: u8) -> Vec<u8> {
        let mut bytes = one();
        bytes[at] = byte;
        bytes
    }

    fn found(records: &[u8]) -> Result<Vec<u8>, ErrorCode> {
        let found = only_batch(9, BytesMut::from(records));
        found.map(|records| records.to_vec()).map_err(|failure| failure.code)
    }

    #[test]
    fn records_without_a_whole_batch_are_refused() {
        let whole = one();
        for len in 0..whole.len() {
            assert_eq!(found(&whole[..len]), Err(ErrorCode::InvalidRecord), "{len} bytes");
        }
        assert_eq!(found(&old(1)[..33]), Err(ErrorCode::InvalidRecord));
    }

    #[test]
    fn stray_bytes_after_a_batch_are_ignored() {
        let whole = one();
        assert_eq!(found(&whole), Ok(whole.clone()));
        let then = |tail: &[u8]| found(&[&whole, tail].concat());
        assert_eq!(then(b"abc"), Ok(whole.clone()));
        assert_eq!(then(&[0xff; PREFIX_LEN - 1]), Ok(whole.clone()));
        assert_eq!(then(&whole[..whole.len() - 1]), Ok(whole.clone()), "a second batch is cut short");
        assert_eq!(then(&whole), Err(ErrorCode::InvalidRecord), "two batches");
        assert_eq!(then(&old(1)), Err(ErrorCode::InvalidRecord), "a second one of an old format");
        assert_eq!(then(&[0xff; PREFIX_LEN]), Err(ErrorCode::CorruptMessage));
    }

    #[test]
    fn impossible_formats_and_lengths_are_refused() {
        for format in [0, 1] {
            assert_eq!(found(&old(format)), Err(ErrorCode::InvalidRecord));
        }
        assert_eq!(found(&with(FORMAT_AT, 3)), Err(ErrorCode::CorruptMessage));
        assert_eq!(found(&with(FORMAT_AT, 0xff)), Err(ErrorCode::CorruptMessage));
        assert_eq!(found(&with(LENGTH_AT, 0xff)), Err(ErrorCode::CorruptMessage), "negative");
        assert_eq!(found(&with(11, 13)), Err(ErrorCode::CorruptMessage));
        assert_eq!(found(&with(11, 40)), Err(ErrorCode::CorruptMessage), "shorter than a header");
    }
}
