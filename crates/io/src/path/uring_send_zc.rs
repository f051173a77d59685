//! `SEND_ZC` and `SENDMSG_ZC`: memory to the socket by reference.
//!
//! *Saves* the one copy that a send of memory has. *Needs* a ring on Linux 6.1, a network card with scatter-gather, and patience: the
//! memory is the kernel's until the peer has acknowledged it. *Loses* below some 16 KiB (4 KiB in registered buffers), where pinning and the
//! notification cost more than copying, and on routes where the kernel copies after all: loopback, veth, tun. Each notification
//! says whether it did; [`Routes`](crate::routes::Routes) remembers.

use crate::probe::Caps;
use crate::ring::{Memory, Operation, Target};

/// Works where a ring and these operations do.
pub(crate) fn needs(caps: &Caps) -> bool {
    caps.io_uring.works() && caps.ring_zero_copy.works()
}

/// The operation for one run.
pub(crate) fn operation(socket: Target, memory: Memory) -> Operation {
    Operation::send(socket, memory).zero_copy()
}
