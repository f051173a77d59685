//! A record to send.

use std::borrow::Cow;

/// Key and value of a header.
pub type Header<'l> = (Cow<'l, [u8]>, Option<Cow<'l, [u8]>>);

/// A record to send; a field that is `None` is absent, or the producer chooses it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Record<'l> {
    /// The key, which decides about the partition as in Kafka's clients.
    pub key: Option<Cow<'l, [u8]>>,
    /// `None` is a tombstone.
    pub value: Option<Cow<'l, [u8]>>,
    /// Headers, in their order.
    pub headers: Vec<Header<'l>>,
    /// Milliseconds since 1970; by default, the present time.
    pub timestamp_ms: Option<i64>,
    /// The partition; by default determined by the key and, without a key, each partition in turn.
    pub partition: Option<i32>,
}

/// Largest encoded size of the numbers of a record, and of those of a header, in bytes.
const RECORD_OVERHEAD_BYTES: usize = 21;
const HEADER_OVERHEAD_BYTES: usize = 10;

impl Record<'_> {
    /// Bytes of key and value.
    pub(super) fn data_bytes(&self) -> usize {
        [&self.key, &self.value].into_iter().flatten().map(|bytes| bytes.len()).sum()
    }

    /// Maximum number of bytes that this record adds to a batch.
    pub(super) fn size_bytes_max(&self) -> usize {
        let header = |(key, value): &Header<'_>| key.len() + value.as_ref().map_or(0, |value| value.len());
        let headers = self.headers.iter().map(|one| header(one) + HEADER_OVERHEAD_BYTES).sum::<usize>();
        self.data_bytes() + headers + RECORD_OVERHEAD_BYTES
    }
}
