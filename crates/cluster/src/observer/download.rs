//! An unfinished snapshot: the input is chunks cut anywhere, the output is whole records. The
//! snapshot counts only when its footer has been read at the announced size.

use bytes::{Buf, Bytes, BytesMut};
use levada_base::batch::{self, BatchError, HEADER_LEN, PREFIX_LEN};
use levada_wire::fetch::SnapshotId;
use thiserror::Error;

use super::transactions::{self, MetadataRecord, QuorumChange, RecordFault};

const HEADER: i16 = 3;
const FOOTER: i16 = 4;

/// One snapshot that is being fetched from one leader.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) id: SnapshotId,
    /// Node id and epoch of the leader. Another node's snapshot of the same name may have other
    /// bytes.
    pub(crate) source: (Option<i32>, i32),
    position: u64,
    size: Option<u64>,
    /// Beginning of a batch whose end has not arrived.
    rest: BytesMut,
    has_header: bool,
    has_footer: bool,
    quorum: QuorumChange,
    limits: DownloadLimits,
}

/// Bounds of a download, bytes.
#[derive(Clone, Copy, Debug)]
pub struct DownloadLimits {
    /// Maximum size of a snapshot, bytes.
    pub snapshot_bytes: u64,
    /// Largest batch in it.
    pub batch_bytes: usize,
}

/// Outcome of one chunk.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) records: Vec<MetadataRecord>,
    pub(crate) is_complete: bool,
}

impl Download {
    pub(crate) fn new(id: SnapshotId, source: (Option<i32>, i32), limits: DownloadLimits) -> Self {
        Self {
            id,
            source,
            position: 0,
            size: None,
            rest: BytesMut::new(),
            has_header: false,
            has_footer: false,
            quorum: QuorumChange::default(),
            limits,
        }
    }

    /// The position of the next chunk.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The quorum as the snapshot describes it.
    pub(crate) fn into_quorum(self) -> QuorumChange {
        self.quorum
    }

    /// Processes the next chunk of a snapshot of `size` bytes. Voters' addresses are those of
    /// `listener`.
    pub(crate) fn push(
        &mut self,
        size: i64,
        chunk: &Bytes,
        listener: &str,
    ) -> Result<Progress, DownloadFault> {
        let size = u64::try_from(size).ok().filter(|size| *size > 0).ok_or(DownloadFault::Size { size })?;
        let limit = self.limits.snapshot_bytes;
        if size > limit {
            return Err(DownloadFault::TooLarge { size, limit });
        }
        if *self.size.get_or_insert(size) != size || chunk.len() as u64 > size - self.position {
            return Err(DownloadFault::Size { size: size.cast_signed() });
        }
        if chunk.is_empty() {
            return Err(DownloadFault::Empty { position: self.position });
        }
        self.position += chunk.len() as u64;
        self.rest.extend_from_slice(chunk);
        let mut records = Vec::new();
        while let Some(bytes) = self.next_batch()? {
            self.take(&bytes, listener, &mut records)?;
        }
        let is_complete = self.position == size;
        if is_complete && !(self.rest.is_empty() && self.has_footer) {
            return Err(DownloadFault::Incomplete { size });
        }
        Ok(Progress { records, is_complete })
    }

    /// The next whole batch, checked.
    fn next_batch(&mut self) -> Result<Option<Bytes>, DownloadFault> {
        let position = self.position - self.rest.len() as u64;
        let Some(mut length) = self.rest.get(PREFIX_LEN - 4..PREFIX_LEN) else { return Ok(None) };
        let length = i64::from(length.get_i32()) + PREFIX_LEN as i64;
        let limit = self.limits.batch_bytes;
        let length = usize::try_from(length).ok().filter(|length| (HEADER_LEN..=limit).contains(length));
        let length = length.ok_or(DownloadFault::BatchSize { position, limit })?;
        if self.rest.len() < length {
            return Ok(None);
        }
        let bytes = self.rest.split_to(length).freeze();
        batch::check_stored(&bytes).map_err(|source| DownloadFault::Corrupt { position, source })?;
        Ok(Some(bytes))
    }

    fn take(
        &mut self,
        bytes: &Bytes,
        listener: &str,
        records: &mut Vec<MetadataRecord>,
    ) -> Result<(), DownloadFault> {
        let position = self.position - (self.rest.len() + bytes.len()) as u64;
        let is_control = batch::BatchView::parse(bytes).is_ok_and(|view| view.is_control());
        if self.has_footer || (!self.has_header && !is_control) {
            return Err(DownloadFault::Order { position });
        }
        if !is_control {
            for record in transactions::records(bytes)? {
                records.push(record?);
            }
            return Ok(());
        }
        for (kind, _) in transactions::control_records(bytes)? {
            match (kind, self.has_header, self.has_footer) {
                (HEADER, false, false) => self.has_header = true,
                (FOOTER, true, false) => self.has_footer = true,
                (HEADER | FOOTER, ..) | (_, false, _) | (.., true) => {
                    return Err(DownloadFault::Order { position });
                }
                _ => {}
            }
        }
        self.quorum.take(bytes, listener)?;
        Ok(())
    }
}

/// A snapshot that cannot be used.
#[derive(Debug, Error)]
pub(crate) enum DownloadFault {
    #[error("the snapshot has an impossible size of {size} bytes, or its size has changed")]
    Size { size: i64 },
    #[error("the snapshot has {size} bytes; the limit is {limit}")]
    TooLarge { size: u64, limit: u64 },
    #[error("the response has no bytes of the snapshot at position {position}")]
    Empty { position: u64 },
    #[error("the batch at byte {position} of the snapshot has an impossible length; the limit is {limit}")]
    BatchSize { position: u64, limit: usize },
    #[error("the batch at byte {position} of the snapshot is damaged: {source}")]
    Corrupt { position: u64, source: BatchError },
    #[error("the batch at byte {position} of the snapshot is not between its header and its footer")]
    Order { position: u64 },
    #[error("the snapshot ends at {size} bytes without its footer")]
    Incomplete { size: u64 },
    #[error(transparent)]
    Record(#[from] RecordFault),
}
