//! The client of every measurement: one connection, frames made beforehand, responses read and thrown away.
//!
//! The low-water mark of the socket stands at what is still expected, up to [`LOW_WATER`], so that the client is woken once for so much and
//! what the broker pays does not depend on how often the client happened to be awake.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use levada_io::socket;

use crate::error::LabError;

/// Read at a time.
const CHUNK: usize = 256 << 10;

/// The most that is waited for. A broker with a small send buffer (Kafka's has 100 KiB by default) cannot have more under way: a client that
/// waited for it would wait until the kernel acknowledges unasked, 40 ms later.
const LOW_WATER: usize = 64 << 10;

/// Room for small responses that come together.
const LEAST: usize = 4 << 10;

/// For each read and write.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to a broker.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// What was received and not handed out: `start..end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    scratch: Vec<u8>,
    low_water: usize,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> Result<Connection, LabError> {
        let what = format!("cannot connect to {address}");
        let opened = TcpStream::connect_timeout(&address, TIMEOUT).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(stream)
        });
        let stream = opened.map_err(LabError::step(what))?;
        Ok(Connection { stream, buffer: Vec::new(), start: 0, end: 0, scratch: Vec::new(), low_water: 1 })
    }

    /// Sends a frame, its length included.
    pub(super) fn send(&mut self, frame: &[u8]) -> Result<(), LabError> {
        self.stream.write_all(frame).map_err(LabError::step("cannot send a request"))
    }

    /// A second handle on the socket, for a thread that only sends.
    pub(super) fn sender(&self) -> Result<TcpStream, LabError> {
        self.stream.try_clone().map_err(LabError::step("cannot share a socket"))
    }

    /// The first bytes of the next response, without its length: all of it if it is no more than a chunk. At least `expected` bytes of it (its
    /// length included) will come: it is not looked at before.
    pub(super) fn receive(&mut self, expected: usize) -> Result<&[u8], LabError> {
        self.respond(expected).map_err(LabError::step("no response"))
    }

    /// The next response, all of it.
    pub(super) fn receive_whole(&mut self) -> Result<Vec<u8>, LabError> {
        let mut whole = || -> io::Result<Vec<u8>> {
            self.fill(4)?;
            let prefix = &self.buffer[self.start..self.start + 4];
            let len = u32::from_be_bytes(prefix.try_into().map_err(io::Error::other)?) as usize;
            self.start += 4;
            let held = self.start..self.end.min(self.start + len);
            self.start = held.end;
            let mut body = self.buffer[held].to_vec();
            self.wake_at(1)?;
            (&self.stream).take((len - body.len()) as u64).read_to_end(&mut body)?;
            if body.len() == len { Ok(body) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        };
        whole().map_err(LabError::step("no response"))
    }

    fn respond(&mut self, expected: usize) -> io::Result<&[u8]> {
        self.fill(expected.clamp(4, CHUNK))?;
        let prefix: [u8; 4] = self.buffer[self.start..self.start + 4].try_into().map_err(io::Error::other)?;
        let len = u32::from_be_bytes(prefix) as usize;
        if 4 + len <= CHUNK {
            self.fill(4 + len)?;
            let from = self.start + 4;
            self.start = from + len;
            return Ok(&self.buffer[from..from + len]);
        }
        let from = self.start + 4;
        let head = from..self.end.min(from + len);
        self.skip(len - head.len())?;
        self.start = head.end;
        Ok(&self.buffer[head])
    }

    /// Reads until there are `least` bytes.
    fn fill(&mut self, least: usize) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start + least > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.buffer.resize(self.buffer.len().max(least).max(LEAST), 0);
        }
        while self.end - self.start < least {
            self.wake_at(least - (self.end - self.start))?;
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads and forgets.
    fn skip(&mut self, mut left: usize) -> io::Result<()> {
        self.scratch.resize(CHUNK, 0);
        while left > 0 {
            let want = left.min(CHUNK);
            self.wake_at(want)?;
            match self.stream.read(&mut self.scratch[..want]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => left -= count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wake_at(&mut self, bytes: usize) -> io::Result<()> {
        let bytes = bytes.min(LOW_WATER);
        if self.low_water != bytes {
            socket::receive_low_water(&self.stream, bytes)?;
            self.low_water = bytes;
        }
        Ok(())
    }
}
