//! The ways to read blocks of a file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levada_io::buf::BufferPool;
use levada_io::map::FileMap;
use levada_io::ring::{Caching, Event, Memory, Mode, Operation, Ring, RingOptions, Target};
use rustix::io::ReadWriteFlags;

use super::clocked;

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `pread` into one buffer.
    Pread,
    /// `preadv` into so many buffers, which are reused.
    Preadv(usize),
    /// A mapping, touched page by page; copied from if it is to be checked.
    Mapping { copied: bool },
    /// Through a ring.
    Ring(Depth),
}

/// How a ring is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Depth {
    /// Reads under way at a time.
    reads: u16,
    /// File and buffers are registered.
    registered: bool,
    /// A thread of the kernel takes reads up.
    polled: bool,
    /// How the page cache is treated.
    cache: Cache,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    Keep,
    /// `RWF_DONTCACHE`.
    Drop,
    /// `O_DIRECT`.
    Around,
}

/// What one reader reads.
#[derive(Debug, Clone)]
pub(super) struct Share {
    blocks: Vec<u64>,
    block_bytes: usize,
}

/// A block that was read.
pub(super) struct Block<'a> {
    pub(super) number: u64,
    pub(super) bytes: &'a [u8],
}

/// Takes blocks; they come in any order.
pub(super) type Taker<'a> = dyn FnMut(Block<'_>) + 'a;

const RING: Depth = Depth { reads: 1, registered: false, polled: false, cache: Cache::Keep };

impl Share {
    pub(super) fn new(blocks: Vec<u64>, block_bytes: usize) -> Share {
        Share { blocks, block_bytes }
    }

    fn offset(&self, block: u64) -> u64 {
        block * self.block_bytes as u64
    }
}

impl Way {
    /// All of them, the plain one first.
    pub(super) const ALL: [Way; 10] = [
        Way::Pread,
        Way::Preadv(8),
        Way::Mapping { copied: false },
        Way::Ring(RING),
        Way::Ring(Depth { reads: 8, ..RING }),
        Way::Ring(Depth { reads: 32, ..RING }),
        Way::Ring(Depth { reads: 32, registered: true, ..RING }),
        Way::Ring(Depth { reads: 32, registered: true, polled: true, ..RING }),
        Way::Ring(Depth { reads: 32, registered: true, cache: Cache::Drop, ..RING }),
        Way::Ring(Depth { reads: 32, registered: true, cache: Cache::Around, ..RING }),
    ];

    pub(super) fn name(self) -> String {
        match self {
            Way::Pread => "pread".to_owned(),
            Way::Preadv(count) => format!("preadv, {count} pooled buffers"),
            Way::Mapping { .. } => "mmap, no read-ahead".to_owned(),
            Way::Ring(depth) => {
                let registered = if depth.registered { ", registered" } else { "" };
                let polled = if depth.polled { ", SQPOLL" } else { "" };
                let cache = match depth.cache {
                    Cache::Keep => "",
                    Cache::Drop => ", RWF_DONTCACHE",
                    Cache::Around => ", O_DIRECT",
                };
                format!("ring, depth {}{registered}{polled}{cache}", depth.reads)
            }
        }
    }

    /// The same way such that all bytes are seen.
    pub(super) fn checked(self) -> Way {
        match self {
            Way::Mapping { .. } => Way::Mapping { copied: true },
            other => other,
        }
    }

    pub(super) fn needs_ring(self) -> bool {
        matches!(self, Way::Ring(_))
    }

    pub(super) fn drops(self) -> bool {
        matches!(self, Way::Ring(Depth { cache: Cache::Drop, .. }))
    }

    pub(super) fn is_direct(self) -> bool {
        matches!(self, Way::Ring(Depth { cache: Cache::Around, .. }))
    }

    /// Gets ready to read blocks of so many bytes: buffers, mappings and rings are made before the clock starts.
    pub(super) fn ready(self, file: &Arc<File>, block_bytes: usize) -> io::Result<Reader> {
        let means = match self {
            Way::Pread | Way::Preadv(_) => Means::Buffer(touched(block_bytes)),
            Way::Mapping { .. } => {
                let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
                Means::Map(FileMap::open(file, len)?)
            }
            Way::Ring(depth) => Means::Ring(Box::new(RingMeans::new(file, block_bytes, depth)?)),
        };
        Ok(Reader { way: self, file: Arc::clone(file), means })
    }
}

/// A way that is ready.
pub(super) struct Reader {
    way: Way,
    file: Arc<File>,
    means: Means,
}

enum Means {
    Buffer(Vec<u8>),
    Map(FileMap),
    Ring(Box<RingMeans>),
}

struct RingMeans {
    ring: Ring,
    pool: BufferPool,
    target: Target,
    caching: Caching,
}

impl Reader {
    /// Reads a share; how long each block took.
    pub(super) fn read(&mut self, share: &Share, take: &mut Taker<'_>) -> io::Result<Vec<Duration>> {
        match (self.way, &mut self.means) {
            (Way::Preadv(count), Means::Buffer(buffer)) => preadv(&self.file, share, (count, buffer), take),
            (_, Means::Buffer(buffer)) => pread(&self.file, share, buffer, take),
            (way, Means::Map(map)) => mapping(map, share, way == Way::Mapping { copied: true }, take),
            (_, Means::Ring(means)) => ring(means, share, take),
        }
    }
}

impl RingMeans {
    fn new(file: &Arc<File>, block_bytes: usize, depth: Depth) -> io::Result<RingMeans> {
        let mode = if depth.polled { Mode::Polled { idle_ms: 10 } } else { Mode::Deferred };
        let mut ring = Ring::new(&RingOptions { mode, ..RingOptions::default() })?;
        let pool = BufferPool::new(block_bytes, depth.reads)?;
        // Their pages come with the first write.
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
        Ok(RingMeans { ring, pool, target, caching })
    }
}

/// A buffer whose pages are there.
fn touched(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}

/// Looks at a word of each page.
fn touch(bytes: &[u8]) {
    const PAGE_BYTES: usize = 4096;
    bytes.iter().step_by(PAGE_BYTES).for_each(|byte| {
        std::hint::black_box(byte);
    });
}

fn pread(file: &File, share: &Share, buffer: &mut [u8], take: &mut Taker<'_>) -> io::Result<Vec<Duration>> {
    let one = |number: &u64| {
        let ((), time) = clocked(|| {
            file.read_exact_at(buffer, share.offset(*number))?;
            touch(buffer);
            Ok(())
        })?;
        take(Block { number: *number, bytes: buffer });
        Ok(time)
    };
    share.blocks.iter().map(one).collect()
}

fn preadv(
    file: &File,
    share: &Share,
    (count, buffer): (usize, &mut [u8]),
    take: &mut Taker<'_>,
) -> io::Result<Vec<Duration>> {
    let piece = share.block_bytes.div_ceil(count);
    let one = |number: &u64| {
        let (got, time) = clocked(|| {
            let mut slices: Vec<IoSliceMut<'_>> = buffer.chunks_mut(piece).map(IoSliceMut::new).collect();
            let flags = ReadWriteFlags::empty();
            let got = rustix::io::preadv2(file, &mut slices, share.offset(*number), flags)?;
            touch(buffer);
            Ok(got)
        })?;
        if got != share.block_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        take(Block { number: *number, bytes: buffer });
        Ok(time)
    };
    share.blocks.iter().map(one).collect()
}

fn mapping(map: &FileMap, share: &Share, copied: bool, take: &mut Taker<'_>) -> io::Result<Vec<Duration>> {
    const PAGE_BYTES: usize = 4096;
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
        take(Block { number: *number, bytes: &buffer });
        Ok(time)
    };
    share.blocks.iter().map(one).collect()
}

fn ring(means: &mut RingMeans, share: &Share, take: &mut Taker<'_>) -> io::Result<Vec<Duration>> {
    let RingMeans { ring, pool, target, caching } = means;
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
        ring.submit_and_wait(1, None)?;
        for completion in ring.reap() {
            let Some((number, since)) = under_way.remove(&completion.key) else { continue };
            let Event::Done { result, memory: Memory::Buffer(buffer) } = completion.event else { continue };
            if result? != share.block_bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            touch(buffer.filled());
            times.push(since.elapsed());
            take(Block { number, bytes: buffer.filled() });
        }
    }
}
