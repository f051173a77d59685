//! Methods to move batches from a socket to a file, with their system calls.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use levada_base::batch;
use levada_io::map::WriteMap;
use rustix::fs::FallocateFlags;
use rustix::pipe::SpliceFlags;

/// A method to move batches from the socket to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiveMethod {
    /// Reads into a buffer and writes it, as the broker does.
    Buffer { checked: bool },
    /// Splices the bytes to the file, and with `checked` reads them back.
    Splice { checked: bool },
    /// Receives into a mapping of the file, without a check.
    Mapping,
}

/// Leader epoch that the receiver writes into every batch.
pub(super) const EPOCH: i32 = 7;

/// Position of the leader epoch in a batch: after offset and length.
const EPOCH_AT: usize = 12;

/// Bytes of each mapped window, whose pages are allocated before bytes arrive.
const WINDOW_BYTES: u64 = 8 << 20;

/// Maximum size of an unprivileged pipe, in bytes.
const PIPE_BYTES: usize = 1 << 20;

impl ReceiveMethod {
    pub(super) const ALL: [Self; 5] = [
        Self::Buffer { checked: true },
        Self::Buffer { checked: false },
        Self::Splice { checked: true },
        Self::Splice { checked: false },
        Self::Mapping,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Buffer { checked: true } => "read, check, write",
            Self::Buffer { checked: false } => "read, write",
            Self::Splice { checked: true } => "splice, read back, check",
            Self::Splice { checked: false } => "splice",
            Self::Mapping => "map, read into it",
        }
    }

    pub(super) fn splices(self) -> bool {
        matches!(self, Self::Splice { .. })
    }
}

/// Sends this number of copies of `sent`, each after its length.
pub(super) fn send(mut socket: &TcpStream, sent: &[u8], batches: usize) -> io::Result<()> {
    let mut frame = u32::try_from(sent.len()).map_err(io::Error::other)?.to_be_bytes().to_vec();
    frame.extend_from_slice(sent);
    for _ in 0..batches {
        socket.write_all(&frame)?;
    }
    Ok(())
}

/// Receiver of batches, which writes each after the previous one.
pub(super) struct Taker<'a> {
    way: ReceiveMethod,
    socket: &'a TcpStream,
    file: &'a File,
    buffer: Vec<u8>,
    pipe: Option<(OwnedFd, OwnedFd)>,
    window: Option<WriteMap>,
    end: u64,
    calls: u64,
}

impl<'a> Taker<'a> {
    /// Creates a receiver.
    ///
    /// # Errors
    /// The kernel gives no pipe of the necessary size.
    pub(super) fn new(way: ReceiveMethod, socket: &'a TcpStream, file: &'a File) -> io::Result<Self> {
        let pipe = if way.splices() {
            let pipe = rustix::pipe::pipe()?;
            rustix::pipe::fcntl_setpipe_size(&pipe.1, PIPE_BYTES)?;
            Some(pipe)
        } else {
            None
        };
        Ok(Taker { way, socket, file, buffer: Vec::new(), pipe, window: None, end: 0, calls: 0 })
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Receives the next batch and gives it this offset.
    pub(super) fn take(&mut self, offset: i64) -> io::Result<()> {
        let mut len = [0; 4];
        self.read(&mut len)?;
        let len = u32::from_be_bytes(len) as usize;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(len, 0);
        let taken = match self.way {
            ReceiveMethod::Buffer { checked } => self.through(&mut buffer, offset, checked),
            ReceiveMethod::Splice { checked } => self.past(&mut buffer, offset, checked),
            ReceiveMethod::Mapping => self.receive_mapped(len as u64, offset),
        };
        self.buffer = buffer;
        self.end += len as u64;
        taken
    }

    fn through(&mut self, buffer: &mut [u8], offset: i64, checked: bool) -> io::Result<()> {
        self.read(buffer)?;
        if checked {
            batch::check_stored(buffer).map_err(io::Error::other)?;
        }
        buffer[..8].copy_from_slice(&offset.to_be_bytes());
        buffer[EPOCH_AT..EPOCH_AT + 4].copy_from_slice(&EPOCH.to_be_bytes());
        self.calls += 1;
        self.file.write_all_at(buffer, self.end)
    }

    fn past(&mut self, buffer: &mut [u8], offset: i64, checked: bool) -> io::Result<()> {
        let (mut at, end) = (self.end, self.end + buffer.len() as u64);
        while at < end {
            at = self.splice(at, end)?;
        }
        if checked {
            self.calls += 1;
            self.file.read_exact_at(buffer, self.end)?;
            if let Err(error) = batch::check_stored(buffer) {
                // The file has no name, so no other process has read the batch.
                self.file.set_len(self.end)?;
                return Err(io::Error::other(error));
            }
        }
        self.calls += 2;
        self.file.write_all_at(&offset.to_be_bytes(), self.end)?;
        self.file.write_all_at(&EPOCH.to_be_bytes(), self.end + EPOCH_AT as u64)
    }

    fn receive_mapped(&mut self, len: u64, offset: i64) -> io::Result<()> {
        let (mut at, end) = (self.end, self.end + len);
        let mut window = match self.window.take().filter(|window| end <= window.range().end) {
            Some(window) => window,
            None => self.window_at(at, len)?,
        };
        while at < end {
            self.calls += 1;
            match window.receive(at..end, self.socket)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                got => at += got as u64,
            }
        }
        window.write(self.end, &offset.to_be_bytes());
        window.write(self.end + EPOCH_AT as u64, &EPOCH.to_be_bytes());
        if window.is_lost() {
            return Err(io::Error::other("a page of the file could not be loaded"));
        }
        self.window = Some(window);
        Ok(())
    }

    /// Maps the next window, with space for at least `len` bytes.
    fn window_at(&mut self, at: u64, len: u64) -> io::Result<WriteMap> {
        let end = at + len.max(WINDOW_BYTES);
        rustix::fs::fallocate(self.file, FallocateFlags::empty(), at, end - at)?;
        let window = WriteMap::new(self.file, at..end)?;
        window.populate()();
        self.calls += 3;
        Ok(window)
    }

    /// Removes the unused part of the last window from the file.
    pub(super) fn finish(self) -> io::Result<()> {
        if self.window.is_some() { self.file.set_len(self.end) } else { Ok(()) }
    }

    /// Moves the available bytes of the socket, at most up to the position `end`. Returns the new
    /// position in the file.
    fn splice(&mut self, mut at: u64, end: u64) -> io::Result<u64> {
        let Some((reader, writer)) = &self.pipe else { return Err(io::ErrorKind::Unsupported.into()) };
        let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIPE_BYTES);
        let mut held = rustix::pipe::splice(self.socket, None, writer, None, want, SpliceFlags::MOVE)?;
        if held == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.calls += 1;
        while held > 0 {
            held -= rustix::pipe::splice(reader, None, self.file, Some(&mut at), held, SpliceFlags::MOVE)?;
            self.calls += 1;
        }
        Ok(at)
    }

    fn read(&mut self, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            self.calls += 1;
            match (&mut &*self.socket).read(into)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                got => into = &mut into[got..],
            }
        }
        Ok(())
    }
}
