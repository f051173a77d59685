//! The ring itself: entries that point into memory go to the kernel, and the memory is kept until
//! the last completion.
//!
//! All conditions of soundness are in this file: an entry is made from the contents of a slot,
//! slots release their contents only when the kernel has completed the operation for the last time,
//! and contents that remain when the ring is dropped are leaked.

use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use super::buf::Buffer;
use super::memory::Region;

pub(crate) mod files;
pub(crate) mod operation;
pub(crate) mod options;
pub(crate) mod slots;
pub(crate) mod sockets;

use operation::{Caching, Memory, Operation, Target, Verb};
use options::{Mode, RingOptions};
use slots::{Entry, Key, Slots, Step};

/// A ring and the objects that the kernel has received through it. Belongs to the thread that made
/// it.
pub(crate) struct Core {
    ring: IoUring,
    slots: Slots<Held>,
    /// The buffers that are registered with the kernel by index.
    registered: Option<Arc<Region>>,
    polled: bool,
    /// Targets of operations that were in progress when the ring was dropped. Declared after
    /// `ring`, and so dropped after it: the thread of the kernel may start a queued operation until
    /// then, and would do so with another file if the descriptor had been closed and its number
    /// used again.
    left_open: Vec<Target>,
    /// `SINGLE_ISSUER`: another thread's calls would be refused.
    thread: PhantomData<*const ()>,
}

/// Resources of one operation.
pub(crate) struct Held {
    pub(crate) memory: Memory,
    pub(crate) verb: Verb,
    /// File or socket, until the operation has its result: a parked send does not keep its socket
    /// open.
    target: Option<Target>,
    /// Header of a send of several pieces.
    message: Option<Box<Message>>,
}

/// A message header and the vector it points to.
struct Message {
    header: libc::msghdr,
    _pieces: Vec<libc::iovec>,
}

/// An entry with this belongs to no slot.
const NOBODY: u64 = u64::MAX;

/// `IORING_SEND_ZC_REPORT_USAGE`: the notification reports if the kernel copied.
const REPORT_USAGE: u16 = 1 << 3;

impl Core {
    pub(crate) fn new(options: &RingOptions) -> io::Result<Self> {
        let completions = options.in_flight.saturating_mul(2).clamp(2, 1 << 16).next_power_of_two();
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(completions).setup_clamp();
        match options.mode {
            Mode::Deferred => builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag(),
            Mode::Polled { idle_ms } => builder.setup_sqpoll(idle_ms),
            Mode::Plain => &mut builder,
        };
        let ring = builder.build(options.entries.clamp(1, 1 << 12).min(completions))?;
        // The kernel copies message headers at submission, and never loses a completion: both since
        // 5.5.
        if !ring.params().is_feature_submit_stable() || !ring.params().is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            polled: ring.params().is_setup_sqpoll(),
            slots: Slots::new(completions / 2),
            registered: None,
            left_open: Vec::new(),
            thread: PhantomData,
            ring,
        })
    }

    /// Adds operations to the submission queue, linked in order if there are several; returns them
    /// if it is full.
    pub(crate) fn push(&mut self, operations: Vec<Operation>) -> Result<Vec<Key>, Vec<Operation>> {
        if operations.len() > self.slots.room() || !self.make_room(operations.len()) {
            return Err(operations);
        }
        let last = operations.len().saturating_sub(1);
        let mut keys = Vec::with_capacity(operations.len());
        // Shows all entries together, when it is dropped: a thread of the kernel that takes entries
        // by itself would end a chain where it finds no next one.
        let mut queue = self.ring.submission();
        for (index, operation) in operations.into_iter().enumerate() {
            let held = Held {
                message: message(&operation),
                memory: operation.memory,
                verb: operation.verb,
                target: operation.target,
            };
            let Ok(key) = self.slots.insert(held) else { unreachable!("the room was checked") };
            let held = self.slots.held(key).expect("it was just inserted");
            let mut entry = entry(held, self.registered.as_ref()).user_data(key.user_data());
            if index < last {
                entry = entry.flags(squeue::Flags::IO_LINK);
            }
            // SAFETY: the entry points only into what lies in the slot of `key` (see `entry`), at
            // addresses that do not change when the slot's content moves; the slot keeps it until
            // the kernel's last completion of this operation, or leaks it.
            let pushed = unsafe { queue.push(&entry) };
            pushed.expect("the room was checked");
            keys.push(key);
        }
        Ok(keys)
    }

    /// True if `count` entries fit into the submission queue, after submitting its entries if
    /// necessary.
    fn make_room(&mut self, count: usize) -> bool {
        let room = |ring: &mut IoUring| {
            let queue = ring.submission();
            queue.capacity() - queue.len()
        };
        room(&mut self.ring) >= count || self.enter(0, None).is_ok() && room(&mut self.ring) >= count
    }

    /// Submits queued entries, and waits for `want` completions or until the timeout.
    ///
    /// An interrupted wait, and a kernel that first requires completions to be taken, are not
    /// errors: there are fewer completions then.
    pub(crate) fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        let time = timeout.map(Timespec::from);
        let mut arguments = SubmitArgs::new();
        if let Some(time) = &time {
            arguments = arguments.timespec(time);
        }
        if self.polled {
            return settled(self.ring.submitter().submit_with_args(want, &arguments));
        }
        enter(&mut self.ring, u32::try_from(want).unwrap_or(u32::MAX), &arguments)
    }

    /// True if completions wait for a call before they can be seen.
    pub(crate) fn has_work(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Takes all completions that are there.
    pub(crate) fn reap(&mut self, mut tell: impl FnMut(Step<Held>)) {
        let mut queue = self.ring.completion();
        queue.sync();
        for one in queue {
            if one.user_data() == NOBODY {
                continue;
            }
            let flags = one.flags();
            let entry = Entry {
                user_data: one.user_data(),
                result: one.result(),
                more: cqueue::more(flags),
                notification: cqueue::notif(flags),
            };
            for step in self.slots.complete(entry).into_iter().flatten() {
                if let Step::Parked { key, .. } = &step
                    && let Some(held) = self.slots.held(*key)
                {
                    held.target = None;
                }
                tell(step);
            }
        }
    }

    /// True if a buffer is registered with the kernel.
    pub(crate) fn is_registered(&self, buffer: &Buffer) -> bool {
        registered_index(buffer, self.registered.as_ref()).is_some()
    }

    /// Number of operations one chain can have.
    pub(crate) fn chain_limit(&self) -> usize {
        usize::try_from(self.ring.params().sq_entries()).unwrap_or(usize::MAX)
    }

    /// Number of further operations that the ring can accept.
    pub(crate) fn room(&self) -> usize {
        self.slots.room()
    }

    /// Number of operations that have not completed for the last time.
    pub(crate) fn live(&self) -> usize {
        self.slots.live()
    }

    /// Registers a region's chunks with the kernel, once.
    pub(crate) fn register_buffers(&mut self, region: &Arc<Region>) -> io::Result<()> {
        if self.registered.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // SAFETY: the slices are the parts of the region's allocation, which is kept alive below
        // for as long as the ring; only owners of chunks reach that memory, and a chunk in an
        // operation is owned by its slot.
        unsafe { self.ring.submitter().register_buffers(&region.io_slices()) }?;
        self.registered = Some(Arc::clone(region));
        Ok(())
    }

    /// Makes the kernel signal an `eventfd` for each completion, and when completions wait for a
    /// call. The kernel keeps it open.
    pub(crate) fn register_eventfd(&mut self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        self.ring.submitter().register_eventfd(eventfd.as_raw_fd())
    }

    /// Creates an empty table for `count` files.
    pub(crate) fn register_files(&mut self, count: u32) -> io::Result<()> {
        self.ring.submitter().register_files(&vec![-1; usize::try_from(count).unwrap_or(usize::MAX)])
    }

    /// Puts a file into the table, or removes it.
    pub(crate) fn update_file(&mut self, index: u32, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let number = file.map_or(-1, |file| file.as_raw_fd());
        self.ring.submitter().register_files_update(index, &[number])?;
        Ok(())
    }
}

impl Drop for Core {
    /// Requests the kernel to cancel everything and waits a moment. Memory that the kernel still
    /// refers to then is leaked: otherwise the kernel would write to, or send, memory of another
    /// owner.
    fn drop(&mut self) {
        const MOMENT: Duration = Duration::from_millis(20);
        if self.live() > 0 {
            let cancel =
                opcode::AsyncCancel2::new(io_uring::types::CancelBuilder::any()).build().user_data(NOBODY);
            // SAFETY: the entry points to no memory. If there is no room, nothing is cancelled.
            let _ = unsafe { self.ring.submission().push(&cancel) };
            let _ = self.enter(self.live() + 1, Some(MOMENT));
            self.reap(drop);
        }
        if self.live() > 0 {
            mem::forget(self.registered.take());
        }
        for Held { memory, message, target, .. } in self.slots.drain() {
            self.left_open.extend(target);
            mem::forget((memory, message));
        }
    }
}

/// Submits queued entries of a ring without a thread of the kernel, and waits for `want`
/// completions as the arguments say. The result is as for [`Core::enter`].
fn enter(ring: &mut IoUring, want: u32, arguments: &SubmitArgs<'_, '_>) -> io::Result<()> {
    let queued = u32::try_from(ring.submission().len()).unwrap_or(u32::MAX);
    let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
    if ring.params().is_feature_no_iowait() {
        flags |= EnterFlags::NO_IOWAIT;
    }
    // SAFETY: the count is that of the entries in the queue, the flags are ones that this kernel
    // knows, and the argument is of the type that `EXT_ARG` asks for and outlives the call.
    settled(unsafe { ring.submitter().enter(queued, want, flags.bits(), Some(arguments)) })
}

/// Result of a call that may have been interrupted, or requires completions to be taken first.
fn settled(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The header of a send of several pieces.
fn message(operation: &Operation) -> Option<Box<Message>> {
    let Memory::Pieces(pieces) = &operation.memory else { return None };
    let slice = |piece: &bytes::Bytes| libc::iovec {
        // Sending only reads.
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    };
    let mut pieces: Vec<libc::iovec> = pieces.iter().map(slice).collect();
    // SAFETY: `msghdr` is a plain C structure for which zeroes are a valid value: no address, no
    // vector, no control data.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = pieces.as_mut_ptr();
    header.msg_iovlen = pieces.len() as _;
    Some(Box::new(Message { header, _pieces: pieces }))
}

/// The entry for an operation. It only points to memory that `held` owns: the pages of a buffer,
/// the content of `Bytes`, a boxed message and its vector. None of them moves when `held` does.
fn entry(held: &Held, registered: Option<&Arc<Region>>) -> squeue::Entry {
    let (fd, fixed) = match &held.target {
        None => (Fd(-1), false),
        Some(Target::Handle(handle)) => (Fd(handle.as_fd().as_raw_fd()), false),
        Some(Target::Slot(slot)) => (Fd(slot.number()), true),
    };
    let entry = match held.verb {
        Verb::Nothing => opcode::Nop::new().build(),
        Verb::Sync => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        Verb::Cancel { user_data } => opcode::AsyncCancel::new(user_data).build(),
        Verb::Read { offset, len, caching } => {
            read_entry(fd, held, registered, ReadAt { offset, len, caching })
        }
        Verb::Send { zero_copy, flags } => {
            send_entry(fd, held, registered, (zero_copy, flags.bits().cast_signed()))
        }
    };
    if fixed { entry.flags(squeue::Flags::FIXED_FILE) } else { entry }
}

/// The range of a read, and the treatment of its pages.
struct ReadAt {
    offset: u64,
    len: u32,
    caching: Caching,
}

fn read_entry(
    fd: Fd,
    held: &Held,
    registered: Option<&Arc<Region>>,
    ReadAt { offset, len, caching }: ReadAt,
) -> squeue::Entry {
    let Memory::Buffer(buffer) = &held.memory else { unreachable!("a read is made with a buffer") };
    let chunk = buffer.chunk();
    let flags = match caching {
        Caching::Keep => 0,
        Caching::Drop => libc::RWF_DONTCACHE,
    };
    let len = len.min(u32::try_from(chunk.len()).unwrap_or(u32::MAX));
    if registered.is_some_and(|region| chunk.is_of(region)) {
        let read = opcode::ReadFixed::new(fd, chunk.as_ptr(), len, chunk.index());
        return read.offset(offset).rw_flags(flags).build();
    }
    opcode::Read::new(fd, chunk.as_ptr(), len).offset(offset).rw_flags(flags).build()
}

fn registered_index(buffer: &Buffer, registered: Option<&Arc<Region>>) -> Option<u16> {
    registered.filter(|region| buffer.chunk().is_of(region)).map(|_| buffer.chunk().index())
}

fn send_entry(
    fd: Fd,
    held: &Held,
    registered: Option<&Arc<Region>>,
    (zero_copy, flags): (bool, i32),
) -> squeue::Entry {
    if let Some(message) = &held.message {
        let header: *const libc::msghdr = &raw const message.header;
        let flags = flags.cast_unsigned();
        return if zero_copy {
            opcode::SendMsgZc::new(fd, header).ioprio(REPORT_USAGE).flags(flags).build()
        } else {
            opcode::SendMsg::new(fd, header).flags(flags).build()
        };
    }
    let (start, len, index) = match &held.memory {
        Memory::Bytes(bytes) => (bytes.as_ptr(), bytes.len(), None),
        Memory::Buffer(buffer) => {
            (buffer.filled().as_ptr(), buffer.len(), registered_index(buffer, registered))
        }
        Memory::Shared(buffer, range) => {
            // `Ring::push_linked` has checked that the range is within the filled bytes.
            let part = &buffer.filled()[range.clone()];
            (part.as_ptr(), part.len(), registered_index(buffer, registered))
        }
        Memory::Nothing | Memory::Pieces(_) => (std::ptr::dangling(), 0, None),
    };
    // A longer send is cut short, which its result shows.
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    if zero_copy {
        opcode::SendZc::new(fd, start, len).buf_index(index).flags(flags).zc_flags(REPORT_USAGE).build()
    } else {
        opcode::Send::new(fd, start, len).flags(flags).build()
    }
}
