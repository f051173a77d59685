//! The machine's limit for readers of one thread: a bare loop of `epoll` and `splice` on the
//! broker's processor, with turns of the same size as in a broker's shard. With one thread, no
//! broker gives small readers a shorter latency during a large fetch.

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

/// Serves all connections while `clients` runs. Each request gets batches of the first element of
/// `topics` that it names.
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
    /// Index of the topic whose file contains the rest of the response.
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

    /// Receives a request, or sends more of the response.
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

    /// Receives a request, which must arrive in one read, and sends its response, except for the
    /// part that `splice` sends later. Returns true if the client is still connected.
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
        let (at, batch) =
            found.ok_or_else(|| io::Error::other("the request names no batch of these topics"))?;
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
