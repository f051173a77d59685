//! `MSG_ZEROCOPY`: memory to the socket by reference, without a ring.
//!
//! *Saves* the one copy that a send of memory has. *Needs* `SO_ZEROCOPY` on a TCP socket, memory that may be pinned, and somebody who
//! reads the socket's error queue, where the kernel says which sends it is done with: in ranges, several sends at once, in any order.
//! *Loses* below some 10 KiB, where pinning and that second call cost more than copying, to `SEND_ZC`, whose notifications need no call,
//! and on loopback and virtual devices, where the kernel copies after all.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::probe::Caps;

/// Works where the kernel has it.
pub(crate) fn needs(caps: &Caps) -> bool {
    caps.msg_zerocopy.works()
}

/// `MSG_ZEROCOPY`, for which rustix has no name.
const ZEROCOPY: SendFlags = SendFlags::from_bits_retain(0x0400_0000);

/// Sends once, by reference; the memory must be kept until the kernel says that it is done.
pub(crate) fn send(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>], flags: SendFlags) -> Result<usize, Errno> {
    let mut control = SendAncillaryBuffer::default();
    rustix::net::sendmsg(socket, pieces, &mut control, flags | SendFlags::NOSIGNAL | ZEROCOPY)
}
