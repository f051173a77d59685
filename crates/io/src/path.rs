//! The names of the transfer paths: the catalogue for counters, metrics and tables.
//!
//! Each path is implemented in one file, whose head describes the path's savings, requirements and
//! drawbacks: from a file to a socket in [`paths`](crate::paths), from memory in
//! [`outbox`](crate::outbox) and [`zerocopy`](crate::zerocopy), from a file into memory in
//! [`inflow`](crate::inflow), from file to file in [`copy`](mod@crate::copy).

use std::fmt;

use crate::probe::{Caps, Means};

/// Path of bytes to the socket, or to another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Path {
    /// From memory where they already were, by `sendmsg`: the kernel copies them once.
    Send,
    /// From a file into a buffer by `preadv2`, from there by `sendmsg`: copied twice.
    ReadWrite,
    /// From the page cache by `sendfile`: by reference, in steps of 64 KiB. See
    /// [`Path::SendfileCopy`].
    Sendfile,
    /// From the page cache through a pipe of ours by `splice`: by reference, in steps of the pipe's
    /// size. See [`Path::SpliceCopy`].
    Splice,
    /// From file to file inside the kernel, by `copy_file_range`.
    CopyFileRange,
    /// From file to file by sharing blocks (`FICLONE`): nothing is moved.
    Reflink,
    /// From a file into a buffer through a ring; the send of the buffer counts separately.
    UringRead,
    /// From memory through a ring, copied once.
    UringSend,
    /// From memory through a ring, by reference;
    /// [`Snapshot::copied_by_kernel`](crate::Snapshot::copied_by_kernel) counts exceptions.
    UringSendZc,
    /// From a mapping of the file by `send`: copied once.
    MmapWrite,
    /// From memory by `MSG_ZEROCOPY`, by reference; see
    /// [`Snapshot::copied_by_kernel`](crate::Snapshot::copied_by_kernel).
    MsgZerocopy,
    /// Encrypted in this process, then by `send`; bytes are counted as they leave, encrypted.
    UserTls,
    /// Like [`Path::Splice`], where the kernel puts copies of the pages into the pipe: copied once.
    SpliceCopy,
    /// Like [`Path::Sendfile`], where the kernel copies the pages: copied once.
    SendfileCopy,
}

impl Path {
    /// Every path, in the order of its index in counters.
    pub const ALL: [Self; 14] = [
        Self::Send,
        Self::ReadWrite,
        Self::Sendfile,
        Self::Splice,
        Self::CopyFileRange,
        Self::Reflink,
        Self::UringRead,
        Self::UringSend,
        Self::UringSendZc,
        Self::MmapWrite,
        Self::MsgZerocopy,
        Self::UserTls,
        Self::SpliceCopy,
        Self::SendfileCopy,
    ];

    /// The name used in metrics and tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::ReadWrite => "read_write",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
            Self::CopyFileRange => "copy_file_range",
            Self::Reflink => "reflink",
            Self::UringRead => "uring_read",
            Self::UringSend => "uring_send",
            Self::UringSendZc => "uring_send_zc",
            Self::MmapWrite => "mmap_write",
            Self::MsgZerocopy => "msg_zerocopy",
            Self::UserTls => "user_tls",
            Self::SpliceCopy => "splice_copy",
            Self::SendfileCopy => "sendfile_copy",
        }
    }

    /// True if this machine has it.
    pub fn works(self, caps: &Caps) -> bool {
        match self {
            Self::Send | Self::ReadWrite | Self::MmapWrite | Self::UserTls => true,
            Self::Sendfile => caps.sendfile.works() && caps.page_references.works(),
            Self::Splice => caps.splice.works() && caps.page_references.works(),
            Self::SendfileCopy => caps.sendfile.works() && !caps.page_references.works(),
            Self::SpliceCopy => caps.splice.works() && !caps.page_references.works(),
            Self::CopyFileRange => caps.copy_file_range.works(),
            Self::Reflink => caps.reflink.works(),
            Self::UringRead | Self::UringSend => caps.io_uring.works(),
            Self::UringSendZc => caps.io_uring.works() && caps.ring_zero_copy.works(),
            Self::MsgZerocopy => caps.msg_zerocopy.works(),
        }
    }

    /// The path from a file to a socket, if this is one.
    pub fn to_socket(self) -> Option<SocketPath> {
        SocketPath::ALL.into_iter().find(|path| Self::from(*path) == self)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

const _: () = {
    let mut index = 0;
    while index < Path::ALL.len() {
        assert!(Path::ALL[index] as usize == index, "the list of paths is in the order of their index");
        index += 1;
    }
};

/// The paths that a [`Transfer`](crate::Transfer) sends a range of a file by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketPath {
    /// [`Path::ReadWrite`]; bytes from memory are sent by the same call, and count as
    /// [`Path::Send`].
    ReadWrite,
    /// [`Path::MmapWrite`]: planned where the kernel copies pages for `splice`.
    MmapWrite,
    /// [`Path::Sendfile`], or [`Path::SendfileCopy`] where the kernel copies.
    Sendfile,
    /// [`Path::Splice`], or [`Path::SpliceCopy`] where the kernel copies.
    Splice,
}

impl SocketPath {
    /// All paths to a socket.
    pub const ALL: [Self; 4] = [Self::ReadWrite, Self::MmapWrite, Self::Sendfile, Self::Splice];
}

impl SocketPath {
    /// The name under which bytes count.
    pub(crate) fn counted(self, means: Means) -> Path {
        match self {
            Self::Splice if !means.page_references => Path::SpliceCopy,
            Self::Sendfile if !means.page_references => Path::SendfileCopy,
            path => path.into(),
        }
    }
}

impl From<SocketPath> for Path {
    fn from(path: SocketPath) -> Self {
        match path {
            SocketPath::ReadWrite => Self::ReadWrite,
            SocketPath::MmapWrite => Self::MmapWrite,
            SocketPath::Sendfile => Self::Sendfile,
            SocketPath::Splice => Self::Splice,
        }
    }
}

#[cfg(test)]
mod tests;
