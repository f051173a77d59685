//! The machine's limit for readers of one thread: a bare loop of `epoll` and `splice` on the broker's processor that gives each connection a turn
//! of as much as a broker's shard does, and does nothing else. What small readers wait beside a large one here, no broker of one
//! thread can spare them.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;

use rustix::net::SendFlags;
use rustix::pipe::SpliceFlags;

use crate::error::LabError;
use crate::experiments::broker::harness::event_loop::{self, Wants};
use crate::experiments::broker::harness::floor::{self, Fetches};
use crate::harness::bench::Bench;

/// A broker's turn.
const TURN_BYTES: usize = 1 << 20;

/// Serves whoever connects, from the first of `topics` that a request names, while `clients` runs.
pub(super) fn beside<T>(
    bench: &Bench,
    topics: &[Fetches<'_>],
    clients: impl FnOnce(SocketAddr) -> Result<T, LabError>,
) -> Result<T, LabError> {
    let served = floor::around(bench, |listener, over| serve(listener, topics, over), clients);
    served.map(|(seen, _)| seen)
}

fn serve(listener: &TcpListener, topics: &[Fetches<'_>], over: &AtomicBool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    event_loop::serve(listener, over, Connection::new, |_, connection| connection.turn(topics))
}

struct Connection {
    stream: TcpStream,
    pipe: Option<(OwnedFd, OwnedFd)>,
    /// Bytes in the pipe.
    held: usize,
    /// What of its topic's file is still to be read: which topic, from where, to where.
    rest: Option<(usize, u64, u64)>,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, pipe: None, held: 0, rest: None })
    }

    /// Takes a request, or sends more of the answer.
    fn turn(&mut self, topics: &[Fetches<'_>]) -> io::Result<Wants> {
        if self.rest.is_none() && !self.begin(topics)? {
            return Ok(Wants::Nothing);
        }
        let Some((topic, mut from, end)) = self.rest else { return Ok(Wants::ToReceive) };
        let (reader, writer) = match &mut self.pipe {
            Some(pipe) => pipe,
            none => none.insert(pipe()?),
        };
        let mut left = TURN_BYTES;
        while left > 0 && (self.held > 0 || from < end) {
            if self.held == 0 {
                let want = usize::try_from(end - from).unwrap_or(usize::MAX).min(left);
                self.held = rustix::pipe::splice(
                    topics[topic].file,
                    Some(&mut from),
                    &*writer,
                    None,
                    want,
                    SpliceFlags::MOVE,
                )?;
                if self.held == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let more = if from < end { SpliceFlags::MORE } else { SpliceFlags::empty() };
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK | more;
            match rustix::pipe::splice(&*reader, None, &self.stream, None, self.held, flags) {
                Ok(count) => (self.held, left) = (self.held - count, left - count),
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => return Ok(Wants::Nothing),
                Err(errno) => return Err(errno.into()),
            }
        }
        self.rest = (self.held > 0 || from < end).then_some((topic, from, end));
        Ok(if self.rest.is_some() { Wants::ToSend } else { Wants::ToReceive })
    }

    /// Takes a request, which comes whole, and answers it, but for what goes by `splice`; whether the client is still there.
    fn begin(&mut self, topics: &[Fetches<'_>]) -> io::Result<bool> {
        let mut request = [0; 256];
        let len = match (&self.stream).read(&mut request) {
            Ok(0) => return Ok(false),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        let request = &request[..len];
        let asked = |fetches: &Fetches<'_>| fetches.number(request);
        let found = topics.iter().enumerate().find_map(|(at, fetches)| Some((at, asked(fetches)?)));
        let (at, batch) = found.ok_or_else(|| io::Error::other("nobody asked for this"))?;
        let fetches = &topics[at];
        let (from, len) = fetches.range(batch);
        let header = fetches.header(len)?;
        if fetches.is_small(len) {
            fetches.copy(&self.stream, &header, (from, len))?;
        } else {
            rustix::net::send(&self.stream, &header, SendFlags::MORE | SendFlags::NOSIGNAL)?;
            self.rest = Some((at, from as u64, (from + len) as u64));
        }
        Ok(true)
    }
}

/// Large enough for a turn.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe()?;
    rustix::pipe::fcntl_setpipe_size(&writer, TURN_BYTES)?;
    Ok((reader, writer))
}

#[cfg(test)]
mod tests;
