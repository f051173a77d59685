//! Receives the bytes of connections in the second process.

use std::io;
use std::net::{TcpListener, TcpStream};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::RecvFlags;

use super::{Order, Part, ReceiveMode};
use crate::harness::payload;
use crate::harness::tls_records::Opener;
use crate::machine::cpu;

/// Bytes of one read, a common size.
const BUFFER_BYTES: usize = 256 << 10;

/// Receives all parts from the next connections, an equal share of each part from each connection.
/// Calls `each` for all parts but the last one, which is returned.
pub(super) fn all(
    listener: Option<&TcpListener>,
    order: &Order,
    mut each: impl FnMut(Part) -> io::Result<()>,
) -> io::Result<Part> {
    let listener =
        listener.ok_or_else(|| io::Error::other("a command to receive came before a command to listen"))?;
    let (last, others) = order.parts.split_last().ok_or_else(|| {
        io::Error::other("a command to receive has no parts: there is nothing at all to receive")
    })?;
    let sockets: io::Result<Vec<TcpStream>> =
        (0..order.connections.max(1)).map(|_| Ok(listener.accept()?.0)).collect();
    let (sockets, take) = (sockets?, order.take);
    if order.sealed {
        let mut opener = Opener::new()?;
        for bytes in others {
            each(sealed_part(&sockets[0], take, *bytes, &mut opener)?)?;
        }
        return sealed_part(&sockets[0], take, *last, &mut opener);
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    for bytes in others {
        each(part(&sockets, take, *bytes, &mut buffer)?)?;
    }
    part(&sockets, take, *last, &mut buffer)
}

fn sealed_part(socket: &TcpStream, take: ReceiveMode, bytes: u64, opener: &mut Opener) -> io::Result<Part> {
    let (before, calls, mut digest) = (cpu::of_this_process(), opener.calls, payload::digest());
    let mut done = 0;
    while done < bytes
        && let Some((count, plain)) = opener.next(socket, take)?
    {
        digest.update(plain);
        done += count as u64;
    }
    let done_ns = cpu::monotonic_ns();
    let cpu = cpu::of_this_process().saturating_sub(before);
    let checksum = if take == ReceiveMode::Check { digest.finalize() } else { 0 };
    let cpu_ns = u64::try_from(cpu.as_nanos()).unwrap_or(0);
    Ok(Part { bytes: done, checksum, cpu_ns, calls: opener.calls - calls, done_ns })
}

/// Receives a part. Its checksum is the sum of the checksums of its shares.
fn part(sockets: &[TcpStream], take: ReceiveMode, bytes: u64, buffer: &mut [u8]) -> io::Result<Part> {
    let before = cpu::of_this_process();
    let share = Share { left: bytes / sockets.len() as u64, digest: payload::digest(), calls: 0 };
    let mut shares = vec![share; sockets.len()];
    if let ([socket], [share]) = (sockets, &mut shares[..]) {
        while share.left > 0 && share.receive(socket, take, buffer)? {}
    } else {
        receive_in_turns(sockets, &mut shares, take, buffer)?;
    }
    let done_ns = cpu::monotonic_ns();
    let cpu = cpu::of_this_process().saturating_sub(before);
    let missing: u64 = shares.iter().map(|share| share.left).sum();
    let sums = shares.iter().map(|share| share.digest.clone().finalize());
    Ok(Part {
        bytes: bytes - bytes % sockets.len() as u64 - missing,
        checksum: if take == ReceiveMode::Check { sums.fold(0, u64::wrapping_add) } else { 0 },
        cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(0),
        calls: shares.iter().map(|share| share.calls).sum(),
        done_ns,
    })
}

/// Receives from any connection that has bytes, until all shares are complete or their connections
/// have ended.
fn receive_in_turns(
    sockets: &[TcpStream],
    shares: &mut [Share],
    take: ReceiveMode,
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut open: Vec<usize> = (0..sockets.len()).collect();
    loop {
        open.retain(|index| shares[*index].left > 0);
        if open.is_empty() {
            return Ok(());
        }
        let mut polled: Vec<PollFd<'_>> =
            open.iter().map(|index| PollFd::new(&sockets[*index], PollFlags::IN)).collect();
        retry_on_intr(|| poll(&mut polled, None))?;
        let is_ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut ended = Vec::new();
        for (index, _) in open.iter().zip(is_ready).filter(|(_, is_ready)| *is_ready) {
            if !shares[*index].receive(&sockets[*index], take, buffer)? {
                ended.push(*index);
            }
        }
        open.retain(|index| !ended.contains(index));
    }
}

/// Progress of a connection's share of a part.
#[derive(Clone)]
struct Share {
    left: u64,
    digest: crc_fast::Digest,
    calls: u64,
}

impl Share {
    /// Receives once; blocks until bytes arrive. Returns false at the end of the connection.
    fn receive(&mut self, socket: &TcpStream, take: ReceiveMode, buffer: &mut [u8]) -> io::Result<bool> {
        let flags = if take == ReceiveMode::Discard { RecvFlags::TRUNC } else { RecvFlags::empty() };
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        self.calls += 1;
        match rustix::net::recv(socket, &mut buffer[..want], flags) {
            Ok((0, _)) => return Ok(false),
            Ok((count, _)) => {
                if take == ReceiveMode::Check {
                    self.digest.update(&buffer[..count]);
                }
                self.left -= count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(true)
    }
}
