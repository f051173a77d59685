//! Objects of a store by key, without meaning: the contract of directories and object stores.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::error::{RemoteError, RemoteErrorKind};

/// First part of the keys of objects that are not of segments, after the store's prefix.
pub(crate) const OWN: &str = ".levada/";

/// Bytes of an object to be written, in order.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// The first bytes of a file.
    File(&'a File, u64),
    /// Content in memory.
    Bytes(&'a [u8]),
}

/// Object that a listing has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Key within the bucket or directory.
    pub key: String,
    /// Length of the object, bytes.
    pub length: u64,
}

/// Consumer of received bytes, in order.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// Objects of a store. All functions block.
pub(crate) trait Objects: Send + Sync {
    /// Writes an object whole: before the return, a reader finds the former object or none.
    fn put(&self, key: &str, parts: &[Part<'_>]) -> Result<(), RemoteError>;

    /// Writes an object if the store has none with this key. False if it has one. Of several
    /// concurrent calls, one returns true. [`RemoteErrorKind::Unsupported`] if the store has no
    /// such operation.
    fn create(&self, key: &str, content: &[u8]) -> Result<bool, RemoteError>;

    /// Passes a range of an object to `sink`, in order. An object with another length than `length`
    /// bytes is damaged. After an error the sink may have received a part.
    fn read(&self, key: &str, length: u64, range: Range<u64>, sink: Sink<'_>) -> Result<(), RemoteError>;

    /// Returns a whole object. An object with more than `limit` bytes is damaged; its bytes are not
    /// received.
    fn read_whole(&self, key: &str, limit: u64) -> Result<Vec<u8>, RemoteError>;

    /// Deletes objects. A missing object is no error.
    fn delete(&self, keys: &[String]) -> Result<(), RemoteError>;

    /// Passes all objects whose keys begin with the directory `prefix` (empty: all) to `each`.
    fn list(&self, prefix: &str, each: &mut dyn FnMut(ObjectEntry)) -> Result<(), RemoteError>;

    /// Text that names the object for an operator.
    fn name(&self, key: &str) -> String;
}

impl Part<'_> {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

/// Reads `buffer.len()` bytes of the joined `parts` from `position`. Blocks for the disk.
pub(crate) fn read_parts(parts: &[Part<'_>], position: u64, buffer: &mut [u8]) -> io::Result<()> {
    let (mut skip, mut rest) = (position, buffer);
    for part in parts {
        let length = part.length();
        if skip >= length {
            skip -= length;
            continue;
        }
        let take = usize::try_from(length - skip).map_or(rest.len(), |left| left.min(rest.len()));
        let (piece, later) = rest.split_at_mut(take);
        match part {
            Part::File(file, _) => file.read_exact_at(piece, skip)?,
            // `skip` lies within the bytes, so that it fits into `usize`.
            Part::Bytes(bytes) => piece.copy_from_slice(&bytes[skip as usize..][..take]),
        }
        (skip, rest) = (0, later);
    }
    if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Sum of the lengths of `parts`.
pub(crate) fn total_length(parts: &[Part<'_>]) -> u64 {
    parts.iter().map(Part::length).sum()
}

/// An object whose length is not the one that its metadata promises.
pub(crate) fn wrong_length(name: &str, length: u64, expected: u64) -> RemoteError {
    let cause = format!("the object has {length} bytes and should have {expected}");
    RemoteError::new(RemoteErrorKind::Damaged, format!("cannot read {name}"), cause)
}

/// An object that is larger than any valid one.
pub(crate) fn too_long(name: &str, length: u64, limit: u64) -> RemoteError {
    let cause = format!("the object has {length} bytes, at most {limit} are valid");
    RemoteError::new(RemoteErrorKind::Damaged, format!("cannot read {name}"), cause)
}
