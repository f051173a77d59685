//! Options of sockets that the standard library and `rustix` leave out, for those who receive.

use std::io;
use std::os::fd::AsFd;

use crate::sys::calls;

/// A blocking receive returns when this many bytes are there, or as many as it asked for (`SO_RCVLOWAT`).
///
/// Fewer, larger wake-ups cost the receiver less and make what the sender pays repeatable. The kernel makes room for that many by itself.
///
/// # Errors
/// More than an `i32` holds, or not a socket.
pub fn receive_low_water(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    calls::receive_low_water(socket.as_fd(), bytes)
}

#[cfg(test)]
mod tests;
