//! Directories for the files of an input: in memory if the machine has a file system there, and
//! removed at the end of their thread.

use std::path::PathBuf;

use tempfile::TempDir;

thread_local! {
    static SCRATCH: TempDir = dir();
}

/// Path of this thread's directory.
pub(crate) fn path() -> PathBuf {
    SCRATCH.with(|dir| dir.path().to_owned())
}

/// Creates a temporary directory.
pub(crate) fn dir() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}
