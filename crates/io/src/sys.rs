//! The only unsafe code in the repository: mappings, signal masks and the calls that `rustix` does
//! not wrap.
//!
//! It also contains the types on which the soundness of that code depends: the [buffers](buf) that
//! the kernel reads and writes, and the operations and [slots](uring::slots) of a ring, which keep
//! them until the kernel's last completion.
//!
//! Each function here is safe to call with any arguments. One unsafe operation a block, and the
//! comment before it names its preconditions and who upholds them.
#![allow(unsafe_code)]

pub mod buf;
pub(crate) mod calls;
pub(crate) mod error_queue;
pub(crate) mod heap;
pub(crate) mod lookups;
pub(crate) mod mapping;
pub(crate) mod memory;
pub(crate) mod mincore;
pub(crate) mod sched;
mod sigbus;
pub(crate) mod sigpipe;
pub(crate) mod tls_record;
pub(crate) mod uring;
pub(crate) mod window;
pub(crate) mod writing;
