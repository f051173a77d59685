//! Errors that stop the laboratory.

use std::io;
use std::path::PathBuf;

/// Reason why an experiment cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The file system has not enough space for the temporary files.
    #[error("{} has {free_bytes} bytes free, and {wanted_bytes} are needed", dir.display())]
    NoSpace {
        /// Directory of the temporary files.
        dir: PathBuf,
        /// Space available to this user, in bytes.
        free_bytes: u64,
        /// Space that the experiment needs, with a reserve, in bytes.
        wanted_bytes: u64,
    },
    /// An operation on a file or directory of the laboratory failed.
    #[error("{what} {}: {cause}", path.display())]
    File {
        /// Failed operation, such as "cannot open".
        what: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// A step of an experiment failed.
    #[error("{what}: {cause}")]
    Step {
        /// Failed operation, such as "cannot make a batch".
        what: String,
        /// Reason for the failure.
        cause: io::Error,
    },
    /// The second process of an experiment failed or sent an unexpected message.
    #[error("the second process of the experiment: {0}")]
    Peer(String),
    /// A line of a record is not valid.
    #[error("{}, line {line}: {what}", path.display())]
    Record {
        /// Path of the record.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Fault in the line.
        what: String,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// True if the failed operation lacked memory, or permission to lock memory.
    pub(crate) fn is_no_memory(&self) -> bool {
        matches!(self, Self::Step { cause, .. } if cause.kind() == io::ErrorKind::OutOfMemory)
    }

    /// Returns a closure for `map_err` that adds the failed operation.
    pub fn step<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |cause| Self::Step { what: what.into(), cause: cause.into() }
    }

    /// Returns a closure for `map_err` that adds the failed operation and its path.
    pub fn file<E: Into<io::Error>>(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(E) -> Self {
        move |cause| Self::File { what, path: path.into(), cause: cause.into() }
    }
}
