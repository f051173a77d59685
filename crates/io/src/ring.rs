//! A safe `io_uring`: operations go in by value, completions come out in batches, and the kernel
//! owns the memory in between.
//!
//! *Saves* system calls (many operations leave by one call, many completions arrive by none) and
//! does what readiness cannot: reads that wait for the disk, sends from memory without a copy.
//! *Needs* a kernel and a container that allow it; otherwise [`Ring::new`] fails, and nothing in
//! this crate depends on it. *Loses* to a plain call for a single operation that would not have
//! waited.
//!
//! # Who owns a buffer
//!
//! An [`Operation`] owns its memory and its descriptor. Pushing it gives both to the ring; the
//! memory comes back in the last [`Completion`]. It is inaccessible in between, so it can be
//! neither freed, nor changed, nor sent twice, also after its connection has closed:
//!
//! ```text
//!   push(Operation) ──► submit ──► Event::Done(result, memory)
//!                            └───► Event::Sent(result) ─── continue sending ───► Event::Released(memory)
//! ```
//!
//! A zero-copy send completes twice. After [`Event::Sent`] the next send may go; waiting for
//! [`Event::Released`], which takes until the peer has acknowledged everything, would leave the
//! connection idle for a round trip each time.
//!
//! [`SocketRing`] is a ring for the sockets of a network loop, with receives. There the kernel
//! takes a buffer of a common pool when bytes arrive, so that an idle socket has none.
//!
//! # When it is full, and when it goes
//!
//! No more operations are accepted than have room for two completions each, so none is ever lost; a
//! push beyond that returns the operations. A dropped ring cancels operations if possible, and
//! leaks the memory that the kernel still refers to.
//!
//! ```
//! # use std::{fs::File, sync::Arc};
//! use levada_io::buf::BufferPool;
//! use levada_io::ring::{Event, Operation, Ring, RingOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let Ok(mut ring) = Ring::new(&RingOptions::default()) else { return Ok(()) }; // not allowed here
//! let file = Arc::new(File::open("Cargo.toml")?);
//! let buffer = BufferPool::new(4096, 1)?.take().ok_or("in use")?;
//! let key = ring.push(Operation::read(file, 0, 9, buffer))?;
//! ring.submit_and_wait(1, None)?;
//! for completion in ring.reap() {
//!     assert_eq!(completion.key, key);
//!     if let Event::Done { result: Ok(9), memory: levada_io::ring::Memory::Buffer(buffer) } = completion.event {
//!         assert_eq!(buffer.filled(), b"[package]");
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::EventfdFlags;

use crate::sys::buf::{Buffer, BufferPool};
use crate::sys::uring::files::FileTable;
use crate::sys::uring::operation::Verb;
use crate::sys::uring::slots::Step;
use crate::sys::uring::{Core, Held};

pub use crate::sys::uring::files::FileSlot;
pub use crate::sys::uring::operation::{Caching, Handle, Memory, Operation, Target};
pub use crate::sys::uring::options::{Mode, RingOptions};
pub use crate::sys::uring::slots::Key;
pub use crate::sys::uring::sockets::{SocketEvent, SocketRing};

/// The ring is full, and returns the operations. Process completions, then retry.
#[derive(Debug, thiserror::Error)]
#[error("the ring has no room for {} more operations", .0.len())]
pub struct RingFull(pub Vec<Operation>);

/// Result of an operation.
#[derive(Debug)]
pub struct Completion {
    /// Return value of [`Ring::push`].
    pub key: Key,
    /// Event of the operation.
    pub event: Event,
}

/// One step towards an operation's end.
#[derive(Debug)]
pub enum Event {
    /// The operation has ended.
    Done {
        /// Number of bytes, or the error.
        result: io::Result<usize>,
        /// Memory of the operation, which the caller owns again.
        memory: Memory,
    },
    /// A zero-copy send has its result, even after a failure. [`Event::Released`] follows.
    Sent {
        /// Number of bytes, or the error.
        result: io::Result<usize>,
    },
    /// The kernel no longer refers to the memory of a zero-copy send.
    Released {
        /// Memory of the operation, which the caller owns again.
        memory: Memory,
        /// True if the kernel copied after all; so it does on loopback and on virtual devices.
        copied: bool,
    },
}

/// Set in a notification's result if the kernel copied (`IORING_NOTIF_USAGE_ZC_COPIED`).
const USAGE_COPIED: i32 = i32::MIN;

/// An `io_uring` of one thread. See the [module](self).
pub struct Ring {
    core: Core,
    /// The slots of the file table: free ones, and released ones of which the kernel is not yet
    /// notified.
    files: Rc<RefCell<FileTable>>,
    calls: u64,
}

impl Ring {
    /// Sets a ring up. [`Mode::Deferred`] becomes [`Mode::Plain`] on a kernel without it.
    ///
    /// # Errors
    /// `PermissionDenied` where a seccomp profile or `kernel.io_uring_disabled` forbids it,
    /// `OutOfMemory` where its queues are more than may be locked (`ulimit -l`), `Unsupported`
    /// before Linux 5.5.
    pub fn new(options: &RingOptions) -> io::Result<Self> {
        let core = match Core::new(options) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && options.mode == Mode::Deferred => {
                Core::new(&RingOptions { mode: Mode::Plain, ..*options })
            }
            made => made,
        }?;
        Ok(Self { core, files: Rc::default(), calls: 0 })
    }

    /// Queues an operation. It starts with the next [`submit`](Ring::submit), or earlier if the
    /// queue is full.
    ///
    /// # Errors
    /// [`RingFull`] with the operation.
    ///
    /// # Panics
    /// As [`push_linked`](Ring::push_linked).
    pub fn push(&mut self, operation: Operation) -> Result<Key, RingFull> {
        let keys = self.push_linked(vec![operation])?;
        Ok(keys.into_iter().next().expect("one operation has one key"))
    }

    /// Queues operations that start one after the other, each when the previous one has succeeded
    /// in full. After one that has not, the rest complete with `ECANCELED`.
    ///
    /// # Errors
    /// [`RingFull`] with all of them.
    ///
    /// # Panics
    /// If one of them names a file of another ring's table, where the same place has another file,
    /// or sends more of a buffer than is filled.
    pub fn push_linked(&mut self, operations: Vec<Operation>) -> Result<Vec<Key>, RingFull> {
        // All of them before the kernel gets any.
        operations.iter().for_each(|operation| operation.assert_fits(&self.files));
        self.core.push(operations).map_err(RingFull)
    }

    /// Starts queued operations. Does not wait.
    ///
    /// # Errors
    /// The kernel is out of memory; the operations stay queued.
    pub fn submit(&mut self) -> io::Result<()> {
        self.submit_and_wait(0, None)
    }

    /// Starts queued operations and waits until there are `want` completions, until `timeout`, or
    /// for a signal.
    ///
    /// # Errors
    /// Same as for [`submit`](Ring::submit).
    pub fn submit_and_wait(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        self.calls += 1;
        self.core.enter(want, timeout)?;
        self.retire_files();
        Ok(())
    }

    /// Returns the available completions. Makes a system call only if the kernel has signalled
    /// some.
    pub fn reap(&mut self) -> Vec<Completion> {
        if self.core.has_work() {
            self.calls += 1;
            // Submissions that cannot be handed over now stay where they are.
            let _ = self.core.enter(0, None);
        }
        let mut completions = Vec::new();
        self.core.reap(|step| completions.extend(Completion::of(step)));
        completions
    }

    /// Requests the kernel to cancel an operation; it then completes with `ECANCELED`, or normally.
    /// Has a separate completion, as every operation.
    ///
    /// # Errors
    /// [`RingFull`].
    pub fn cancel(&mut self, key: Key) -> Result<Key, RingFull> {
        let verb = Verb::Cancel { user_data: key.user_data() };
        self.push(Operation { target: None, memory: Memory::Nothing, verb })
    }

    /// Registers the buffers of one pool, once for the ring's life.
    ///
    /// # Errors
    /// `OutOfMemory` if that is more than may be locked (`ulimit -l`); the buffers can be used
    /// without.
    pub fn register_buffers(&mut self, pool: &BufferPool) -> io::Result<()> {
        self.core.register_buffers(pool.region())
    }

    /// Creates a table for `count` files, once in the ring's lifetime.
    ///
    /// # Errors
    /// More than the limit of open files allows.
    pub fn register_files(&mut self, count: u32) -> io::Result<()> {
        self.core.register_files(count)?;
        self.files.borrow_mut().fill(count);
        Ok(())
    }

    /// Puts a file or socket into the table. It is open there until the last clone of the slot is
    /// dropped and a later submit, independent of the descriptor.
    ///
    /// # Errors
    /// `StorageFull` if the table is.
    pub fn attach(&mut self, file: impl AsFd) -> io::Result<FileSlot> {
        self.retire_files();
        let slot = FileSlot::take(&self.files).ok_or(io::ErrorKind::StorageFull)?;
        self.core.update_file(slot.index(), Some(file.as_fd()))?;
        Ok(slot)
    }

    /// For an event loop: an `eventfd` that becomes readable whenever there is something to
    /// [`reap`](Ring::reap). Once for the ring's life.
    ///
    /// Meant for loops that are told of changes only (`EPOLLET`); others must read it before they
    /// reap. The ring's own descriptor does not work: in [`Mode::Deferred`] a waiter for it is not
    /// woken before the ring's thread makes a call. Completions during [`submit`](Ring::submit) may
    /// not wake it either: reap after it.
    ///
    /// # Errors
    /// No descriptors left, or it was requested before.
    pub fn wakeups(&mut self) -> io::Result<OwnedFd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let eventfd = rustix::event::eventfd(0, flags)?;
        self.core.register_eventfd(eventfd.as_fd())?;
        Ok(eventfd)
    }

    /// True if a buffer is of the pool that is registered.
    pub fn is_registered(&self, buffer: &Buffer) -> bool {
        self.core.is_registered(buffer)
    }

    /// Number of operations one chain can have.
    pub fn chain_limit(&self) -> usize {
        self.core.chain_limit()
    }

    /// Number of further operations that are accepted now.
    pub fn room(&self) -> usize {
        self.core.room()
    }

    /// Number of operations in flight, including those whose memory is still referenced.
    pub fn in_flight(&self) -> usize {
        self.core.live()
    }

    /// System calls made so far to submit and to take completions.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Removes unreferenced files from the table. Queued operations hold their slots, so their
    /// files stay.
    fn retire_files(&mut self) {
        let retired = self.files.borrow_mut().take_retired();
        for index in retired {
            match self.core.update_file(index, None) {
                Ok(()) => self.files.borrow_mut().free(index),
                Err(_) => self.files.borrow_mut().retire(index),
            }
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Ring");
        text.field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

impl Completion {
    fn of(step: Step<Held>) -> Option<Self> {
        let outcome = |result: i32| {
            usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(result.saturating_neg()))
        };
        Some(match step {
            Step::Done { key, result, payload } => {
                let mut memory = payload.memory;
                if let (Verb::Read { .. }, Memory::Buffer(buffer)) = (payload.verb, &mut memory) {
                    buffer.set_len(usize::try_from(result).unwrap_or(0).min(buffer.capacity()));
                }
                Self { key, event: Event::Done { result: outcome(result), memory } }
            }
            Step::Parked { key, result } => Self { key, event: Event::Sent { result: outcome(result) } },
            Step::Released { key, usage, payload } => {
                let copied = usage & USAGE_COPIED != 0;
                Self { key, event: Event::Released { memory: payload.memory, copied } }
            }
            Step::Stray => return None,
        })
    }
}

#[cfg(test)]
mod tests;
