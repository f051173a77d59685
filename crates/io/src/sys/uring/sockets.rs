//! A ring for a network loop: receives that repeat into buffers that all sockets share, sends, and
//! one call a turn.
//!
//! # Who owns a buffer
//!
//! ```text
//!            submit, turn                    Received                     drop
//!   (pool) ───────────────► the kernel's ─────────────► the caller's ────────────► (pool)
//! ```
//!
//! Each submission takes all free buffers of a [`BufferPool`] and puts an entry for each into the
//! ring of buffers, which the kernel reads. From then on the kernel may write to the buffer at any
//! time, and `Provided::given` holds it: no code can reach its bytes. The kernel takes an entry out
//! for one receive, and writes to the buffer only before it posts the completion that has the
//! buffer's id. That completion moves the [`Buffer`] to the caller. Thus a buffer has one entry and
//! one owner at a time. The flag for buffers that are consumed in parts, by several completions, is
//! not set.
//!
//! A send owns its buffer until its completion, as with [`Ring`](crate::ring::Ring). A dropped ring
//! cancels everything, and leaks the buffers of operations that do not complete.

use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::net::SendFlags;

use super::NOBODY;
use super::operation::WAIT_ALL;
use crate::sys::buf::{Buffer, BufferPool};
use crate::sys::memory::{Chunk, Region};

/// An event of a socket, which has the number that [`SocketRing::attach`] returned.
#[derive(Debug)]
pub enum SocketEvent {
    /// The socket has received the filled bytes of the buffer, at least one. Drop of the buffer
    /// makes it available for other receives.
    Received {
        /// Number of the socket.
        socket: u32,
        /// The next bytes of the stream.
        buffer: Buffer,
    },
    /// The socket receives no more: the peer has closed its side, or the connection has failed.
    Ended {
        /// Number of the socket.
        socket: u32,
        /// Cause; none after the end of the stream.
        error: Option<io::Error>,
    },
    /// A send has ended.
    Sent {
        /// Number of the socket.
        socket: u32,
        /// Number of sent bytes: all of the buffer, unless the connection has failed.
        result: io::Result<usize>,
    },
}

/// An `io_uring` for the sockets of one thread. Sockets stay attached as long as the ring exists.
pub struct SocketRing {
    /// First, because fields are dropped in order: the kernel reads the entries of `provided`.
    ring: IoUring,
    provided: Provided,
    /// The buffer that each socket sends.
    sending: Vec<Option<Buffer>>,
    /// Operations that the next submission starts.
    pending: Vec<Pending>,
    /// Number of operations that the kernel has.
    live: usize,
    calls: u64,
    /// `SINGLE_ISSUER`: the kernel refuses calls of another thread.
    thread: PhantomData<*const ()>,
}

/// An operation to start, with the number of its socket.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Receive(u32),
    Send(u32),
}

/// Group of the only ring of buffers.
const GROUP: u16 = 0;

/// Number of operations of one submission; a turn with more makes more calls.
const ENTRIES: u32 = 256;

impl SocketRing {
    /// Creates a ring for at most this number of sockets, which receive into the buffers of a pool.
    ///
    /// # Errors
    /// Same as for [`Ring::new`](crate::ring::Ring::new), and `InvalidInput` before Linux 6.1 or if
    /// the number of buffers is not a power of two.
    pub fn new(sockets: u32, pool: &BufferPool) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp().setup_cqsize(ENTRIES * 16);
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = builder.build(ENTRIES)?;
        ring.submitter().register_files_sparse(sockets)?;
        let provided = Provided::new(&ring, pool)?;
        let (sending, pending, thread) = (Vec::new(), Vec::new(), PhantomData);
        Ok(Self { ring, provided, sending, pending, live: 0, calls: 0, thread })
    }

    /// Adds a connected socket and returns its number, counted from 0. The next submission starts
    /// its receives. The ring keeps the socket open, whatever happens to the descriptor.
    ///
    /// # Errors
    /// More sockets than the ring has places for.
    pub fn attach(&mut self, socket: impl AsFd) -> io::Result<u32> {
        let number = u32::try_from(self.sending.len()).map_err(|_| io::ErrorKind::StorageFull)?;
        self.ring.submitter().register_files_update(number, &[socket.as_fd().as_raw_fd()])?;
        self.sending.push(None);
        self.pending.push(Pending::Receive(number));
        Ok(number)
    }

    /// Sends the filled bytes of a buffer with the next submission. A socket has one send at a
    /// time, because the kernel does not keep the order of several.
    ///
    /// # Errors
    /// Returns the buffer if the socket has a send whose [`SocketEvent::Sent`] is still to come.
    ///
    /// # Panics
    /// If the ring has no socket of this number.
    pub fn send(&mut self, socket: u32, buffer: Buffer) -> Result<(), Buffer> {
        let sending = &mut self.sending[socket as usize];
        if sending.is_some() {
            return Err(buffer);
        }
        *sending = Some(buffer);
        self.pending.push(Pending::Send(socket));
        Ok(())
    }

    /// Starts receives and sends. Does not wait.
    ///
    /// # Errors
    /// `OutOfMemory` if a receive has ended for lack of buffers and the caller has all of them, or
    /// if the kernel is out of memory. The ring is not usable after an error.
    pub fn submit(&mut self) -> io::Result<()> {
        self.start()?;
        self.enter(0, &SubmitArgs::new())
    }

    /// Starts receives and sends, waits for events or a signal, and adds the events in their order.
    ///
    /// The wait also counts the sends that the turn starts, because most sends end before the wait
    /// begins, which would end it without another event. A socket that takes no more bytes thus
    /// delays the events of one turn.
    ///
    /// # Errors
    /// Same as for [`submit`](Self::submit).
    pub fn turn(&mut self, events: &mut Vec<SocketEvent>) -> io::Result<()> {
        let sends = self.start()?;
        self.enter(sends + 1, &SubmitArgs::new())?;
        self.reap(events);
        Ok(())
    }

    /// System calls of submissions and turns so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Provides free buffers, and moves pending operations into the submission queue. Returns the
    /// number of sends among them.
    fn start(&mut self) -> io::Result<u32> {
        self.provided.provide();
        let mut pending = mem::take(&mut self.pending);
        let mut sends = 0;
        for operation in pending.drain(..) {
            match operation {
                Pending::Receive(_) if self.provided.count == 0 => {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                Pending::Receive(_) => {}
                Pending::Send(_) => sends += 1,
            }
            if self.ring.submission().is_full() {
                self.enter(0, &SubmitArgs::new())?;
            }
            let entry = self.entry(operation);
            // SAFETY: the entry of a send points to the filled bytes of a buffer in `sending`, at
            // an address that does not change when the `Buffer` moves; it stays there until the
            // completion of the send, or is leaked. The entry of a receive points to no memory.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.map_err(io::Error::other)?;
            self.live += 1;
        }
        self.pending = pending;
        Ok(sends)
    }

    fn entry(&self, operation: Pending) -> squeue::Entry {
        match operation {
            Pending::Receive(number) => {
                let receive = opcode::RecvMulti::new(Fixed(number), GROUP).build();
                receive.user_data(u64::from(number) << 1)
            }
            Pending::Send(number) => {
                let bytes = self.sending[number as usize].as_ref().map_or(&[][..], Buffer::filled);
                let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let flags = (SendFlags::NOSIGNAL | WAIT_ALL).bits().cast_signed();
                let send = opcode::Send::new(Fixed(number), bytes.as_ptr(), len).flags(flags).build();
                send.user_data(u64::from(number) << 1 | 1)
            }
        }
    }

    fn enter(&mut self, want: u32, arguments: &SubmitArgs<'_, '_>) -> io::Result<()> {
        self.calls += 1;
        super::enter(&mut self.ring, want, arguments)
    }

    /// Takes all completions.
    fn reap(&mut self, events: &mut Vec<SocketEvent>) {
        for completion in self.ring.completion() {
            let (data, result, flags) = (completion.user_data(), completion.result(), completion.flags());
            if data == NOBODY {
                continue;
            }
            let socket = u32::try_from(data >> 1).expect("the number of a socket");
            let error = || io::Error::from_raw_os_error(result.saturating_neg());
            if data & 1 == 1 {
                self.sending[socket as usize] = None;
                self.live -= 1;
                let result = usize::try_from(result).map_err(|_| error());
                events.push(SocketEvent::Sent { socket, result });
                continue;
            }
            if let Some(id) = cqueue::buffer_select(flags) {
                let buffer = self.provided.take(id, usize::try_from(result).unwrap_or(0));
                if !buffer.is_empty() {
                    events.push(SocketEvent::Received { socket, buffer });
                }
            }
            if cqueue::more(flags) {
                continue;
            }
            self.live -= 1;
            if result > 0 || result == -libc::ENOBUFS {
                self.pending.push(Pending::Receive(socket));
            } else {
                events.push(SocketEvent::Ended { socket, error: (result < 0).then(error) });
            }
        }
    }
}

impl Drop for SocketRing {
    /// Cancels all operations and waits up to 50 ms for their completions. Leaks the memory that
    /// the kernel may still access after that.
    fn drop(&mut self) {
        const MOMENT: Duration = Duration::from_millis(1);
        const MOMENTS: u32 = 50;
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(NOBODY);
        // SAFETY: the entry points to no memory. If there is no room, nothing is cancelled.
        let _ = unsafe { self.ring.submission().push(&cancel) };
        for _ in 0..MOMENTS {
            if self.live == 0 {
                return;
            }
            let _ = self.enter(1, &SubmitArgs::new().timespec(&Timespec::from(MOMENT)));
            self.reap(&mut Vec::new());
        }
        mem::forget((mem::take(&mut self.provided.given), mem::take(&mut self.sending)));
        mem::forget(Arc::clone(&self.provided.region));
    }
}

/// The ring of buffers, from which the kernel takes one for each receive.
struct Provided {
    pool: BufferPool,
    /// Buffers of the kernel, by their index in the pool, which is their id.
    given: Vec<Option<Buffer>>,
    /// Number of buffers that the kernel has.
    count: usize,
    /// Entries that the kernel reads: as many as the pool has buffers.
    entries: Chunk,
    /// The memory of the entries.
    region: Arc<Region>,
    /// Number of entries written so far, modulo 2¹⁶.
    tail: u16,
}

impl Provided {
    fn new(ring: &IoUring, pool: &BufferPool) -> io::Result<Self> {
        let count = pool.region().io_slices().len();
        let len = u16::try_from(count).map_err(|_| io::ErrorKind::InvalidInput)?;
        let region = Region::new(count * size_of::<BufRingEntry>(), 1)?;
        let entries = region.take().expect("a new region has its chunk");
        let address = entries.as_ptr() as u64;
        // SAFETY: the chunk is page-aligned, zeroed, and has room for `len` entries; `SocketRing`
        // drops it after the ring. The kernel checks that the number is a power of two.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, len, GROUP, 0) }?;
        let given = (0..count).map(|_| None).collect();
        Ok(Self { pool: pool.clone(), given, count: 0, entries, region, tail: 0 })
    }

    /// Gives all free buffers of the pool to the kernel.
    fn provide(&mut self) {
        let (first, before) = (self.entries.as_ptr().cast::<BufRingEntry>(), self.tail);
        while let Some(buffer) = self.pool.take() {
            let at = usize::from(self.tail) % self.given.len();
            // SAFETY: `at` is below the number of entries, so the pointer is inside the chunk,
            // whose zeroes are valid entries. The kernel does not read this entry: it has taken the
            // previous entry at this place, because there are as many places as buffers and each
            // buffer has one entry at a time; and it sees the new one only after the store below.
            let entry = unsafe { &mut *first.wrapping_add(at) };
            entry.set_addr(buffer.chunk().as_ptr() as u64);
            entry.set_len(u32::try_from(buffer.capacity()).unwrap_or(u32::MAX));
            let id = buffer.chunk().index();
            entry.set_bid(id);
            self.given[usize::from(id)] = Some(buffer);
            self.count += 1;
            self.tail = self.tail.wrapping_add(1);
        }
        if self.tail != before {
            // SAFETY: the pointer is that of the first entry, which is initialised.
            let tail = unsafe { BufRingEntry::tail(first) }.cast_mut();
            // SAFETY: the tail is aligned, inside the chunk that `self` owns, and only this thread
            // writes to it. No reference to the first entry exists now.
            unsafe { AtomicU16::from_ptr(tail) }.store(self.tail, Ordering::Release);
        }
    }

    /// Takes back the buffer of a completion, with this number of filled bytes.
    fn take(&mut self, id: u16, bytes: usize) -> Buffer {
        let given = self.given.get_mut(usize::from(id)).and_then(Option::take);
        let mut buffer = given.expect("the kernel names a buffer that it has");
        buffer.set_len(bytes);
        self.count -= 1;
        buffer
    }
}

#[cfg(test)]
mod tests;
