//! The machine's limit for readers of one thread: a bare loop of `epoll` and `splice` on the
//! broker's processor, with turns of the same size as a broker's shard. No broker with one thread
//! can make small readers wait less during a large fetch.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicBool;

use rustix::net::SendFlags;

use crate::error::LabError;
use crate::experiments::broker::harness::floor::Fetches;
use crate::harness::bench::Bench;
use crate::harness::event_loop::{self, Interest};
use crate::harness::spliced::{self, Spliced};

/// Serves all connections, from the first of `topics` that a request names, while `clients` runs.
pub(super) fn beside<T>(
    bench: &Bench,
    topics: &[Fetches<'_>],
    clients: impl FnOnce(SocketAddr) -> Result<T, LabError>,
) -> Result<T, LabError> {
    let served = event_loop::around(bench, |listener, over| serve(listener, topics, over), clients);
    served.map(|(seen, _)| seen)
}

fn serve(listener: &TcpListener, topics: &[Fetches<'_>], over: &AtomicBool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    event_loop::serve(listener, over, Connection::new, |_, connection| connection.turn(topics))
}

struct Connection {
    stream: TcpStream,
    /// The topic whose file the rest of an answer comes from.
    topic: usize,
    rest: Spliced,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, topic: 0, rest: Spliced::default() })
    }

    /// Takes a request, or sends more of the answer.
    fn turn(&mut self, topics: &[Fetches<'_>]) -> io::Result<Interest> {
        if self.rest.is_done() && !self.begin(topics)? {
            return Ok(Interest::Nothing);
        }
        match self.rest.turn(topics[self.topic].file, &self.stream) {
            Err(error) if spliced::is_gone(&error) => Ok(Interest::Nothing),
            outcome => {
                outcome?;
                Ok(if self.rest.is_done() { Interest::ToReceive } else { Interest::ToSend })
            }
        }
    }

    /// Receives a request, which arrives whole, and answers it, except for the part that `splice`
    /// sends; true if the client is still connected.
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
            self.topic = at;
            self.rest.begin(from as u64, len as u64);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
