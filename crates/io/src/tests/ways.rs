//! Every way to get bytes to a socket, each as one function call for the matrix.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::event::PollFlags;

use super::{caps, content, engine, wait_for};
use crate::buf::BufferPool;
use crate::inflow::{Inflow, InflowOptions};
use crate::outbox::{Outbox, Outcome, Terms};
use crate::ring::{Caching, Key, Mode, Ring, RingOptions};
use crate::zerocopy::ZeroCopyOutbox;
use crate::{
    Counters, Extent, Fallback, MemoryPiece, Path, Piece, Snapshot, SocketPath, Thresholds, Transfer, Turn,
};

/// A way to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A transfer by this path: a header, the range, and bytes after it.
    Transfer(SocketPath),
    MsgZerocopy,
    /// Through a ring, from memory.
    Ring(From),
    /// Through a ring from the file, and from there by `SEND_ZC`.
    File(How),
}

/// Source of the ring's sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// `SEND`.
    Memory,
    /// `SENDMSG`.
    Pieces,
    /// `SEND`, taken up by a kernel thread.
    Polled,
    /// `SEND_ZC`.
    Reference,
    /// `SENDMSG_ZC`.
    References,
    /// `SEND_ZC` from registered buffers.
    Registered,
}

/// A ring's way to read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Buffered,
    Registered,
    Direct,
    Uncached,
}

impl Way {
    pub(crate) const ALL: [Self; 15] = [
        Self::Transfer(SocketPath::ReadWrite),
        Self::Transfer(SocketPath::MmapWrite),
        Self::Transfer(SocketPath::Sendfile),
        Self::Transfer(SocketPath::Splice),
        Self::MsgZerocopy,
        Self::Ring(From::Memory),
        Self::Ring(From::Pieces),
        Self::Ring(From::Polled),
        Self::Ring(From::Reference),
        Self::Ring(From::References),
        Self::Ring(From::Registered),
        Self::File(How::Buffered),
        Self::File(How::Registered),
        Self::File(How::Direct),
        Self::File(How::Uncached),
    ];

    /// True if all `len` bytes were counted under the path that this is, or, where the kernel or
    /// the socket refused it, under its fallback.
    pub(crate) fn counted(self, counted: &Snapshot, len: u64, tcp: bool) -> bool {
        let or_copied = |path, copied, refusal| {
            let refused = counted.fallbacks(Fallback::NoLockedMemory) > 0 || !tcp;
            let moved = counted.bytes(path) + counted.bytes(copied);
            moved == len && (counted.bytes(path) == len || refused) && (tcp || refusal)
        };
        let refused =
            counted.fallbacks(Fallback::ZeroCopyRefused) > 0 && counted.bytes(Path::UringSendZc) == 0;
        let by_reference = or_copied(Path::UringSendZc, Path::UringSend, refused);
        match self {
            Self::Transfer(path) => {
                counted.bytes(path.into()) == len && counted.bytes(Path::Send) == 2 * FRAME.len() as u64
            }
            Self::MsgZerocopy => {
                or_copied(Path::MsgZerocopy, Path::Send, counted.bytes(Path::MsgZerocopy) == 0)
            }
            Self::Ring(From::Memory | From::Pieces | From::Polled) => counted.bytes(Path::UringSend) == len,
            Self::Ring(From::Reference | From::References | From::Registered) => by_reference,
            Self::File(_) => by_reference && counted.bytes(Path::UringRead) == len,
        }
    }

    /// Bytes sent before and after the range.
    pub(crate) fn frame(self) -> &'static [u8] {
        if matches!(self, Self::Transfer(_)) { FRAME } else { b"" }
    }
}

const FRAME: &[u8] = b"frame";

/// The payload: a range of a file, and the same bytes in memory.
#[derive(Debug)]
pub(crate) struct Goods {
    pub(crate) bytes: Bytes,
    cached: Arc<File>,
    direct: Arc<File>,
    _dir: tempfile::TempDir,
}

/// Start of the range, never at a page boundary.
pub(crate) const OFFSET: usize = 7;

impl Goods {
    /// Ranges of up to `largest` bytes.
    pub(crate) fn new(largest: usize) -> Self {
        // No multiple of a page or a pipe, so that a piece from the wrong place shows.
        let part = content((1 << 20) + 13);
        let bytes = Bytes::from(part.repeat((largest + OFFSET) / part.len() + 1));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("goods");
        std::fs::write(&path, &bytes).unwrap();
        let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
        let cached = Arc::new(File::open(&path).unwrap());
        // A file system without it reads through the cache then, and gives the same bytes.
        let direct = direct.map_or_else(|_| Arc::clone(&cached), Arc::new);
        Self { bytes, cached, direct, _dir: dir }
    }

    fn part(&self, len: usize) -> Bytes {
        self.bytes.slice(OFFSET..OFFSET + len)
    }

    fn extent(&self, file: &Arc<File>, len: usize) -> Extent {
        Extent { file: Arc::clone(file), offset: OFFSET as u64, len: len as u64 }
    }
}

/// Outcome at the sender.
pub(crate) type Sent = (Result<(), String>, Snapshot);

/// Sends `len` bytes of the goods, and closes the socket.
pub(crate) fn send(way: Way, bench: Option<&mut Bench>, goods: &Goods, len: usize, socket: OwnedFd) -> Sent {
    match way {
        Way::Transfer(path) => transfer(path, goods, len, &socket),
        Way::MsgZerocopy => msg_zerocopy(goods.part(len), &socket),
        Way::Ring(from) => {
            let refers = !matches!(from, From::Memory | From::Pieces | From::Polled);
            let part = goods.part(len);
            let supply = match from {
                From::Registered => Supply::Buffers(part),
                From::Pieces | From::References => {
                    let pieces = part.chunks(len.div_ceil(20)).map(|piece| part.slice_ref(piece));
                    Supply::Memory(pieces.collect())
                }
                _ => Supply::Memory(vec![part]),
            };
            bench.expect("a ring").send(supply, refers, socket)
        }
        Way::File(how) => {
            let direct = how == How::Direct;
            let file = if direct { &goods.direct } else { &goods.cached };
            let caching = if how == How::Uncached { Caching::Drop } else { Caching::Keep };
            let access = InflowOptions {
                caching,
                alignment: if direct { 4096 } else { 1 },
                ..InflowOptions::default()
            };
            let supply = Supply::File(Inflow::new([goods.extent(file, len)], access), HashSet::new());
            bench.expect("a ring").send(supply, true, socket)
        }
    }
}

fn transfer(path: SocketPath, goods: &Goods, len: usize, socket: &OwnedFd) -> Sent {
    rustix::io::ioctl_fionbio(socket, true).unwrap();
    let mut engine = engine(&caps(true, true), Thresholds::default());
    engine.force(Some(path));
    let frame = || Piece::Bytes(Bytes::from_static(FRAME));
    let mut transfer = Transfer::new([frame(), Piece::Extent(goods.extent(&goods.cached, len)), frame()]);
    let outcome = loop {
        match transfer.step(&mut engine, socket.as_fd(), 1 << 20) {
            Ok(Turn::Done) => break Ok(()),
            Ok(Turn::Yield | Turn::Cold) => {}
            Ok(Turn::Blocked) => wait_for(socket.as_fd(), PollFlags::OUT),
            Err(error) => break Err(error.to_string()),
        }
    };
    (outcome, engine.counters().snapshot())
}

fn msg_zerocopy(part: Bytes, socket: &OwnedFd) -> Sent {
    rustix::io::ioctl_fionbio(socket, true).unwrap();
    let counters = Counters::default();
    let mut outbox = ZeroCopyOutbox::new(socket.as_fd());
    outbox.push(part);
    let outcome = loop {
        match outbox.step(socket.as_fd(), terms(true), &counters) {
            Ok(Turn::Done) => break Ok(()),
            Ok(Turn::Yield | Turn::Cold) => {}
            Ok(Turn::Blocked) => {
                wait_for(socket.as_fd(), PollFlags::OUT);
                // A connection that was reset has no queue any more.
                if let Err(error) = outbox.collect(socket.as_fd(), &counters) {
                    break Err(error.to_string());
                }
            }
            Err(error) => break Err(error.to_string()),
        }
    };
    while outcome.is_ok() && outbox.parked_bytes() > 0 {
        wait_for(socket.as_fd(), PollFlags::ERR);
        if outbox.collect(socket.as_fd(), &counters).is_err() {
            break;
        }
    }
    (outcome, counters.snapshot())
}

/// Everything by reference that may be.
static THRESHOLDS: Thresholds = Thresholds {
    small_extent_bytes: 0,
    copy_bytes: 0,
    pipe_bytes: 0,
    pipe_floor_bytes: 0,
    pipes: 0,
    zero_copy_send_bytes: 1,
    registered_send_bytes: 1,
    cold_window_bytes: 0,
};

fn terms(may_refer: bool) -> Terms<'static> {
    Terms { budget: 1 << 20, may_refer, thresholds: &THRESHOLDS }
}

/// Source of the pieces of a load.
enum Supply {
    Memory(Vec<Bytes>),
    /// To be copied into buffers of the pool.
    Buffers(Bytes),
    File(Inflow, HashSet<Key>),
}

impl Supply {
    fn is_done(&self) -> bool {
        match self {
            Self::Memory(pieces) => pieces.is_empty(),
            Self::Buffers(left) => left.is_empty(),
            Self::File(inflow, _) => inflow.is_done(),
        }
    }

    fn refill(&mut self, outbox: &mut Outbox, ring: &mut Ring, pool: &BufferPool) {
        match self {
            Self::Memory(pieces) => pieces.drain(..).for_each(|piece| outbox.push(MemoryPiece::Bytes(piece))),
            Self::Buffers(left) => {
                while !left.is_empty()
                    && let Some(mut buffer) = pool.take()
                {
                    let part = left.split_to(buffer.capacity().min(left.len()));
                    buffer.space()[..part.len()].copy_from_slice(&part);
                    buffer.set_len(part.len());
                    outbox.push(MemoryPiece::Buffer(Arc::new(buffer), 0..part.len()));
                }
            }
            Self::File(inflow, keys) => {
                while let Some(load) = inflow.next_piece() {
                    outbox.push(load);
                }
                keys.extend(inflow.submit(ring, pool));
            }
        }
    }
}

/// A ring with a pool, for the ways through one.
pub(crate) struct Bench {
    ring: Ring,
    pool: BufferPool,
}

impl Bench {
    /// The ring for `way`, if it needs one.
    pub(crate) fn of(way: Way) -> std::io::Result<Option<Self>> {
        let mode = if way == Way::Ring(From::Polled) { Mode::Polled { idle_ms: 1 } } else { Mode::Deferred };
        let registered = match way {
            Way::Ring(from) => from == From::Registered,
            Way::File(how) => how != How::Buffered,
            Way::Transfer(_) | Way::MsgZerocopy => return Ok(None),
        };
        let mut ring = Ring::new(&RingOptions { mode, ..RingOptions::default() })?;
        let pool = BufferPool::new(64 << 10, 16)?;
        if registered {
            ring.register_buffers(&pool)?;
        }
        Ok(Some(Self { ring, pool }))
    }

    /// Sends all, closes the socket, and waits until the kernel refers to nothing any more.
    fn send(&mut self, mut supply: Supply, refers: bool, socket: OwnedFd) -> Sent {
        let counters = Counters::default();
        let mut outbox = Outbox::new(Arc::new(socket));
        let mut outcome = Ok(());
        while outcome.is_ok() {
            supply.refill(&mut outbox, &mut self.ring, &self.pool);
            if supply.is_done() && outbox.queued_bytes() == 0 {
                break;
            }
            outbox.submit(&mut self.ring, terms(refers));
            for completion in self.completions() {
                if let Supply::File(inflow, keys) = &mut supply
                    && keys.remove(&completion.key)
                {
                    inflow.take_in(completion, &counters).unwrap();
                } else if let Outcome::Failed(error) = outbox.take_in(completion, &counters) {
                    outcome = Err(error.to_string());
                }
            }
        }
        drop(outbox);
        while self.ring.in_flight() > 0 {
            self.completions();
        }
        (outcome, counters.snapshot())
    }

    fn completions(&mut self) -> Vec<crate::ring::Completion> {
        let start = Instant::now();
        loop {
            self.ring.submit_and_wait(1, Some(Duration::from_secs(20))).unwrap();
            let completions = self.ring.reap();
            if !completions.is_empty() {
                return completions;
            }
            // A signal ends the wait as well.
            assert!(start.elapsed() < Duration::from_secs(20), "nothing completed for twenty seconds");
        }
    }
}
