//! Records of a socket with kernel TLS: the record type travels with the bytes.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

const SOL_TLS: i32 = 282;
const SET_RECORD_TYPE: i32 = 1;
const GET_RECORD_TYPE: i32 = 2;

/// Size of the buffer for a control message of one byte, in words, aligned for its header.
const CONTROL_WORDS: usize = 8;

/// Receives from one record, without waiting: its kind, if the kernel reports it, and the number of
/// bytes.
pub(crate) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(Option<u8>, usize)> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: `msghdr` is a plain C structure for which zeroes are a valid value: no address, no
    // vector, no control data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the vector's only part is `into`, writable for its length; the control buffer is
    // writable for the length given; all outlive the call.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((kind(&message), count))
}

fn kind(message: &libc::msghdr) -> Option<u8> {
    // SAFETY: the header is one that `recvmsg` filled in, so control data and its length fit each
    // other.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return None;
    }
    // SAFETY: not null, so it points to a whole header inside the control buffer, which is aligned
    // for it.
    let head = unsafe { *header };
    // SAFETY: computes a length from the size of the header, no more.
    let least = unsafe { libc::CMSG_LEN(1) };
    if (head.cmsg_level, head.cmsg_type) != (SOL_TLS, GET_RECORD_TYPE) || head.cmsg_len < least as usize {
        return None;
    }
    // SAFETY: computes the address after the header, inside the control buffer, as the length just
    // checked says.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the length was checked, so there is at least one byte, which the kernel has written.
    Some(unsafe { *data })
}

/// Sends `bytes` as one record of this kind, without waiting.
pub(crate) fn send(socket: BorrowedFd<'_>, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: `msghdr` is a plain C structure for which zeroes are a valid value: no address, no
    // vector, no control data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: computes a length from the size of the header, no more.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(1) } as usize;
    // SAFETY: control data and its length are set, and the buffer is larger than a header with one
    // byte after it.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: computes a length from the size of the header, no more.
    let len = unsafe { libc::CMSG_LEN(1) } as usize;
    let head = libc::cmsghdr { cmsg_len: len, cmsg_level: SOL_TLS, cmsg_type: SET_RECORD_TYPE };
    // SAFETY: the control buffer is not null, aligned for a header, and large enough for one.
    unsafe { header.write(head) };
    // SAFETY: computes the address after the header, inside the control buffer.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the buffer has room for one byte there.
    unsafe { data.write(kind) };
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the vector's only part is `bytes`, which the kernel only reads; header and control
    // data are valid; all outlive the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
    match usize::try_from(sent) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
