//! The machine's limit: a bare loop of `epoll` that finds the file by name and sends a prepared
//! response with one call, or with `splice` if that costs less.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::net::SendFlags;

use crate::error::LabError;
use crate::experiments::files::site::{Site, SiteFile};
use crate::harness::bench::Bench;
use crate::harness::event_loop::{self, Interest};
use crate::harness::spliced::{self, Spliced};

/// Largest file, in bytes, that is kept in memory and copied to the socket.
const COPIED_BYTES: u64 = 32 << 10;

/// A prepared response.
struct Prepared {
    /// Request line that selects this response.
    asked: String,
    /// Head of the response, and the body of a small file.
    bytes: Vec<u8>,
    /// A large file and its length.
    rest: Option<(File, u64)>,
}

/// Serves the site to all connections while `clients` runs. Returns the result of `clients`, and
/// the processor time of the loop.
pub(super) fn beside<T>(
    bench: &Bench,
    site: &Site,
    clients: impl FnOnce(SocketAddr) -> Result<T, LabError>,
) -> Result<(T, Duration), LabError> {
    let answers: Vec<Prepared> =
        site.files.iter().map(|file| Prepared::new(site, file)).collect::<Result<_, _>>()?;
    event_loop::around(bench, |listener, over| serve(listener, &answers, over), clients)
}

impl Prepared {
    fn new(site: &Site, file: &SiteFile) -> Result<Self, LabError> {
        let path = site.root().join(&file.name);
        let mut open = File::open(&path).map_err(LabError::file("cannot open", &path))?;
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nDate: Mon, 23 Nov 2026 09:00:00 GMT\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {}\r\nETag: \"0123456789abcdef\"\r\nLast-Modified: Mon, 23 Nov 2026 09:00:00 GMT\r\n\
             Accept-Ranges: bytes\r\n\r\n",
            file.len
        )
        .into_bytes();
        let is_small = file.len <= COPIED_BYTES;
        if is_small {
            open.read_to_end(&mut bytes).map_err(LabError::file("cannot read", &path))?;
        }
        let asked = format!("GET /{} HTTP/1.1\r\n", file.name);
        Ok(Self { asked, bytes, rest: (!is_small).then_some((open, file.len)) })
    }
}

fn serve(listener: &TcpListener, answers: &[Prepared], over: &AtomicBool) -> io::Result<()> {
    event_loop::serve(listener, over, Connection::new, |_, connection| connection.turn(answers))
}

struct Connection {
    stream: TcpStream,
    file: usize,
    rest: Spliced,
    is_last: bool,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, file: 0, rest: Spliced::default(), is_last: false })
    }

    /// Receives a request, or sends more of the response.
    fn turn(&mut self, answers: &[Prepared]) -> io::Result<Interest> {
        match self.try_turn(answers) {
            Err(error) if spliced::is_gone(&error) => Ok(Interest::Nothing),
            outcome => outcome,
        }
    }

    fn try_turn(&mut self, answers: &[Prepared]) -> io::Result<Interest> {
        if self.rest.is_done() && !self.begin(answers)? {
            return Ok(Interest::Nothing);
        }
        if let Some((file, _)) = &answers[self.file].rest {
            self.rest.turn(file, &self.stream)?;
        }
        Ok(match (self.rest.is_done(), self.is_last) {
            (false, _) => Interest::ToSend,
            (true, true) => Interest::Nothing,
            (true, false) => Interest::ToReceive,
        })
    }

    /// Receives a request, which must arrive in one read, and sends its response, except for the
    /// part that `splice` sends later. Returns false if the client has disconnected.
    fn begin(&mut self, answers: &[Prepared]) -> io::Result<bool> {
        let mut request = [0; 1024];
        let len = self.stream.read(&mut request)?;
        let request = &request[..len];
        if request.is_empty() {
            return Ok(false);
        }
        let found = answers.iter().position(|answer| request.starts_with(answer.asked.as_bytes()));
        self.file = found.ok_or_else(|| io::Error::other("the request names no file of the site"))?;
        self.is_last = request.windows(5).any(|word| word == b"close");
        match &answers[self.file] {
            Prepared { bytes, rest: Some((_, len)), .. } => {
                rustix::net::send(&self.stream, bytes, SendFlags::MORE | SendFlags::NOSIGNAL)?;
                self.rest.begin(0, *len);
            }
            // The client reads a response before its next request, so that the socket has space for
            // a small response.
            Prepared { bytes, .. } => self.stream.write_all(bytes)?,
        }
        Ok(true)
    }
}
