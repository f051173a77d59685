//! Capabilities of this kernel, this container and this file system, found by trying each
//! operation.

use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode as Permissions, OFlags};
use rustix::io::ReadWriteFlags;
use rustix::net::{SendFlags, sockopt};
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::ktls::Suites;
use crate::ring::{Event, Memory, Mode, Operation, Ring, RingOptions};
use crate::sys::buf::BufferPool;
use crate::sys::calls;

/// The capabilities of this machine: plain data, so that a caller may switch one off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// `splice` from a file through a pipe to a socket: large extents by reference, in large steps.
    pub splice: Support,
    /// `sendfile` from a file to a socket: large extents by reference.
    pub sendfile: Support,
    /// References to pages of the cache in a pipe: without them, `splice` and `sendfile` copy each
    /// page once, inside the kernel.
    pub page_references: Support,
    /// Pipes of 1 MiB for `splice`; smaller pipes need more calls.
    pub large_pipes: Support,
    /// `preadv2` with `RWF_NOWAIT`: reads that refuse instead of waiting for the disk.
    pub nowait_reads: Support,
    /// `cachestat`: which pages are in the cache.
    pub cachestat: Support,
    /// `io_uring`: reads and zero-copy sends that complete later.
    pub io_uring: Support,
    /// Sends from memory by reference through a ring (`SEND_ZC`); whether a route then copies after
    /// all shows in use.
    pub ring_zero_copy: Support,
    /// A ring's buffers that are pinned once instead of with each operation: as much memory as may
    /// be locked.
    pub registered_buffers: Support,
    /// Reads that leave no pages in the cache (`RWF_DONTCACHE`), on the file system of the probe.
    pub uncached_reads: Support,
    /// TLS in the kernel, which keeps `splice` and `sendfile` under encryption.
    pub kernel_tls: Support,
    /// TLS features of the kernel; none without `kernel_tls`.
    pub tls_suites: Suites,
    /// `SO_ZEROCOPY` with `MSG_ZEROCOPY`: memory sent by reference.
    pub msg_zerocopy: Support,
    /// `copy_file_range`: file to file inside the kernel.
    pub copy_file_range: Support,
    /// `FICLONE`: files that share blocks, on the file system of the probe.
    pub reflink: Support,
}

/// The capabilities that determine the path of each piece of a transfer, as flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// True if `splice` works from file to socket.
    pub splice: bool,
    /// True if `sendfile` works from file to socket.
    pub sendfile: bool,
    /// True if both pass pages by reference.
    pub page_references: bool,
    /// True if reads can fail instead of waiting for the disk.
    pub nowait_reads: bool,
    /// True if the kernel can count the cached pages of a range.
    pub cachestat: bool,
}

impl From<&Caps> for Means {
    fn from(caps: &Caps) -> Self {
        Self {
            splice: caps.splice.works(),
            sendfile: caps.sendfile.works(),
            page_references: caps.page_references.works(),
            nowait_reads: caps.nowait_reads.works(),
            cachestat: caps.cachestat.works(),
        }
    }
}

/// Presence of a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// The probe succeeded.
    Works,
    /// The probe failed.
    Absent {
        /// Error of the attempt.
        why: String,
        /// Remedy, such as a newer kernel or a setting.
        remedy: &'static str,
    },
}

/// Environment variable that makes the probe assume that the kernel copies pages, for tests of the
/// paths that a process uses then.
const ASSUME_COPIES: &str = "LEVADA_ASSUME_COPYING_SPLICE";

const COPIES_REMEDY: &str = "none is needed: ranges of 256 KiB and more are sent from mappings (mmap_write), copied once; \
                             smaller ones by splice are copied inside the kernel, and count as splice_copy";

/// The size that [`Caps::large_pipes`] tries.
const LARGE_PIPE_BYTES: usize = 1 << 20;

/// The size of the buffers that [`Caps::registered_buffers`] tries: one thread needs at least four
/// of them.
const REGISTERED_BYTES: usize = 256 << 10;

/// Time that one attempt may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Test data that fills several pages, so that more than one page reference is passed.
static SAMPLE: [u8; 16_384] = [0x4c; 16_384];

impl Caps {
    /// Tries everything on a temporary file in `dir`, or in memory if `dir` takes none, and on
    /// loopback sockets.
    ///
    /// Takes about a millisecond. Leaves nothing behind.
    pub fn probe_in(dir: &std::path::Path) -> Self {
        let bench = Bench::new(dir);
        let check = |attempt: fn(&Bench) -> io::Result<()>, remedy: &'static str| {
            Support::of(
                bench
                    .as_ref()
                    .map_err(|why| why.to_string())
                    .and_then(|bench| attempt(bench).map_err(|why| why.to_string())),
                remedy,
            )
        };
        let kernel_tls = check(
            Bench::kernel_tls,
            "load the tls module on the host (modprobe tls); TLS runs in user space",
        );
        Self {
            splice: check(
                Bench::splice,
                "allow splice in the container's seccomp profile; sendfile is used instead",
            ),
            sendfile: check(
                Bench::sendfile,
                "allow sendfile in the container's seccomp profile; bytes are copied instead",
            ),
            page_references: if std::env::var_os(ASSUME_COPIES).is_some() {
                Support::of(Err(format!("{ASSUME_COPIES} is set")), COPIES_REMEDY)
            } else {
                check(Bench::page_references, COPIES_REMEDY)
            },
            large_pipes: check(
                Bench::large_pipe,
                "raise fs.pipe-max-size to 1048576 and fs.pipe-user-pages-soft",
            ),
            nowait_reads: check(Bench::nowait_read, "use a file system with RWF_NOWAIT, such as ext4 or XFS"),
            cachestat: check(
                Bench::cachestat,
                "use Linux 6.5 or later; an older seccomp profile may not allow the call",
            ),
            io_uring: check(
                Bench::io_uring,
                "set kernel.io_uring_disabled to 0 and allow io_uring in the seccomp profile",
            ),
            ring_zero_copy: check(Bench::ring_zero_copy, "use Linux 6.1 or later, and allow io_uring"),
            registered_buffers: check(
                Bench::registered_buffers,
                "allow io_uring, and raise the limit of locked memory (ulimit -l, LimitMEMLOCK=) to 8 MiB; \
                 buffers are pinned with each operation instead",
            ),
            uncached_reads: check(
                Bench::uncached_read,
                "use Linux 6.14 or later with XFS, or 6.16 with ext4; pages are dropped behind instead",
            ),
            tls_suites: if kernel_tls.works() { Suites::probe(connection) } else { Suites::default() },
            kernel_tls,
            msg_zerocopy: check(
                Bench::msg_zerocopy,
                "raise net.core.optmem_max and the limit of locked memory",
            ),
            copy_file_range: check(
                Bench::copy_file_range,
                "allow copy_file_range in the container's seccomp profile",
            ),
            reflink: check(
                Bench::reflink,
                "use a file system that can share blocks, such as XFS or Btrfs; bytes are copied instead",
            ),
        }
    }

    /// [`Caps::probe_in`] the system's directory for temporary files, by the first call of the
    /// process; later calls return the same.
    pub fn probe() -> Self {
        static CAPS: LazyLock<Caps> = LazyLock::new(|| Caps::probe_in(&std::env::temp_dir()));
        CAPS.clone()
    }

    /// Every capability with its name, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Support)> {
        [
            ("splice", &self.splice),
            ("sendfile", &self.sendfile),
            ("page references", &self.page_references),
            ("large pipes", &self.large_pipes),
            ("RWF_NOWAIT reads", &self.nowait_reads),
            ("cachestat", &self.cachestat),
            ("io_uring", &self.io_uring),
            ("SEND_ZC", &self.ring_zero_copy),
            ("registered buffers", &self.registered_buffers),
            ("RWF_DONTCACHE reads", &self.uncached_reads),
            ("kernel TLS", &self.kernel_tls),
            ("MSG_ZEROCOPY", &self.msg_zerocopy),
            ("copy_file_range", &self.copy_file_range),
            ("reflink", &self.reflink),
        ]
        .into_iter()
    }
}

impl Support {
    /// True if it was tried and worked.
    pub fn works(&self) -> bool {
        matches!(self, Self::Works)
    }

    fn of(attempt: Result<(), String>, remedy: &'static str) -> Self {
        match attempt {
            Ok(()) => Self::Works,
            Err(why) => Self::Absent { why, remedy },
        }
    }
}

/// Files and sockets for the attempts.
struct Bench {
    file: File,
    /// Second file, on the same file system.
    other: File,
}

impl Bench {
    fn new(dir: &std::path::Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let make = || -> io::Result<File> {
            let file = rustix::fs::open(dir, flags, Permissions::RUSR | Permissions::WUSR)
                .or_else(|_| rustix::fs::memfd_create("levada-probe", MemfdFlags::CLOEXEC))?;
            Ok(File::from(file))
        };
        let bench = Self { file: make()?, other: make()? };
        std::os::unix::fs::FileExt::write_all_at(&bench.file, &SAMPLE, 0)?;
        Ok(bench)
    }

    /// File → pipe → AF_UNIX and TCP.
    fn splice(&self) -> io::Result<()> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let send = |socket: BorrowedFd<'_>| -> io::Result<usize> {
            let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
            let into = rustix::pipe::splice(&self.file, Some(&mut 0), &writer, None, SAMPLE.len(), flags)?;
            Ok(rustix::pipe::splice(&reader, None, socket, None, into, flags)?)
        };
        let (sender, receiver) = UnixStream::pair()?;
        received(receiver, send(sender.as_fd())?)?;
        let (sender, receiver) = connection()?;
        received(receiver, send(sender.as_fd())?)
    }

    /// File → TCP.
    fn sendfile(&self) -> io::Result<()> {
        let (sender, receiver) = connection()?;
        let count = rustix::fs::sendfile(&sender, &self.file, Some(&mut 0), SAMPLE.len())?;
        received(receiver, count)
    }

    fn page_references(&self) -> io::Result<()> {
        references_pages(&self.file, &self.file)
    }

    fn large_pipe(&self) -> io::Result<()> {
        let (_reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let size = rustix::pipe::fcntl_setpipe_size(&writer, LARGE_PIPE_BYTES)?;
        ensure(size >= LARGE_PIPE_BYTES, || format!("a pipe came out with {size} bytes"))
    }

    fn nowait_read(&self) -> io::Result<()> {
        let mut bytes = [0; 512];
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let count = rustix::io::preadv2(&self.file, &mut slices, 0, ReadWriteFlags::NOWAIT)?;
        ensure(count > 0 && bytes[..count] == SAMPLE[..count], || "read other bytes".to_owned())
    }

    fn cachestat(&self) -> io::Result<()> {
        let pages = calls::cached_pages(self.file.as_fd(), 0, 0)?;
        ensure(pages > 0, || "reports no cached page for a file that was just written".to_owned())
    }

    fn io_uring(&self) -> io::Result<()> {
        let mut ring = Ring::new(&RingOptions { entries: 4, in_flight: 4, mode: Mode::Deferred })?;
        ring.push(Operation::nothing()).map_err(|full| io::Error::other(full.to_string()))?;
        ring.submit_and_wait(1, Some(PATIENCE))?;
        ensure(!ring.reap().is_empty(), || "set up, but completes nothing".to_owned())
    }

    fn ring_zero_copy(&self) -> io::Result<()> {
        let (sender, receiver) = connection()?;
        let mut ring = Ring::new(&RingOptions { entries: 4, in_flight: 4, mode: Mode::Deferred })?;
        let memory = Memory::Bytes(bytes::Bytes::from_static(&SAMPLE));
        let send = Operation::send(Arc::new(sender), memory).zero_copy();
        ring.push(send).map_err(|full| io::Error::other(full.to_string()))?;
        ring.submit_and_wait(1, Some(PATIENCE))?;
        let completion = ring.reap().into_iter().next().ok_or(io::ErrorKind::TimedOut)?;
        match completion.event {
            Event::Sent { result } => received(receiver, result?),
            Event::Done { result: Err(error), .. } => Err(error),
            other => Err(io::Error::other(format!("completed otherwise: {other:?}"))),
        }
    }

    fn registered_buffers(&self) -> io::Result<()> {
        let mut ring = Ring::new(&RingOptions { entries: 4, in_flight: 4, mode: Mode::Deferred })?;
        ring.register_buffers(&BufferPool::new(REGISTERED_BYTES, 4)?)
    }

    fn uncached_read(&self) -> io::Result<()> {
        // rustix has no name for it.
        let uncached = ReadWriteFlags::from_bits_retain(0x80);
        let mut bytes = [0; 512];
        let count = rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(&mut bytes)], 0, uncached)?;
        ensure(count > 0 && bytes[..count] == SAMPLE[..count], || "read other bytes".to_owned())
    }

    fn kernel_tls(&self) -> io::Result<()> {
        let (sender, _receiver) = connection()?;
        calls::enable_kernel_tls(sender.as_fd())
    }

    fn msg_zerocopy(&self) -> io::Result<()> {
        let (sender, receiver) = connection()?;
        calls::enable_zerocopy(sender.as_fd())?;
        let slices = [std::io::IoSlice::new(&SAMPLE)];
        let count = calls::send_zerocopy(sender.as_fd(), &slices, SendFlags::empty())?;
        received(receiver, count)
    }

    fn copy_file_range(&self) -> io::Result<()> {
        let end = SAMPLE.len() as u64;
        let (mut from, mut to) = (0, end);
        let file = &self.file;
        let count = rustix::fs::copy_file_range(file, Some(&mut from), file, Some(&mut to), SAMPLE.len())?;
        let mut copy = vec![0; count];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut copy, end)?;
        ensure(count > 0 && copy == SAMPLE[..count], || "copied other bytes".to_owned())
    }

    fn reflink(&self) -> io::Result<()> {
        Ok(rustix::fs::ioctl_ficlone(&self.other, &self.file)?)
    }
}

/// Puts the first page of `source` into a pipe, then changes the page through `file`, another
/// descriptor of the same file or the same one: the pipe has the change if it refers to the page.
/// Restores the page.
fn references_pages(source: &File, file: &File) -> io::Result<()> {
    const CHANGED: u8 = !SAMPLE[0];
    let mut bytes = vec![0; rustix::param::page_size()];
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let flags = SpliceFlags::NONBLOCK;
    // A profile may forbid `splice`; `sendfile` fills the pipe in the same way.
    let count = rustix::pipe::splice(source, Some(&mut 0), &writer, None, bytes.len(), flags)
        .or_else(|_| rustix::fs::sendfile(&writer, source, Some(&mut 0), bytes.len()))?;
    std::os::unix::fs::FileExt::write_all_at(file, &[CHANGED], 0)?;
    let read = File::from(reader).read(&mut bytes);
    std::os::unix::fs::FileExt::write_all_at(file, &SAMPLE[..1], 0)?;
    ensure(read? == count && count > 1 && bytes[1..count] == SAMPLE[1..count], || {
        "other bytes came through the pipe".to_owned()
    })?;
    ensure(bytes[0] == CHANGED, || "the kernel puts copies of the pages into the pipe".to_owned())
}

/// A TCP connection over loopback; its ends do not wait.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let (receiver, peer) = listener.accept()?;
    ensure(peer == sender.local_addr()?, || "another process connected to the probe's port".to_owned())?;
    sender.set_nonblocking(true)?;
    sockopt::set_tcp_nodelay(&sender, true)?;
    Ok((sender, receiver))
}

/// Reads the sent bytes and compares them.
fn received(mut receiver: impl Read, count: usize) -> io::Result<()> {
    let mut bytes = vec![0; count];
    receiver.read_exact(&mut bytes)?;
    ensure(count > 0 && bytes == SAMPLE[..count], || "other bytes arrived".to_owned())
}

fn ensure(holds: bool, text: impl FnOnce() -> String) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(text())) }
}

#[cfg(test)]
mod tests;
