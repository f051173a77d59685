//! `SEND_ZC` and `SENDMSG_ZC`: memory to the socket by reference.
//!
//! *Saves* the one copy that a send of memory has. *Needs* a ring on Linux 6.1, a network card with scatter-gather, and patience: the
//! memory is the kernel's until the peer has acknowledged it. *Loses* below some 16 KiB (4 KiB in registered buffers), where pinning and the
//! notification cost more than copying, and on routes where the kernel copies after all: loopback, veth, tun. Each notification
//! says whether it did; [`Routes`](crate::routes::Routes) remembers.
//!
//! `SENDMSG_ZC` does not name registered buffers, which Linux 6.15 would allow: all pieces of such a message have to lie in one of them, while a
//! pool registers each of its buffers by itself, and the `io-uring` crate (0.7) has no way to say which. A piece in a registered
//! buffer leaves by a `SEND_ZC` of its own instead, linked with its neighbours; those that are not registered share a `SENDMSG_ZC`.

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
