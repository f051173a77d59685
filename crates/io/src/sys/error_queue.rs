//! The error queue of a socket, in which the kernel reports completed zero-copy sends.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Sends that the kernel is done with: their numbers on this socket, from the first to the last,
/// both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// True if it copied after all.
    pub(crate) copied: bool,
}

/// `struct sock_extended_err`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ExtendedError {
    errno: u32,
    origin: u8,
    kind: u8,
    code: u8,
    pad: u8,
    info: u32,
    data: u32,
}

const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// Size of the buffer for an extended error and the address that may follow it, in 8-byte words.
const CONTROL_WORDS: usize = 32;

/// Removes and returns the next message of the queue. `None`: there is none.
///
/// Messages about anything else are skipped; the socket's next call reports the same errors.
pub(crate) fn next(socket: BorrowedFd<'_>) -> io::Result<Option<Acknowledged>> {
    loop {
        let mut control = [0_u64; CONTROL_WORDS];
        // SAFETY: `msghdr` is a plain C structure for which zeroes are a valid value: no address,
        // no vector, no control data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header is valid and its control buffer is writable for the length given; both
        // outlive the call.
        let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock => Ok(None),
                io::ErrorKind::Interrupted => continue,
                _ => Err(error),
            };
        }
        if let Some(acknowledged) = parse(&message) {
            return Ok(Some(acknowledged));
        }
    }
}

fn parse(message: &libc::msghdr) -> Option<Acknowledged> {
    // SAFETY: the header is one that `recvmsg` filled in, so control data and its length fit each
    // other.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return None;
    }
    // SAFETY: not null, so it points to a whole header inside the control buffer, which is aligned
    // for it.
    let head = unsafe { *header };
    let level = (head.cmsg_level, head.cmsg_type);
    if level != (libc::SOL_IP, libc::IP_RECVERR) && level != (libc::SOL_IPV6, libc::IPV6_RECVERR) {
        return None;
    }
    // SAFETY: computes an address from the size of the header, no more.
    let offset = unsafe { libc::CMSG_LEN(0) };
    if head.cmsg_len < offset as usize + size_of::<ExtendedError>() {
        return None;
    }
    let mut error = MaybeUninit::<ExtendedError>::uninit();
    // SAFETY: computes the address after the header, inside the control buffer, as the length just
    // checked says.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the length was checked, so all bytes of an `ExtendedError` are there; source and
    // destination do not overlap.
    unsafe { ptr::copy_nonoverlapping(data, error.as_mut_ptr().cast(), size_of::<ExtendedError>()) };
    // SAFETY: all of its bytes were written, and any bytes are a valid `ExtendedError`.
    let error = unsafe { error.assume_init() };
    let ExtendedError { errno, origin, code, info, data, .. } = error;
    let about_memory = errno == 0 && origin == ORIGIN_ZEROCOPY;
    about_memory.then_some(Acknowledged { first: info, last: data, copied: code & CODE_COPIED != 0 })
}
