//! System calls and flags that `rustix` does not have.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

/// `cachestat(2)` (6.5): how many pages of the range are in the page cache, those still being read
/// in included.
///
/// A `len` of 0 means up to the end of the file.
pub(crate) fn cached_pages(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
    /// `struct cachestat_range`.
    #[repr(C)]
    struct Range {
        offset: u64,
        len: u64,
    }
    /// `struct cachestat`.
    #[repr(C)]
    #[derive(Default)]
    struct Stat {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    const CACHESTAT: libc::c_long = 451;
    let range = Range { offset, len };
    let mut stat = Stat::default();
    let flags: libc::c_uint = 0;
    let fd = file.as_raw_fd();
    // SAFETY: `range` and `stat` have the kernel's layout and outlive the call; the number is the
    // same on all architectures.
    let result = unsafe { libc::syscall(CACHESTAT, fd, &raw const range, &raw mut stat, flags) };
    if result == 0 { Ok(stat.cached) } else { Err(io::Error::last_os_error()) }
}

/// Enables kernel TLS on a connected TCP socket (`TCP_ULP`).
pub(crate) fn enable_kernel_tls(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Gives the kernel the keys of one direction (`TLS_TX`, `TLS_RX`); `info` is a
/// `struct tls12_crypto_info_…`.
pub(crate) fn set_kernel_tls(socket: BorrowedFd<'_>, send: bool, info: &[u8]) -> io::Result<()> {
    const SOL_TLS: i32 = 282;
    set_option(socket, SOL_TLS, if send { 1 } else { 2 }, info)
}

/// Allows `MSG_ZEROCOPY` on a socket (`SO_ZEROCOPY`).
pub(crate) fn enable_zerocopy(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32.to_ne_bytes())
}

/// `MSG_ZEROCOPY`, for which rustix has no name.
const ZEROCOPY: SendFlags = SendFlags::from_bits_retain(0x0400_0000);

/// Sends once, by reference (`MSG_ZEROCOPY`); the memory must be kept until the kernel reports that
/// it is done.
pub(crate) fn send_zerocopy(
    socket: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    flags: SendFlags,
) -> Result<usize, Errno> {
    let mut control = SendAncillaryBuffer::default();
    rustix::net::sendmsg(socket, slices, &mut control, flags | SendFlags::NOSIGNAL | ZEROCOPY)
}

/// Makes a blocking receive, and readiness, wait for this many bytes (`SO_RCVLOWAT`).
pub(crate) fn receive_low_water(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &bytes.to_ne_bytes())
}

/// The socket is writable only while fewer bytes than this were not sent yet
/// (`TCP_NOTSENT_LOWAT`).
#[cfg(test)]
pub(crate) fn unsent_low_water(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes.to_ne_bytes())
}

fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the pointer is valid for reading `len` bytes during the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
