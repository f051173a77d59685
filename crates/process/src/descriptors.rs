//! File descriptors of the process: the limit, and a reserve for files that connections cannot use.

use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The part of all descriptors that connections leave to files, and as many at most.
const KEPT_PART: u64 = 4;
const KEPT_MAX: u64 = 1024;

/// Raises the soft limit of descriptors to the hard one, as Java's virtual machine does for Kafka.
/// Without the right to do so, or where there is no hard limit, it stays as it is.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        Ok(()) => {}
        Err(error) => {
            tracing::debug!(%error, "cannot raise the soft limit of file descriptors; it stays at {:?}", limit.current)
        }
    }
}

/// Maximum number of descriptors of the process.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The descriptors that are kept for files.
#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    /// The lowest reserved descriptor.
    first: RawFd,
    /// Number of descriptors.
    pub kept: u64,
}

impl Reserve {
    /// The limits of a process with this number of descriptors.
    pub fn of(limit: u64) -> Self {
        let kept = (limit / KEPT_PART).min(KEPT_MAX);
        Self { first: RawFd::try_from(limit - kept).unwrap_or(RawFd::MAX), kept }
    }

    /// Returns the connection, if enough other descriptors are free. The kernel assigns the lowest
    /// free number: a reserved number means that all lower numbers are in use.
    ///
    /// # Errors
    /// There are not enough; the connection.
    pub fn spare(self, stream: TcpStream) -> Result<TcpStream, TcpStream> {
        if stream.as_raw_fd() < self.first {
            return Ok(stream);
        }
        match stream.try_clone() {
            Ok(lower) if lower.as_raw_fd() < self.first => Ok(lower),
            _ => Err(stream),
        }
    }
}

#[cfg(test)]
mod tests;
