//! The paths from a file to a socket: one file each, whose head describes the path's savings,
//! requirements and drawbacks.
//!
//! Each has `advance`, which sends from the front of a transfer's queue until the piece is done,
//! the budget is spent or the socket would block. Callers do not name them: the [plan](crate::plan)
//! does.

pub mod mmap_write;
pub mod read_write;
pub mod sendfile;
pub mod splice;
pub mod user_tls;
