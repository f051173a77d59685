//! Operations of a ring: each is a value that owns all memory the kernel will access.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use rustix::net::SendFlags;

use super::files::{FileSlot, FileTable};
use crate::sys::buf::Buffer;

/// A file or socket that stays open while an operation needs it.
#[derive(Clone)]
pub struct Handle(Arc<dyn AsFd + Send + Sync>);

impl<T: AsFd + Send + Sync + 'static> From<Arc<T>> for Handle {
    fn from(owner: Arc<T>) -> Self {
        Self(owner)
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.as_fd()).finish()
    }
}

/// Source or destination of an operation.
#[derive(Debug, Clone)]
pub enum Target {
    /// A descriptor; the kernel looks it up in each operation.
    Handle(Handle),
    /// A slot in the ring's file table, which is looked up faster.
    Slot(FileSlot),
}

impl From<Handle> for Target {
    fn from(handle: Handle) -> Self {
        Self::Handle(handle)
    }
}

impl<T: AsFd + Send + Sync + 'static> From<Arc<T>> for Target {
    fn from(owner: Arc<T>) -> Self {
        Self::Handle(owner.into())
    }
}

impl From<&FileSlot> for Target {
    fn from(slot: &FileSlot) -> Self {
        Self::Slot(slot.clone())
    }
}

/// Memory that the kernel reads or writes; it returns with the operation's last completion.
#[derive(Debug)]
pub enum Memory {
    /// No memory.
    Nothing,
    /// A buffer to read into, or whose filled bytes are sent. Costs least if its pool is registered
    /// with the ring.
    Buffer(Buffer),
    /// A part of the filled bytes of a buffer that others read too: to send.
    Shared(Arc<Buffer>, Range<usize>),
    /// Bytes to send.
    Bytes(Bytes),
    /// Several pieces to send as one message.
    Pieces(Vec<Bytes>),
}

impl Memory {
    /// Number of bytes a send of it sends.
    pub fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Buffer(buffer) => buffer.len(),
            Self::Shared(_, range) => range.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    /// True if the operation has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Treatment of the page cache by a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Caching {
    /// Pages stay in the cache, the kernel's default.
    #[default]
    Keep,
    /// Pages that this read loads are dropped at its end (`RWF_DONTCACHE`, Linux 6.14);
    /// `EOPNOTSUPP` if the kernel or the file system does not support that.
    Drop,
}

/// `MSG_WAITALL`: the ring continues after a short send, and a send that stays short is a failure
/// of its chain.
pub(super) const WAIT_ALL: SendFlags = SendFlags::from_bits_retain(0x100);

/// One operation that is not yet submitted to a ring.
#[derive(Debug)]
pub struct Operation {
    pub(crate) target: Option<Target>,
    pub(crate) memory: Memory,
    pub(crate) verb: Verb,
}

/// Kind of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verb {
    Nothing,
    Read { offset: u64, len: u32, caching: Caching },
    Send { zero_copy: bool, flags: SendFlags },
    Sync,
    Cancel { user_data: u64 },
}

impl Operation {
    /// Does nothing and succeeds, for tests and measurements of the ring itself.
    pub fn nothing() -> Self {
        Self { target: None, memory: Memory::Nothing, verb: Verb::Nothing }
    }

    /// Reads up to `len` bytes at `offset` of a file into `buffer`, no more than fit. Its result is
    /// how many were read; they are the buffer's filled bytes then.
    pub fn read(file: impl Into<Target>, offset: u64, len: usize, buffer: Buffer) -> Self {
        let len = u32::try_from(len.min(buffer.capacity())).unwrap_or(u32::MAX);
        let verb = Verb::Read { offset, len, caching: Caching::Keep };
        Self { target: Some(file.into()), memory: Memory::Buffer(buffer), verb }
    }

    /// Sends memory to a connected socket. Its result is how many bytes the socket took: all of
    /// them, unless the connection fails or the kernel stops short; an operation of a chain that
    /// stops short ends the chain.
    pub fn send(socket: impl Into<Target>, memory: Memory) -> Self {
        let verb = Verb::Send { zero_copy: false, flags: SendFlags::NOSIGNAL | WAIT_ALL };
        Self { target: Some(socket.into()), memory, verb }
    }

    /// Writes a file's changed pages and size to the device (`fdatasync`).
    pub fn sync(file: impl Into<Target>) -> Self {
        Self { target: Some(file.into()), memory: Memory::Nothing, verb: Verb::Sync }
    }

    /// Sets the use of the page cache by a read.
    #[must_use]
    pub fn caching(mut self, how: Caching) -> Self {
        if let Verb::Read { caching, .. } = &mut self.verb {
            *caching = how;
        }
        self
    }

    /// Sends by reference (`SEND_ZC`, `SENDMSG_ZC`). The memory is released only by a second
    /// completion.
    #[must_use]
    pub fn zero_copy(mut self) -> Self {
        if let Verb::Send { zero_copy, .. } = &mut self.verb {
            *zero_copy = true;
        }
        self
    }

    /// Announces that more data follows a send, so that the kernel waits for a full segment.
    #[must_use]
    pub fn more(mut self) -> Self {
        if let Verb::Send { flags, .. } = &mut self.verb {
            *flags |= SendFlags::MORE;
        }
        self
    }

    /// Asserts that its file, if it has a slot, is in this table, and that its memory is within its
    /// buffer.
    pub(crate) fn assert_fits(&self, table: &Rc<RefCell<FileTable>>) {
        if let Some(Target::Slot(slot)) = &self.target {
            assert!(slot.is_of(table), "{slot:?} is a place in the table of another ring");
        }
        if let Memory::Shared(buffer, range) = &self.memory {
            let fits = range.start <= range.end && range.end <= buffer.len();
            assert!(fits, "bytes {range:?} of a buffer with {}", buffer.len());
        }
    }

    /// The memory, for an operation that was never started.
    pub fn into_memory(self) -> Memory {
        self.memory
    }
}
