//! Errors that stop the laboratory.

use std::io;
use std::path::PathBuf;

/// An experiment that cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// There is not enough space for the temporary files.
    #[error("{} has {free_bytes} bytes free, and {wanted_bytes} are needed", dir.display())]
    NoSpace {
        /// Directory.
        dir: PathBuf,
        /// Space available to this user.
        free_bytes: u64,
        /// Space for the experiment, with a reserve.
        wanted_bytes: u64,
    },
    /// A file or directory of the laboratory's own failed.
    #[error("{what} {}: {cause}", path.display())]
    File {
        /// The attempted action.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The reason why it failed.
        cause: io::Error,
    },
    /// A step of an experiment failed.
    #[error("{what}: {cause}")]
    Step {
        /// The attempted action.
        what: String,
        /// The reason why it failed.
        cause: io::Error,
    },
    /// The second process of an experiment failed or sent an unexpected message.
    #[error("the receiving process: {0}")]
    Peer(String),
    /// A record cannot be read.
    #[error("{}, line {line}: {what}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault.
        what: String,
    },
    /// The user requested a stop.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// True if a step lacked memory, or memory that may be locked.
    pub(crate) fn is_no_memory(&self) -> bool {
        matches!(self, Self::Step { cause, .. } if cause.kind() == io::ErrorKind::OutOfMemory)
    }

    /// For `map_err`: the operation.
    pub fn step<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |cause| Self::Step { what: what.into(), cause: cause.into() }
    }

    /// For `map_err`: the operation and its path.
    pub fn file<E: Into<io::Error>>(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(E) -> Self {
        move |cause| Self::File { what, path: path.into(), cause: cause.into() }
    }
}
