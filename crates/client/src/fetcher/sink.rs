//! The consumer of a reader's records.

use levada_base::batch::Record;

use crate::error::ClientError;
use crate::notice::Notice;

/// A record with its topic, partition and offset.
#[derive(Clone, Copy, Debug)]
pub struct FetchedRecord<'a> {
    /// The topic's name.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The record's offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Number of deliveries so far, with this one, of a record that a share group has acquired.
    pub deliveries: Option<i16>,
    /// Key, value and headers.
    pub record: &'a Record,
}

/// The consumer of the records.
pub trait Sink {
    /// The error of a consumer that can fail, which may also hold one of the client.
    type Error: From<ClientError>;

    /// True once it takes no further record. A record that it did not take is fetched again.
    fn is_done(&self) -> bool;

    /// Consumes the next record of a partition.
    ///
    /// # Errors
    /// The consumer fails: the record counts as not taken, and the fetch ends.
    fn take(&mut self, record: &FetchedRecord<'_>) -> Result<(), Self::Error>;

    /// Reports a position or an end that had to be changed.
    fn notice(&mut self, notice: Notice<'_, ClientError>);
}
