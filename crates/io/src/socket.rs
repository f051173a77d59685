//! Socket options for receivers that neither the standard library nor `rustix` offers.

use std::io;
use std::os::fd::AsFd;

use crate::sys::calls;

/// `poll` reports a readable socket only when this many bytes are available (`SO_RCVLOWAT`).
///
/// Fewer, larger wake-ups cost the receiver less and make the sender's costs repeatable. The kernel
/// makes room for that many itself. Wait with `poll`, then receive without waiting: a blocking
/// receive takes the available bytes first and then sleeps until this many more bytes have arrived,
/// forever if the sender owes fewer (Linux 6.18).
///
/// # Errors
/// More than an `i32` holds, or not a socket.
pub fn receive_low_water(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    calls::receive_low_water(socket.as_fd(), bytes)
}

#[cfg(test)]
mod tests;
