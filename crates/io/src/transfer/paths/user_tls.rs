//! Encrypted by a library in this process, then sent: the path of TLS where the kernel does not
//! encrypt.
//!
//! *Saves* nothing; it is what TLS costs without the kernel: a range is read straight into the
//! buffer that is the encryption's input, many records are encrypted at a time and leave by one
//! `send`. *Needs* nothing but the library. *Loses* to splicing into a socket that [encrypts by
//! itself](crate::ktls), which never copies the bytes to user memory.
//!
//! Bytes are counted when the socket takes them, encrypted, so that the headers and tags of the
//! records are counted too. Encrypted bytes that the socket has not taken stay with their transfer:
//! they cannot be encrypted a second time.

use std::io::IoSlice;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::error::TransferError;
use crate::path::Path;
use crate::piece::Piece;
use crate::transfer::engine::Engine;
use crate::transfer::job::{Job, Progress};
use crate::transfer::paths::read_write::{self, Span};
use crate::transfer::queue::Queue;

/// Copies and reads from the front of the queue into `into`, as much as there is or fits, and no
/// further than to pages that are not in the cache; how much that is.
pub(crate) fn gather(engine: &Engine, queue: &Queue, into: &mut [u8]) -> Result<usize, TransferError> {
    let mut gathered = 0;
    // Bytes that may be waited for: all, or those reported as cold before.
    let mut patience = if engine.reports_cold { queue.resident_bytes() } else { u64::MAX };
    for (piece, _, done) in queue.unsent(engine) {
        let left = usize::try_from(piece.len() - done).unwrap_or(usize::MAX);
        let free = &mut into[gathered..];
        let mut now = left.min(free.len());
        let got = match piece {
            Piece::Bytes(bytes) => {
                let start = bytes.len() - left;
                free[..now].copy_from_slice(&bytes[start..start + now]);
                now
            }
            Piece::Extent(extent) | Piece::Volatile(extent) => {
                let wait = patience > 0;
                if wait {
                    now = now.min(usize::try_from(patience).unwrap_or(usize::MAX));
                }
                let span = Span { extent, done, wait };
                read_write::read(engine, Path::UserTls, span, &mut free[..now])?
            }
        };
        gathered += got;
        if got < left {
            break;
        }
        patience = if engine.reports_cold { 0 } else { u64::MAX };
    }
    Ok(gathered)
}

/// Sends encrypted bytes until all are accepted or the socket would block; returns the number of
/// accepted bytes in either case. `queue` contains the data after them.
pub(crate) fn send(job: &Job<'_>, queue: &Queue, bytes: &[u8]) -> (usize, Result<Progress, TransferError>) {
    let counters = &job.engine.counters;
    let more = if queue.remaining() > 0 && job.budget > 0 { SendFlags::MORE } else { SendFlags::empty() };
    let mut sent = 0;
    while sent < bytes.len() {
        let taken = counters.call(Path::UserTls, || {
            let slices = [IoSlice::new(&bytes[sent..])];
            let mut control = SendAncillaryBuffer::default();
            rustix::net::sendmsg(job.socket, &slices, &mut control, SendFlags::NOSIGNAL | more)
        });
        match taken {
            // Not a thing that sockets do; going round again would never end.
            Ok(0) => return (sent, Err(Job::peer_failed(queue, 0, Errno::PIPE))),
            Ok(count) => {
                counters.moved(Path::UserTls, count as u64);
                counters.copied(count as u64);
                sent += count;
            }
            Err(Errno::AGAIN) => return (sent, Ok(Progress::Blocked)),
            Err(Errno::INTR) => {}
            Err(errno) => return (sent, Err(Job::peer_failed(queue, 0, errno))),
        }
    }
    (sent, Ok(Progress::Moved))
}
