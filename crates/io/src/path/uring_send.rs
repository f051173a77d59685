//! `SEND` and `SENDMSG` through a ring: memory to the socket, copied once, without waiting for the socket to be writable.
//!
//! *Saves* system calls: sends of many connections leave by one call, and a socket that is full is waited for by the kernel, in order
//! with the sends behind it. *Needs* a ring. *Loses* to a plain `send` for one small piece on a socket that has room: the ring's
//! bookkeeping costs more than the call.

use crate::path::uring_read;
use crate::probe::Caps;
use crate::ring::{Memory, Operation, Target};

/// Works where a ring does.
pub(crate) fn needs(caps: &Caps) -> bool {
    uring_read::needs(caps)
}

/// The operation for one run.
pub(crate) fn operation(socket: Target, memory: Memory) -> Operation {
    Operation::send(socket, memory)
}
