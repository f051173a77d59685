//! Receives the bytes of one connection, in the receiving process.

use std::io;
use std::net::{TcpListener, TcpStream};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::{Part, ReceiveMode};
use crate::harness::payload;
use crate::harness::tls_records::Opener;
use crate::machine::cpu;

/// A usual size of reads.
const BUFFER_BYTES: usize = 256 << 10;

/// Receives all parts from the next connection; `each` gets all but the last one, which is
/// returned.
pub(super) fn all(
    listener: Option<&TcpListener>,
    (take, sealed): (ReceiveMode, bool),
    parts: &[u64],
    mut each: impl FnMut(Part) -> io::Result<()>,
) -> io::Result<Part> {
    let listener = listener.ok_or_else(|| io::Error::other("told to receive before it was to listen"))?;
    let (last, others) =
        parts.split_last().ok_or_else(|| io::Error::other("told to receive nothing at all"))?;
    let (socket, _) = listener.accept()?;
    if sealed {
        let mut opener = Opener::new()?;
        for bytes in others {
            each(sealed_part(&socket, take, *bytes, &mut opener)?)?;
        }
        return sealed_part(&socket, take, *last, &mut opener);
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    for bytes in others {
        each(part(&socket, take, *bytes, &mut buffer)?)?;
    }
    part(&socket, take, *last, &mut buffer)
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

fn part(socket: &TcpStream, take: ReceiveMode, bytes: u64, buffer: &mut [u8]) -> io::Result<Part> {
    let flags = if take == ReceiveMode::Discard { RecvFlags::TRUNC } else { RecvFlags::empty() };
    let (before, mut digest) = (cpu::of_this_process(), payload::digest());
    let (mut done, mut calls) = (0, 0);
    while done < bytes {
        let want = usize::try_from(bytes - done).unwrap_or(usize::MAX).min(buffer.len());
        calls += 1;
        match rustix::net::recv(socket, &mut buffer[..want], flags) {
            Ok((0, _)) => break,
            Ok((count, _)) => {
                if take == ReceiveMode::Check {
                    digest.update(&buffer[..count]);
                }
                done += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let done_ns = cpu::monotonic_ns();
    let cpu = cpu::of_this_process().saturating_sub(before);
    let checksum = if take == ReceiveMode::Check { digest.finalize() } else { 0 };
    Ok(Part { bytes: done, checksum, cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(0), calls, done_ns })
}
