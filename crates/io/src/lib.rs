//! The transfer engine: moves bytes from disk to network, without a copy in the process where the
//! kernel supports that, and counts each byte under the path that it took.
//!
//! A broker, a file server or a proxy mostly moves bytes that it does not change. The classic way
//! copies each of them into user memory and back; the kernel can also pass references to its own
//! pages from one side to the other:
//!
//! ```text
//!                        user memory                                 the kernel
//!
//!                                             page cache                                     socket
//!                                             ┌────────┐                                   ┌────────┐
//!   send          ┌────────┐ ────────────────────────────── copy ────────────────────────► │        │
//!   uring_send    │ Bytes  │                  │        │                                   │        │
//!                 └────────┘                  │        │                                   │        │
//!   uring_send_zc ┌────────┐ ────────────────────────────── refs ────────────────────────► │        │
//!   msg_zerocopy  │ Bytes  │                  │        │                                   │        │
//!                 └────────┘                  │        │                                   │        │
//!   read_write    ┌────────┐ ◄──── copy ───── │        │                                   │        │
//!   uring_read    │ buffer │ ────────────────────────── copy or refs ────────────────────► │        │
//!                 └────────┘                  │        │                                   │        │
//!   mmap_write                                │        │ ───────────── copy ─────────────► │        │
//!                                             │        │          ┌─────────────┐          │        │
//!   sendfile                                  │        │ ─ refs ─ │ 64 KiB pipe │ ─ refs ► │        │
//!                                             │        │          └─────────────┘          │        │
//!                                             │        │          ┌─────────────┐          │        │
//!   splice                                    │        │ ─ refs ─ │ 1 MiB pipe  │ ─ refs ► │        │
//!                                             └────────┘          └─────────────┘          └────────┘
//! ```
//!
//! [`Path`] names them, and the head of its file describes its savings, its requirements and its
//! drawbacks. References have a price: pages must not change in flight, must be in the cache first,
//! and cost bookkeeping that exceeds the savings for small pieces.
//!
//! # Where to begin
//!
//! | to do | take | example |
//! |---|---|---|
//! | send file ranges and bytes to a socket, when it is writable | [`Transfer`] | `send_file` |
//! | the same over TLS, encrypted here or by the kernel | [`SealedTransfer`], [`ktls`] | |
//! | the same without ever waiting for the disk | [`residency`] | |
//! | send large memory by reference, many connections at a time | [`outbox`] on a [`ring`] | `serve_memory`, `mixed_load` |
//! | the same where no ring is allowed | [`zerocopy`] | |
//! | read files that are not in the cache, without a thread that waits | [`inflow`], then [`Transfer::supply`] | `ring_or_threads` |
//! | copy a file | [`copy`](mod@copy) | `copy_file` |
//! | detect the capabilities of this machine, and the requirements of the others | [`probe`] | |
//!
//! # From question to count
//!
//! No path is the best for everything, and the available paths depend on the kernel and on the
//! container. Therefore there are four steps, and each produces plain data for the next:
//!
//! 1. [`Caps::probe`] tries what this machine allows, once, and says why not.
//! 2. [`plan::plan`] chooses a path for a piece: a pure function. The table of its choices, and of
//!    those made elsewhere, is in [`plan`].
//! 3. [`Transfer::step`] sends pieces in order through one thread's [`Engine`], a budget at a time,
//!    from where the socket stopped.
//! 4. [`Counters`] contain the path that each byte took, and the reason if it was not the planned
//!    one.
//!
//! ```
//! use std::{fs::File, os::fd::AsFd, os::unix::net::UnixStream, sync::Arc};
//! use levada_io::{Caps, Counters, Engine, Extent, Path, Piece, Transfer, Turn};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = Arc::new(File::open("Cargo.toml")?);
//! let len = file.metadata()?.len();
//! let counters = Arc::new(Counters::default());
//! let mut engine = Engine::new(&Caps::probe(), Arc::clone(&counters));
//! let (socket, _peer) = UnixStream::pair()?;
//! socket.set_nonblocking(true)?;
//!
//! let mut transfer = Transfer::new([
//!     Piece::Bytes("a header, then the file: ".into()),
//!     Piece::Extent(Extent { file, offset: 0, len }),
//! ]);
//! assert_eq!(transfer.step(&mut engine, socket.as_fd(), 1 << 20)?, Turn::Done);
//! assert_eq!(counters.snapshot().bytes(Path::ReadWrite), len); // small: copying it is cheapest
//! # Ok(())
//! # }
//! ```
//!
//! # One turn of a transfer
//!
//! A response is a list of pieces: bytes and file ranges. Runs of bytes and small ranges are
//! gathered and leave by one `sendmsg`. If a large range comes next that call carries `MSG_MORE`,
//! so that the header travels in the same packet as the data; the range then flows through a pipe,
//! and its end travels with the bytes after it.
//! A turn ends with [`Turn::Yield`] when its budget is spent, so that one fast reader does not
//! occupy the thread, or with [`Turn::Blocked`] when the socket returned `EAGAIN`; the next turn
//! continues at the same byte.
//!
//! A blocked transfer holds little: its pieces and, if the socket took less than the pipe held,
//! that pipe. Bytes that were read into memory but not sent are read again. There are few pipes
//! (they are limited for each user, and cost descriptors); without a free pipe a blocked transfer
//! uses `sendfile`, which needs none.
//!
//! # Guarantees
//!
//! - The peer receives exactly the bytes of the pieces, in order, once; or, after an error, a
//!   prefix of them.
//! - A file that ends before its extent is an error that names the offset. There is no short
//!   response.
//! - It does not wait for a non-blocking socket. It may wait for the disk, unless the engine
//!   [reports cold pages](residency) so that another thread waits; calls above [`counters::STALL`]
//!   are counted.
//! - It never raises `SIGPIPE`.
//! - A byte counted under [`Path::Splice`] or [`Path::Sendfile`] never was in this process's
//!   memory.
//!
//! # Obligations of the caller
//!
//! An [`Extent`] is sent by reference, and the reference outlives the call: its bytes must not
//! change until the peer has them. A range that may be rewritten or cut goes in as
//! [`Piece::Volatile`] and is copied. One socket carries one transfer at a time.
//!
//! # For users of Netty
//!
//! An [`Extent`] is a `DefaultFileRegion`: a file, an offset, a length, sent by `transferTo` there
//! and by [`Path::Splice`] or [`Path::Sendfile`] here. The differences:
//!
//! - Several go in one [`Transfer`], mixed with bytes; a header leaves in the packet of the range
//!   after it, without corking by hand.
//! - A `FileRegion` on a TLS connection or with a handler in between is an error or an unnoticed
//!   copy. Here the [`plan`] decides before, and [`Counters`] contain the bytes of each path, and
//!   the reasons for deviations from the plan.
//! - A region whose file is too short is the error [`SourceFault::Truncated`] with the offset;
//!   there is no `transferred()` to query.
//! - `transferTo` on cold pages stalls its event loop. Here the transfer returns [`Turn::Cold`]
//!   instead.
//! - Its reference count is the `Arc` of the file: extents outlive closing, renaming and unlinking.
//!
//! The crate does not depend on Kafka or on an async runtime. All of the repository's unsafe code
//! is in its `sys` module.

pub mod copy;
pub mod counters;
pub mod error;
pub mod ktls;
pub mod lookups;
pub mod map;
pub mod path;
pub mod priority;
pub mod probe;
pub mod residency;
pub mod ring;
pub mod socket;
pub mod thresholds;

mod memory;
mod piece;
mod pipe;
mod sys;
mod transfer;

pub use counters::{Counters, Fallback, Snapshot};
pub use error::{SourceFault, TransferError};
pub use memory::{MemoryPiece, inflow, outbox, runs, zerocopy};
pub use path::{Path, SocketPath};
pub use piece::{Extent, Piece};
pub use probe::Caps;
pub use sys::buf;
pub use sys::heap::trim_heap;
pub use thresholds::Thresholds;
pub use transfer::{COSTLY_TURN_BYTES, Engine, Seal, SealedTransfer, Transfer, Turn, paths, plan};

#[cfg(test)]
mod tests;
