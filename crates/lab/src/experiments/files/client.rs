//! The client: closed loops of requests over any number of connections, without TLS or with it, on
//! the receiver's processor.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::error::LabError;
use crate::experiments::files::site::SiteFile;
use crate::harness::identity::NAME;
use crate::harness::payload;

/// Maximum number of bytes of one read.
const BUFFER_BYTES: usize = 1 << 20;

/// Maximum number of bytes of the head of a response.
const HEAD_BYTES: usize = 4096;

/// Limit for the time that a server takes to respond.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Requests of a run.
#[derive(Debug)]
pub(super) struct Load<'a> {
    /// The requested files in order; after the last one the first follows again.
    pub(super) files: Vec<&'a SiteFile>,
    pub(super) requests: usize,
    pub(super) connections: usize,
    /// True if each connection has only one request.
    pub(super) is_short: bool,
    /// True if the client compares the bytes with those of the files. Otherwise the kernel discards
    /// them.
    pub(super) is_checked: bool,
}

impl<'a> Load<'a> {
    fn file(&self, number: usize) -> &'a SiteFile {
        self.files[number % self.files.len()]
    }

    fn request(&self, number: usize) -> String {
        request(self.file(number), self.is_short)
    }

    fn answer(&self, number: usize) -> Answer<'a> {
        Answer::to(self.file(number), self.is_checked)
    }
}

/// Returns the request for a file.
pub(super) fn request(file: &SiteFile, is_last: bool) -> String {
    let close = if is_last { "Connection: close\r\n" } else { "" };
    format!(
        "GET /{} HTTP/1.1\r\nHost: {NAME}\r\nUser-Agent: levada-lab\r\nAccept: */*\r\n{close}\r\n",
        file.name
    )
}

/// A response of which the client has received a part.
struct Answer<'a> {
    file: &'a SiteFile,
    /// Remaining bytes of the body; none before the head has arrived.
    left: Option<u64>,
    /// Checksum of the received bytes, if the client compares them.
    digest: Option<crc_fast::Digest>,
}

impl<'a> Answer<'a> {
    fn to(file: &'a SiteFile, is_checked: bool) -> Self {
        Answer { file, left: None, digest: is_checked.then(payload::digest) }
    }

    /// Consumes bytes of the response. Returns true if the response is complete.
    fn take(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let file = self.file;
        let body = match self.left {
            Some(_) => bytes,
            None => {
                let (head, len) = head(bytes)?;
                if len != file.len {
                    return Err(io::Error::other(format!(
                        "the response has {len} bytes instead of all of {}",
                        file.name
                    )));
                }
                self.left = Some(len);
                &bytes[head..]
            }
        };
        if let Some(digest) = &mut self.digest {
            digest.update(body);
        }
        self.passed(body.len() as u64)?;
        if self.left != Some(0) {
            return Ok(false);
        }
        if self.digest.take().is_some_and(|digest| digest.finalize() != file.checksum) {
            return Err(io::Error::other(format!("the bytes differ from those of {}", file.name)));
        }
        Ok(true)
    }

    /// Subtracts received bytes of the body.
    fn passed(&mut self, count: u64) -> io::Result<()> {
        let left = self.left.and_then(|left| left.checked_sub(count));
        self.left = Some(left.ok_or_else(|| io::Error::other("the body is longer than its content length"))?);
        Ok(())
    }
}

/// Returns the lengths of the head and of the body of a response. The head must arrive with the
/// first bytes.
fn head(bytes: &[u8]) -> io::Result<(usize, u64)> {
    let wrong = |what: &str| {
        io::Error::other(format!("{what}: {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(200)])))
    };
    let seen = &bytes[..bytes.len().min(HEAD_BYTES)];
    let end = seen
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or_else(|| wrong("the response has no complete head"))?;
    let text = std::str::from_utf8(&seen[..end]).map_err(|_| wrong("the head is not text"))?;
    if !text.starts_with("HTTP/1.1 200 ") {
        return Err(wrong("the status is not 200"));
    }
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
    });
    Ok((end + 4, length.ok_or_else(|| wrong("the head has no content length"))?))
}

/// Sends all requests without TLS. Returns the bytes of the response bodies.
pub(super) fn run(address: SocketAddr, load: &Load<'_>) -> Result<u64, LabError> {
    closed_loop(address, load).map_err(LabError::step("the client of a file server failed"))
}

fn closed_loop(address: SocketAddr, load: &Load<'_>) -> io::Result<u64> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let (mut next, mut whole, mut bytes) = (0, 0, 0);
    let mut calls: Vec<(TcpStream, Answer<'_>)> = Vec::new();
    while next < load.requests.min(load.connections) {
        let stream = connect(address)?;
        watch(&set, &stream, calls.len())?;
        calls.push((stream, load.answer(next)));
        next += 1;
    }
    for (number, (stream, _)) in calls.iter_mut().enumerate() {
        stream.write_all(load.request(number).as_bytes())?;
    }
    let (mut events, mut buffer) = (Vec::with_capacity(1024), vec![0; BUFFER_BYTES]);
    while whole < load.requests {
        events.clear();
        let limit = TIMEOUT.try_into().map_err(io::Error::other)?;
        match epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), Some(&limit)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            let at = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let Some((stream, answer)) = calls.get_mut(at) else { continue };
            if !receive(stream, answer, &mut buffer)? {
                continue;
            }
            bytes += answer.file.len;
            whole += 1;
            if load.is_short {
                *stream = replaced(address, stream, (&set, at))?;
            }
            if next < load.requests {
                *answer = load.answer(next);
                stream.write_all(load.request(next).as_bytes())?;
                next += 1;
            }
        }
    }
    Ok(bytes)
}

fn watch(set: impl AsFd, stream: &TcpStream, at: usize) -> io::Result<()> {
    let data = epoll::EventData::new_u64(at as u64);
    Ok(epoll::add(set, stream, data, epoll::EventFlags::IN)?)
}

/// Receives the available bytes of a response. Returns true if the response is complete.
fn receive(stream: &TcpStream, answer: &mut Answer<'_>, buffer: &mut [u8]) -> io::Result<bool> {
    loop {
        let (room, flags) = match answer.left {
            Some(left) if answer.digest.is_none() => {
                (usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len()), RecvFlags::TRUNC)
            }
            Some(_) => (buffer.len(), RecvFlags::empty()),
            // With its head, at most a small part of the body arrives that the kernel could
            // discard.
            None => (HEAD_BYTES, RecvFlags::empty()),
        };
        let count = match rustix::net::recv(stream, &mut buffer[..room], flags | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, count)) => count,
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        let is_whole = if flags.contains(RecvFlags::TRUNC) {
            answer.passed(count as u64)?;
            answer.left == Some(0)
        } else {
            answer.take(&buffer[..count])?
        };
        if is_whole {
            return Ok(true);
        }
    }
}

/// Waits until the server closes a connection, and opens another one.
fn replaced(
    address: SocketAddr,
    old: &mut TcpStream,
    (set, at): (impl AsFd, usize),
) -> io::Result<TcpStream> {
    epoll::delete(&set, &*old)?;
    if old.read(&mut [0; 1])? > 0 {
        return Err(io::Error::other("the server sent bytes after the response"));
    }
    let stream = connect(address)?;
    watch(set, &stream, at)?;
    Ok(stream)
}

/// Opens a connection. Drop resets it, which frees its port immediately.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok(stream)
}

/// Opens a connection and receives one response.
pub(super) fn keep(address: SocketAddr, file: &SiteFile) -> Result<TcpStream, LabError> {
    let mut stream = connect(address).map_err(LabError::step("cannot connect"))?;
    once(&mut stream, file)?;
    Ok(stream)
}

/// Requests a file and compares the bytes of the response.
pub(super) fn once(stream: &mut TcpStream, file: &SiteFile) -> Result<(), LabError> {
    let mut ask = || {
        stream.write_all(request(file, false).as_bytes())?;
        let (mut answer, mut buffer) = (Answer::to(file, true), [0; 16 << 10]);
        loop {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if answer.take(&buffer[..count])? {
                return Ok(());
            }
        }
    };
    ask().map_err(LabError::step::<io::Error>("no valid response"))
}

/// Downloads a file, or the part of it that arrives until `over` is set. Returns the number of
/// bytes.
pub(super) fn download(address: SocketAddr, file: &SiteFile, over: &AtomicBool) -> Result<u64, LabError> {
    let mut stream = connect(address).map_err(LabError::step("cannot connect"))?;
    let mut receive = || {
        stream.write_all(request(file, true).as_bytes())?;
        let (mut answer, mut buffer, mut bytes) = (Answer::to(file, false), vec![0; BUFFER_BYTES], 0);
        loop {
            let room = if answer.left.is_none() { HEAD_BYTES } else { buffer.len() };
            let count = stream.read(&mut buffer[..room])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes += count as u64;
            if answer.take(&buffer[..count])? || over.load(Ordering::Relaxed) {
                return Ok(bytes);
            }
        }
    };
    receive().map_err(LabError::step::<io::Error>("the download failed"))
}

/// Sends all requests over TLS, with one connection at a time. Returns the bytes of the response
/// bodies.
pub(super) fn run_sealed(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    load: &Load<'_>,
) -> Result<u64, LabError> {
    sealed_loop(address, config, load).map_err(LabError::step("the TLS client of a file server failed"))
}

fn sealed_loop(address: SocketAddr, config: &Arc<ClientConfig>, load: &Load<'_>) -> io::Result<u64> {
    let (mut stream, mut bytes) = (None, 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    for number in 0..load.requests {
        let open = match &mut stream {
            Some(open) => open,
            none => none.insert(connect_sealed(address, config)?),
        };
        open.write_all(load.request(number).as_bytes())?;
        let mut answer = load.answer(number);
        loop {
            let count = open.read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if answer.take(&buffer[..count])? {
                break;
            }
        }
        bytes += load.file(number).len;
        if load.is_short {
            stream = None;
        }
    }
    Ok(bytes)
}

fn connect_sealed(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = NAME.try_into().map_err(io::Error::other)?;
    let tls = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(tls, connect(address)?))
}
