//! Methods to read the blocks of a file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levada_io::buf::BufferPool;
use levada_io::map::{Access, FileMap};
use levada_io::ring::{Caching, Event, Memory, Mode, Operation, Ring, RingOptions, Target};
use rustix::io::ReadWriteFlags;

use super::clocked;

/// A method to read blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadMethod {
    /// Reads with `pread` into one buffer.
    Pread,
    /// Reads with `preadv` into [`BUFFERS`] buffers, which are reused or allocated for each call.
    Preadv { pooled: bool },
    /// Reads one word of each page of a mapping. With `copied`, also copies the block, so that a
    /// check sees all bytes.
    Mapping { access: Access, copied: bool },
    /// Reads with `io_uring`.
    Ring(Depth),
}

/// Use of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Depth {
    /// Maximum number of reads in flight.
    reads: u16,
    /// True if the file and the buffers are registered.
    registered: bool,
    /// True if a kernel thread polls the submission queue.
    polled: bool,
    /// True if the reader waits for all reads together instead of one at a time.
    together: bool,
    /// Treatment of the page cache.
    cache: Cache,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    Keep,
    /// Reads with `RWF_DONTCACHE`.
    Drop,
    /// Reads with `O_DIRECT`.
    Around,
}

/// Number of buffers of a `preadv`.
const BUFFERS: usize = 8;

/// Blocks of one reader, in reading order.
#[derive(Debug, Clone)]
pub(super) struct Share {
    blocks: Vec<u64>,
    block_bytes: usize,
}

/// A block that a method has read.
pub(super) struct Block<'a> {
    pub(super) number: u64,
    /// Bytes of the block, in the buffers of the read.
    pub(super) parts: &'a [&'a [u8]],
}

/// Consumer of blocks, which arrive in any order.
pub(super) type Taker<'a> = dyn FnMut(Block<'_>) + 'a;

const RING: Depth = Depth { reads: 1, registered: false, polled: false, together: false, cache: Cache::Keep };

impl Share {
    pub(super) fn new(blocks: Vec<u64>, block_bytes: usize) -> Self {
        Self { blocks, block_bytes }
    }

    fn offset(&self, block: u64) -> u64 {
        block * self.block_bytes as u64
    }
}

impl ReadMethod {
    /// All methods; the simplest one is first.
    pub(super) const ALL: [Self; 17] = [
        Self::Pread,
        Self::Preadv { pooled: false },
        Self::Preadv { pooled: true },
        Self::mapping(Access::Random),
        Self::mapping(Access::Usual),
        Self::mapping(Access::Sequential),
        Self::mapping(Access::Needed),
        Self::mapping(Access::Populated),
        Self::mapping(Access::Huge),
        Self::Ring(RING),
        Self::Ring(Depth { reads: 8, ..RING }),
        Self::Ring(Depth { reads: 32, ..RING }),
        Self::Ring(Depth { reads: 32, together: true, ..RING }),
        Self::Ring(Depth { reads: 32, registered: true, ..RING }),
        Self::Ring(Depth { reads: 32, registered: true, polled: true, ..RING }),
        Self::Ring(Depth { reads: 32, registered: true, cache: Cache::Drop, ..RING }),
        Self::Ring(Depth { reads: 32, registered: true, cache: Cache::Around, ..RING }),
    ];

    const fn mapping(access: Access) -> Self {
        Self::Mapping { access, copied: false }
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Pread => "pread".to_owned(),
            Self::Preadv { pooled: true } => format!("preadv, {BUFFERS} pooled buffers"),
            Self::Preadv { .. } => format!("preadv, {BUFFERS} new buffers a call"),
            Self::Mapping { access, .. } => {
                let what = match access {
                    Access::Random => ", no read-ahead",
                    Access::Usual => "",
                    Access::Sequential => ", sequential",
                    Access::Needed => ", willneed",
                    Access::Populated => ", populate",
                    Access::Huge => ", huge pages",
                };
                format!("mmap{what}")
            }
            Self::Ring(depth) => {
                let registered = if depth.registered { ", registered" } else { "" };
                let together = if depth.together { ", all together" } else { "" };
                let polled = if depth.polled { ", SQPOLL" } else { "" };
                let cache = match depth.cache {
                    Cache::Keep => "",
                    Cache::Drop => ", RWF_DONTCACHE",
                    Cache::Around => ", O_DIRECT",
                };
                format!("ring, depth {}{together}{registered}{polled}{cache}", depth.reads)
            }
        }
    }

    /// Returns the method in the form that shows all bytes to a check.
    pub(super) fn checked(self) -> Self {
        match self {
            Self::Mapping { access, .. } => Self::Mapping { access, copied: true },
            other => other,
        }
    }

    pub(super) fn is_mapping(self) -> bool {
        matches!(self, Self::Mapping { .. })
    }

    pub(super) fn is_huge(self) -> bool {
        matches!(self, Self::Mapping { access: Access::Huge, .. })
    }

    pub(super) fn needs_ring(self) -> bool {
        matches!(self, Self::Ring(_))
    }

    pub(super) fn drops(self) -> bool {
        matches!(self, Self::Ring(Depth { cache: Cache::Drop, .. }))
    }

    pub(super) fn is_direct(self) -> bool {
        matches!(self, Self::Ring(Depth { cache: Cache::Around, .. }))
    }

    /// Prepares reads of blocks of this size: allocates buffers and creates rings, before the clock
    /// starts. Mappings follow in [`Reader::read`], because the creation of some of them reads the
    /// file.
    pub(super) fn ready(self, file: &Arc<File>, block_bytes: usize) -> io::Result<Reader> {
        let means = match self {
            Self::Pread | Self::Preadv { .. } => Means::Buffer(touched(block_bytes)),
            Self::Mapping { access, copied } => Means::Map { access, copied },
            Self::Ring(depth) => Means::Ring(Box::new(RingMeans::new(file, block_bytes, depth)?)),
        };
        Ok(Reader { way: self, file: Arc::clone(file), means })
    }
}

/// A method that is ready to read.
pub(super) struct Reader {
    way: ReadMethod,
    file: Arc<File>,
    means: Means,
}

enum Means {
    Buffer(Vec<u8>),
    Map { access: Access, copied: bool },
    Ring(Box<RingMeans>),
}

struct RingMeans {
    ring: Ring,
    /// Number of completions that one wait expects.
    at_once: usize,
    pool: BufferPool,
    target: Target,
    caching: Caching,
}

impl Reader {
    /// Reads a share. Returns the duration of each block's read.
    pub(super) fn read(&mut self, share: &Share, take: &mut Taker<'_>) -> io::Result<Vec<Duration>> {
        match (self.way, &mut self.means) {
            (ReadMethod::Preadv { pooled: false }, _) => preadv_anew(&self.file, share, take),
            (ReadMethod::Preadv { .. }, Means::Buffer(buffer)) => preadv(&self.file, share, buffer, take),
            (_, Means::Buffer(buffer)) => pread(&self.file, share, buffer, take),
            (_, Means::Map { access, copied }) => mapping(&self.file, (*access, *copied), share, take),
            (_, Means::Ring(means)) => ring(means, share, take),
        }
    }
}

impl RingMeans {
    fn new(file: &Arc<File>, block_bytes: usize, depth: Depth) -> io::Result<Self> {
        let mode = if depth.polled { Mode::Polled { idle_ms: 10 } } else { Mode::Deferred };
        let mut ring = Ring::new(&RingOptions { mode, ..RingOptions::default() })?;
        let pool = BufferPool::new(block_bytes, depth.reads)?;
        // The first write allocates the pages of the buffers.
        let mut all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        all.iter_mut().for_each(|buffer| buffer.space().fill(1));
        drop(all);
        let mut target = Target::from(Arc::clone(file));
        if depth.registered {
            ring.register_buffers(&pool)?;
            ring.register_files(1)?;
            target = Target::from(&ring.attach(&**file)?);
        }
        let caching = if depth.cache == Cache::Drop { Caching::Drop } else { Caching::Keep };
        let at_once = if depth.together { usize::from(depth.reads) } else { 1 };
        Ok(Self { ring, at_once, pool, target, caching })
    }
}

/// Returns a buffer whose pages are allocated.
fn touched(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}

/// Reads one byte of each page.
pub(super) fn touch(bytes: &[u8]) {
    const PAGE_BYTES: usize = 4096;
    // `black_box` of a reference would not read the byte.
    bytes.iter().step_by(PAGE_BYTES).for_each(|byte| {
        std::hint::black_box(*byte);
    });
}

fn pread(file: &File, share: &Share, buffer: &mut [u8], take: &mut Taker<'_>) -> io::Result<Vec<Duration>> {
    let one = |number: &u64| {
        let ((), time) = clocked(|| {
            file.read_exact_at(buffer, share.offset(*number))?;
            touch(buffer);
            Ok(())
        })?;
        take(Block { number: *number, parts: &[&*buffer] });
        Ok(time)
    };
    share.blocks.iter().map(one).collect()
}

fn preadv(file: &File, share: &Share, buffer: &mut [u8], take: &mut Taker<'_>) -> io::Result<Vec<Duration>> {
    let mut pieces = buffer.chunks_mut(share.block_bytes.div_ceil(BUFFERS));
    let mut slices: [_; BUFFERS] =
        std::array::from_fn(|_| IoSliceMut::new(pieces.next().unwrap_or_default()));
    let one = |number: &u64| {
        let ((), time) = clocked(|| vectored(file, share, *number, &mut slices))?;
        let parts: [&[u8]; BUFFERS] = std::array::from_fn(|at| &*slices[at]);
        take(Block { number: *number, parts: &parts });
        Ok(time)
    };
    share.blocks.iter().map(one).collect()
}

fn preadv_anew(file: &File, share: &Share, take: &mut Taker<'_>) -> io::Result<Vec<Duration>> {
    let piece = share.block_bytes.div_ceil(BUFFERS);
    let one = |number: &u64| {
        let (buffers, time) = clocked(|| {
            let mut buffers: Vec<Vec<u8>> = (0..BUFFERS).map(|_| vec![0; piece]).collect();
            let mut slices: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            vectored(file, share, *number, &mut slices)?;
            Ok(buffers)
        })?;
        let parts: [&[u8]; BUFFERS] = std::array::from_fn(|at| &*buffers[at]);
        take(Block { number: *number, parts: &parts });
        Ok(time)
    };
    share.blocks.iter().map(one).collect()
}

/// Reads a block with one call and checks its length.
fn vectored(file: &File, share: &Share, number: u64, slices: &mut [IoSliceMut<'_>]) -> io::Result<()> {
    let got = rustix::io::preadv2(file, slices, share.offset(number), ReadWriteFlags::empty())?;
    slices.iter().for_each(|slice| touch(slice));
    if got == share.block_bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Maps the file, reads a share and unmaps the file.
fn mapping(
    file: &File,
    (access, copied): (Access, bool),
    share: &Share,
    take: &mut Taker<'_>,
) -> io::Result<Vec<Duration>> {
    const PAGE_BYTES: usize = 4096;
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let map = FileMap::open_for(file, len, access)?;
    let mut buffer = vec![0; if copied { share.block_bytes } else { 0 }];
    let one = |number: &u64| {
        let at = usize::try_from(share.offset(*number)).map_err(io::Error::other)?;
        let ((), time) = clocked(|| {
            for page in (at..at + share.block_bytes).step_by(PAGE_BYTES) {
                std::hint::black_box(map.read_u32_be(page));
            }
            Ok(())
        })?;
        if copied {
            map.read_bytes(at, &mut buffer);
        }
        take(Block { number: *number, parts: &[&buffer] });
        Ok(time)
    };
    share.blocks.iter().map(one).collect()
}

fn ring(means: &mut RingMeans, share: &Share, take: &mut Taker<'_>) -> io::Result<Vec<Duration>> {
    let RingMeans { ring, at_once, pool, target, caching } = means;
    let mut waiting = share.blocks.iter();
    let (mut under_way, mut times) = (HashMap::new(), Vec::with_capacity(share.blocks.len()));
    loop {
        while let Some(buffer) = pool.take() {
            let Some(number) = waiting.next() else { break };
            let read = Operation::read(target.clone(), share.offset(*number), share.block_bytes, buffer);
            let key = ring.push(read.caching(*caching)).map_err(|full| io::Error::other(full.to_string()))?;
            under_way.insert(key, (*number, Instant::now()));
        }
        if under_way.is_empty() {
            return Ok(times);
        }
        ring.submit_and_wait((*at_once).min(under_way.len()), None)?;
        for completion in ring.reap() {
            let Some((number, since)) = under_way.remove(&completion.key) else { continue };
            let Event::Done { result, memory: Memory::Buffer(buffer) } = completion.event else { continue };
            if result? != share.block_bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            touch(buffer.filled());
            times.push(since.elapsed());
            take(Block { number, parts: &[buffer.filled()] });
        }
    }
}
