//! Socket options for receivers that neither the standard library nor `rustix` offers.

use std::io;
use std::os::fd::AsFd;

use crate::sys::calls;

/// `poll` says that there is something to receive when this many bytes are there (`SO_RCVLOWAT`).
///
/// Fewer, larger wake-ups cost the receiver less and make what the sender pays repeatable. The
/// kernel makes room for that many by itself. Wait by `poll`, then receive without waiting: a
/// receive that blocks takes what is there first and then sleeps until this many bytes have come on
/// top of that, for ever if the sender owes fewer (Linux 6.18).
///
/// # Errors
/// More than an `i32` holds, or not a socket.
pub fn receive_low_water(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    calls::receive_low_water(socket.as_fd(), bytes)
}

#[cfg(test)]
mod tests;
