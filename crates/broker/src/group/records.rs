//! The records of `__consumer_offsets` in Kafka's bytes; `docs/format/consumer-offsets.md` describes them.

/// Why a record of `__consumer_offsets` could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The record ends inside a field, or a length is negative or larger than the record.
    #[error("the record is cut short or has an impossible length in {0}")]
    Malformed(&'static str),
    /// A text is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
    /// The value has a version this broker does not know.
    #[error("{record} has the unknown version {version}")]
    UnknownVersion {
        /// Which kind of record.
        record: &'static str,
        /// The version it claims.
        version: i16,
    },
}
