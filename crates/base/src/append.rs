//! A batch on its way into a log.

use bytes::BytesMut;

/// One batch to append.
#[derive(Debug)]
pub struct Append {
    /// Exactly one batch that [`check`](crate::batch::check) accepted. Base offset and leader epoch
    /// are patched in place, and with `LogAppendTime` its timestamp; the caller keeps it.
    pub records: BytesMut,
    /// Producer of the batch.
    pub source: Source,
    /// The version of its producer's transaction protocol: with 2, an unknown producer starts a
    /// transaction at sequence 0 and every marker raises the epoch.
    pub transaction_version: u8,
    /// Leader epoch in which the batch was checked, or [`ANY_LEADER_EPOCH`].
    pub leader_epoch: i32,
}

/// Leader epoch of a batch that is valid in every epoch in which this broker leads the log.
pub const ANY_LEADER_EPOCH: i32 = -1;

impl Append {
    /// A batch from a client.
    pub fn client(records: BytesMut) -> Self {
        Self { records, source: Source::Client, transaction_version: 0, leader_epoch: ANY_LEADER_EPOCH }
    }

    /// A batch from a coordinator of this broker.
    pub fn coordinator(records: BytesMut) -> Self {
        Self { source: Source::Coordinator, ..Self::client(records) }
    }
}

/// The producer of a batch that is to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A client: sequences are checked, control batches refused.
    Client,
    /// A coordinator of this broker: its markers end transactions, its records carry no sequence.
    Coordinator,
}
