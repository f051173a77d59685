//! The loops of system calls, each call timed.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::named;
use crate::method::experiment::Metrics;

/// A method to copy a file to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyMethod {
    ReadWrite(usize),
    /// Copies this number of bytes per call.
    Sendfile(usize),
    CopyFileRange,
    /// Copies through a pipe of this number of bytes.
    Splice(usize),
    Reflink,
}

/// Maximum number of bytes of one call.
const ALL_BYTES: usize = 0x7fff_f000;

/// Reason why a method made no copy.
pub(super) enum Failed {
    /// This kernel or file system does not support the method.
    NotHere(String),
    Error(io::Error),
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY => {
                Self::NotHere(io::Error::from(errno).to_string())
            }
            errno => Self::Error(errno.into()),
        }
    }
}

impl CopyMethod {
    /// All methods; the textbook method is first.
    pub(super) const ALL: [Self; 10] = [
        Self::ReadWrite(4 << 10),
        Self::ReadWrite(64 << 10),
        Self::ReadWrite(1 << 20),
        Self::Sendfile(4 << 10),
        Self::Sendfile(64 << 10),
        Self::Sendfile(ALL_BYTES),
        Self::Splice(64 << 10),
        Self::Splice(1 << 20),
        Self::CopyFileRange,
        Self::Reflink,
    ];

    pub(super) fn name(self) -> String {
        match self {
            Self::ReadWrite(bytes) => named("read+write", bytes),
            Self::Sendfile(ALL_BYTES) => "sendfile".to_owned(),
            Self::Sendfile(bytes) => named("sendfile", bytes),
            Self::CopyFileRange => "copy_file_range".to_owned(),
            Self::Splice(bytes) => named("splice, pipe", bytes),
            Self::Reflink => "reflink".to_owned(),
        }
    }

    pub(super) fn step_bytes(self) -> usize {
        match self {
            Self::ReadWrite(bytes) | Self::Sendfile(bytes) | Self::Splice(bytes) => bytes,
            Self::CopyFileRange | Self::Reflink => ALL_BYTES,
        }
    }

    /// Copies the first `len` bytes. Returns the durations of each kind of system call.
    pub(super) fn copy(self, from: &File, to: &File, len: u64) -> Result<Vec<Clock>, Failed> {
        match self {
            Self::ReadWrite(bytes) => read_write(from, to, len, bytes),
            Self::Sendfile(bytes) => sendfile(from, to, len, bytes),
            Self::CopyFileRange => copy_file_range(from, to, len),
            Self::Splice(bytes) => splice(from, to, len, bytes),
            Self::Reflink => {
                let mut clock = Clock::new("ioctl_ficlone");
                clock.time(|| rustix::fs::ioctl_ficlone(to, from))?;
                Ok(vec![clock])
            }
        }
    }
}

fn read_write(from: &File, to: &File, len: u64, bytes: usize) -> Result<Vec<Clock>, Failed> {
    let (mut read, mut write) = (Clock::new("read"), Clock::new("write"));
    let mut buffer = vec![0; bytes];
    let mut done = 0;
    while done < len {
        let got = read.time(|| rustix::io::pread(from, &mut buffer[..], done))?;
        let mut left = &buffer[..got];
        if left.is_empty() {
            return Err(Failed::Error(io::ErrorKind::UnexpectedEof.into()));
        }
        while !left.is_empty() {
            let count = write.time(|| rustix::io::pwrite(to, left, done))?;
            left = &left[count..];
            done += count as u64;
        }
    }
    Ok(vec![read, write])
}

fn sendfile(from: &File, to: &File, len: u64, bytes: usize) -> Result<Vec<Clock>, Failed> {
    let mut clock = Clock::new("sendfile");
    let mut offset = 0;
    while offset < len {
        let want = bytes.min(usize::try_from(len - offset).unwrap_or(usize::MAX));
        if clock.time(|| rustix::fs::sendfile(to, from, Some(&mut offset), want))? == 0 {
            return Err(Failed::Error(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(vec![clock])
}

fn copy_file_range(from: &File, to: &File, len: u64) -> Result<Vec<Clock>, Failed> {
    let mut clock = Clock::new("copy_file_range");
    let (mut source, mut destination) = (0, 0);
    while source < len {
        let want = ALL_BYTES.min(usize::try_from(len - source).unwrap_or(usize::MAX));
        let call = || rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut destination), want);
        if clock.time(call)? == 0 {
            return Err(Failed::Error(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(vec![clock])
}

fn splice(from: &File, to: &File, len: u64, bytes: usize) -> Result<Vec<Clock>, Failed> {
    let (mut fill, mut drain) = (Clock::new("splice_in"), Clock::new("splice_out"));
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::pipe::fcntl_setpipe_size(&writer, bytes)?;
    let (mut source, mut destination) = (0, 0);
    while destination < len {
        let mut held = fill.time(|| {
            rustix::pipe::splice(from, Some(&mut source), &writer, None, bytes, SpliceFlags::MOVE)
        })?;
        if held == 0 {
            return Err(Failed::Error(io::ErrorKind::UnexpectedEof.into()));
        }
        while held > 0 {
            held -= drain.time(|| {
                rustix::pipe::splice(&reader, None, to, Some(&mut destination), held, SpliceFlags::MOVE)
            })?;
        }
    }
    Ok(vec![fill, drain])
}

/// Number of calls of one system call, and their total, least and greatest duration.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    name: &'static str,
    pub(super) calls: u64,
    total: Duration,
    least: Duration,
    most: Duration,
}

impl Clock {
    fn new(name: &'static str) -> Self {
        Self { name, calls: 0, total: Duration::ZERO, least: Duration::MAX, most: Duration::ZERO }
    }

    fn time<T>(&mut self, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let start = Instant::now();
        let result = call();
        let took = start.elapsed();
        self.calls += 1;
        self.total += took;
        self.least = self.least.min(took);
        self.most = self.most.max(took);
        result
    }

    /// Adds metrics `call.NAME.VALUE` in milliseconds, the input of
    /// [`crate::record::summary::Row::calls`].
    pub(super) fn report(&self, metrics: &mut Metrics) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        for (value, number) in [
            ("calls", self.calls as f64),
            ("total_ms", ms(self.total)),
            ("min_ms", ms(self.least)),
            ("avg_ms", ms(self.total) / self.calls.max(1) as f64),
            ("max_ms", ms(self.most)),
        ] {
            metrics.insert(format!("call.{}.{value}", self.name), number);
        }
    }
}
