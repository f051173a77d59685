//! The client of every measurement: one connection that sends prepared frames, reads the responses
//! and discards them.
//!
//! The low-water mark of the socket is the number of expected bytes, up to [`LOW_WATER`]. The
//! kernel wakes the client once for all of these bytes, so that the broker's cost does not depend
//! on when the client was awake. The client waits with `poll` and then reads the available bytes. A
//! blocking receive would not do: after it has taken some of the bytes, it waits for the whole mark
//! again, and so many bytes may never arrive.
//! addition, which may never arrive.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use levada_io::socket;
use levada_wire::decode_response;
use levada_wire::messages::RequestResponsePair;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;

use crate::error::LabError;
use crate::experiments::broker::harness::frames;

/// Bytes of one read.
const CHUNK: usize = 256 << 10;

/// Largest low-water mark. A broker with a small send buffer (Kafka's has 100 KiB by default)
/// cannot have more bytes in flight. A client that waits for more would wait for the kernel's
/// delayed acknowledgement, 40 ms later.
const LOW_WATER: usize = 64 << 10;

/// Minimum capacity of the buffer, for small responses that arrive together.
const LEAST: usize = 4 << 10;

/// Limit for each wait and each write.
const TIMEOUT: Duration = Duration::from_secs(60);
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A connection from the laboratory to a broker.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Received bytes; the caller has not consumed `start..end` yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    scratch: Vec<u8>,
    low_water: usize,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self, LabError> {
        let what = format!("cannot connect to {address}");
        let opened = TcpStream::connect_timeout(&address, TIMEOUT).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(stream)
        });
        let stream = opened.map_err(LabError::step(what))?;
        Ok(Self { stream, buffer: Vec::new(), start: 0, end: 0, scratch: Vec::new(), low_water: 1 })
    }

    /// Sends a frame that includes its length prefix.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<(), LabError> {
        self.stream.write_all(frame).map_err(LabError::step("cannot send a request"))
    }

    /// Returns a second handle on the socket, for a thread that only sends.
    pub(crate) fn sender(&self) -> Result<TcpStream, LabError> {
        self.stream.try_clone().map_err(LabError::step("cannot share a socket"))
    }

    /// Returns the first bytes of the next response, without its length prefix: the whole response
    /// if it has at most [`CHUNK`] bytes. The client does not wake until `expected` bytes have
    /// arrived, so the response, with its prefix, must have at least that many.
    pub(crate) fn receive(&mut self, expected: usize) -> Result<&[u8], LabError> {
        self.respond(expected).map_err(LabError::step("no response"))
    }

    /// Returns a copy of the whole next response.
    pub(crate) fn receive_whole(&mut self) -> Result<Vec<u8>, LabError> {
        let mut whole = || -> io::Result<Vec<u8>> {
            self.fill(4)?;
            let prefix = &self.buffer[self.start..self.start + 4];
            let len = u32::from_be_bytes(prefix.try_into().map_err(io::Error::other)?) as usize;
            self.start += 4;
            let held = self.start..self.end.min(self.start + len);
            self.start = held.end;
            let mut body = self.buffer[held].to_vec();
            let mut filled = body.len();
            body.resize(len, 0);
            while filled < len {
                filled += self.take(len - filled, &mut body[filled..])?;
            }
            Ok(body)
        };
        whole().map_err(LabError::step("no response"))
    }

    /// Sends a request and decodes its response.
    pub(crate) fn ask<R: RequestResponsePair>(
        &mut self,
        version: i16,
        request: &R,
    ) -> Result<R::Response, LabError> {
        self.send(&frames::request(version, request)?)?;
        let whole = Bytes::from(self.receive_whole()?);
        let failed = |error| {
            LabError::step(format!("cannot decode the response to {}", R::NAME))(io::Error::other(error))
        };
        Ok(decode_response(whole, version).map_err(failed)?.1)
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

    /// Reads until the buffer contains `least` bytes.
    fn fill(&mut self, least: usize) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start + least > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.buffer.resize(self.buffer.len().max(least).max(LEAST), 0);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut taken = Ok(0);
        while taken.is_ok() && self.end - self.start < least {
            taken = self.take(least - (self.end - self.start), &mut buffer[self.end..]);
            self.end += taken.as_ref().copied().unwrap_or(0);
        }
        self.buffer = buffer;
        taken.map(drop)
    }

    /// Reads and discards `left` bytes.
    fn skip(&mut self, mut left: usize) -> io::Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(CHUNK, 0);
        let mut taken = Ok(0);
        while taken.is_ok() && left > 0 {
            let want = left.min(CHUNK);
            taken = self.take(want, &mut scratch[..want]);
            left -= taken.as_ref().copied().unwrap_or(0);
        }
        self.scratch = scratch;
        taken.map(drop)
    }

    /// Waits until `owed` bytes are available, or as many as the low-water mark, then reads the
    /// available bytes, at most the length of `into`. Returns their number.
    fn take(&mut self, owed: usize, into: &mut [u8]) -> io::Result<usize> {
        self.wake_at(owed)?;
        loop {
            let mut poll = [PollFd::new(&self.stream, PollFlags::IN)];
            match rustix::event::poll(&mut poll, Some(&PATIENCE)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            match rustix::net::recv(&self.stream, &mut *into, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, count)) => return Ok(count),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
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

#[cfg(test)]
mod tests;
