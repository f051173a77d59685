//! Parts of a server process, whatever it serves.
//!
//! - [`clock`]: the wall clock and the steady one.
//! - [`tasks`]: background work, and the fate of work that panics.
//! - [`shutdown`]: the signal to stop.
//! - [`descriptors`]: the limit of file descriptors, and a reserve for files.
//! - [`handed`]: the listening sockets of a service manager.
//! - [`rate_gate`]: a rate of bytes for work that several threads do.
//! - [`turns`]: places that clients queue for, and their fair order.
//! - [`usage`]: the memory, processor time and open files of this process.
//! - [`blocking`]: work that may wait for a disk, off the shards and the threads that never wait.

pub mod blocking;
pub mod clock;
pub mod descriptors;
pub mod handed;
pub mod rate_gate;
pub mod shutdown;
pub mod tasks;
pub mod turns;
pub mod usage;
