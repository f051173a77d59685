//! The cold lane of a shard: reads ranges that are read once from the disk through the shard's
//! ring, around the page cache.
//!
//! They will not be read again soon, so their pages would only evict others, and creating and
//! dropping pages costs more than the reads
//! ([measured](../../../../docs/decisions/2026-11-23-cold-reads.md)). Memory is bounded: buffers
//! that a slow consumer holds are not available, and then the broker's
//! [`Warmer`](levada_io::residency::Warmer) loads ranges, as it does if no ring is allowed. The
//! ring and its buffers exist from the first read on: the kernel pins them, and an idle broker
//! needs none of the 4 MiB.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use levada_io::buf::BufferPool;
use levada_io::inflow::{Inflow, InflowOptions};
use levada_io::ring::{Completion, Key, Ring, RingOptions};
use levada_io::{Caps, Counters, Extent, MemoryPiece, Path, Thresholds};
use rustix::fs::OFlags;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Four of these are one window of a transfer.
const BUFFER_BYTES: usize = 256 << 10;
const _: () = assert!(4 * BUFFER_BYTES as u64 == Thresholds::DEFAULT.cold_window_bytes);
const _: () = assert!((BUFFER_BYTES as u64).is_multiple_of(ALIGNMENT));

/// Maximum memory of a shard for all its cold readers: 4 MiB.
const BUFFERS: u16 = 16;

/// Alignment of direct reads; sufficient for all common devices.
const ALIGNMENT: u64 = 4096;

pub(crate) struct ColdLane {
    is_allowed: bool,
    counters: Arc<Counters>,
    /// The ring, opened by the first read; contains `None` if the kernel refused it.
    open: OnceCell<Option<Rc<OpenLane>>>,
}

struct OpenLane {
    ring: RefCell<Ring>,
    /// Notifies the runtime of completions.
    wakeups: AsyncFd<OwnedFd>,
    pool: BufferPool,
    waiting: RefCell<HashMap<Key, Rc<Reader>>>,
    counters: Arc<Counters>,
}

/// One range that a connection waits for.
#[derive(Default)]
struct Reader {
    completed: RefCell<Vec<Completion>>,
    there: Notify,
}

impl ColdLane {
    /// The cold lane of one shard.
    pub(crate) fn new(caps: &Caps, counters: Arc<Counters>) -> Self {
        Self { is_allowed: Path::UringRead.works(caps), counters, open: OnceCell::new() }
    }

    /// Reads a range, or its beginning as far as buffers are free; `None` if the range must be
    /// loaded in another way. The bytes keep their buffers. Called from local tasks of the shard's
    /// thread.
    pub(crate) async fn read(&self, extent: &Extent) -> Option<Vec<Bytes>> {
        self.open()?.read(extent).await
    }

    fn open(&self) -> Option<&Rc<OpenLane>> {
        let open = || {
            let lane = OpenLane::new(self.counters.clone());
            let lane =
                lane.inspect_err(|error| tracing::debug!(%error, "cannot use io_uring for cold reads"));
            let lane = Rc::new(lane.ok()?);
            let served = lane.clone();
            // The task ends with the other tasks of the shard.
            tokio::task::spawn_local(async move { served.serve().await });
            Some(lane)
        };
        if !self.is_allowed {
            return None;
        }
        self.open.get_or_init(open).as_ref()
    }
}

impl OpenLane {
    /// Opens the lane; the shard's runtime watches the ring.
    fn new(counters: Arc<Counters>) -> io::Result<Self> {
        let in_flight = u32::from(BUFFERS);
        let mut ring = Ring::new(&RingOptions { entries: in_flight, in_flight, ..RingOptions::default() })?;
        let pool = BufferPool::new(BUFFER_BYTES, BUFFERS)?;
        if let Err(error) = ring.register_buffers(&pool) {
            tracing::debug!(%error, "cannot register the buffers for cold reads; each read pins its buffer");
        }
        let wakeups = watched(ring.wakeups()?)?;
        let (ring, waiting) = (RefCell::new(ring), RefCell::default());
        Ok(Self { ring, wakeups, pool, waiting, counters })
    }

    /// Hands completions to their waiters while it is polled.
    async fn serve(&self) {
        while let Ok(mut ready) = self.wakeups.readable().await {
            // Before taking the completions: later ones wake the task again.
            ready.clear_ready();
            self.hand_out();
        }
    }

    fn hand_out(&self) {
        let completions = self.ring.borrow_mut().reap();
        for completion in completions {
            if let Some(reader) = self.waiting.borrow_mut().remove(&completion.key) {
                reader.completed.borrow_mut().push(completion);
                reader.there.notify_one();
            }
        }
    }

    async fn read(&self, extent: &Extent) -> Option<Vec<Bytes>> {
        let direct = Extent { file: Arc::new(opened_directly(&extent.file).ok()?), ..extent.clone() };
        let access =
            InflowOptions { alignment: ALIGNMENT, depth: usize::from(BUFFERS), ..InflowOptions::default() };
        let mut inflow = Inflow::new([direct], access);
        let reader = Rc::new(Reader::default());
        let (mut bytes, mut under_way) = (Vec::new(), 0_usize);
        while !inflow.is_done() {
            let keys = inflow.submit(&mut self.ring.borrow_mut(), &self.pool);
            under_way += keys.len();
            self.waiting.borrow_mut().extend(keys.into_iter().map(|key| (key, Rc::clone(&reader))));
            if under_way == 0 {
                // All buffers are in use, some of them perhaps for these very bytes.
                break;
            }
            self.ring.borrow_mut().submit().ok()?;
            // An operation that completes during its submission wakes no task.
            self.hand_out();
            reader.there.notified().await;
            for completion in reader.completed.take() {
                under_way -= 1;
                // The other way reports an error of the file better.
                inflow.take_in(completion, &self.counters).ok()?;
            }
            bytes.extend(std::iter::from_fn(|| inflow.next_piece()).map(MemoryPiece::into_bytes));
        }
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// A descriptor that the runtime watches.
#[expect(
    deprecated,
    reason = "what follows it is unsafe to call; an owned descriptor is always the same one, as both want"
)]
fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}

/// Opens the file again, for direct reads. Opens it by its descriptor, because its name may refer
/// to another file by now.
fn opened_directly(file: &File) -> io::Result<File> {
    let flags = i32::try_from(OFlags::DIRECT.bits()).map_err(io::Error::other)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests;
