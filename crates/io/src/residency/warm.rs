//! Threads that wait for the disk on behalf of others: they read ranges into the page cache, and
//! drop ranges after use.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::Advice;
use rustix::io::Errno;

use super::{Trail, missing};
use crate::counters::Counters;
use crate::piece::Extent;

/// A range to read into the page cache, and ranges to drop.
#[derive(Debug)]
pub struct Warm {
    /// Range to wait for.
    pub extent: Extent,
    /// Read-ahead without waiting, so that the disk works while the range is sent.
    pub ahead: Vec<Extent>,
    /// Range to drop: read, and no longer needed.
    pub behind: Vec<Extent>,
    /// True if only missing pages are read, and the result [contains](Warmed::brought_in) them.
    pub once: bool,
}

impl Warm {
    /// A request for a range whose pages stay in the cache.
    pub fn of(extent: Extent, ahead: Vec<Extent>) -> Self {
        Self { extent, ahead, behind: Vec::new(), once: false }
    }

    /// A request that only drops pages; `None` without ranges.
    pub fn behind(behind: Vec<Extent>) -> Option<Self> {
        let extent = Extent { len: 0, ..behind.first()?.clone() };
        Some(Self { behind, ..Self::of(extent, Vec::new()) })
    }

    /// The request of a reader that reads once: leaves no more in the cache than its trail allows.
    /// The trail must [follow](Trail::follow) its result.
    #[must_use]
    pub fn once(mut self, trail: &mut Trail) -> Self {
        trail.ask(std::iter::once(&self.extent).chain(&self.ahead).cloned());
        self.behind.extend(trail.ripe());
        self.once = true;
        self
    }
}

/// Outcome of a request.
#[derive(Debug)]
pub struct Warmed {
    /// Number of bytes of its range that are there now: fewer than it has if the file ends before.
    pub there: u64,
    /// Missing pages of the range and of the bytes ahead of it, if the reader reads
    /// [once](Warm::once): the pages that this request has loaded. Empty if the former state is
    /// unknown.
    pub brought_in: Vec<Extent>,
}

/// Nice value of the threads of a [`Warmer`]: on a busy processor they get about a tenth of the
/// time of a thread with the usual priority.
const NICE: i32 = 10;

/// Resources of a [`Warmer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmerLimits {
    /// Threads at most, at least one; each starts when the others are busy.
    pub threads: usize,
    /// Requests at most that wait for a thread.
    pub queued: usize,
}

impl Default for WarmerLimits {
    /// Four threads keep a disk's queue busy; a request is small.
    fn default() -> Self {
        Self { threads: 4, queued: 1024 }
    }
}

/// The queue of a [`Warmer`] is full, or no thread could be started; returns the request.
#[derive(Debug, thiserror::Error)]
#[error("the cold-read queue is full")]
pub struct QueueFull(pub Warm);

/// Threads that bring file ranges into the page cache.
///
/// One for the process; any thread may submit. Requests are served in order, so a reader that has
/// only one at a time is served as often as any other. A request moves no data into the process:
/// pages go to `/dev/null` by reference, and are read into a buffer only where that is not
/// possible.
///
/// Its threads have a low priority (a nice value of 10), because a reader of old data keeps
/// processors busy: threads that send data from memory run first.
///
/// Dropping it drops requests that no thread has begun, without calling back, and does not wait for
/// the others.
pub struct Warmer {
    shared: Arc<Shared>,
}

impl Warmer {
    /// A warmer without threads yet.
    pub fn new(limits: WarmerLimits, counters: Arc<Counters>) -> Self {
        let queue = Queue { jobs: VecDeque::new(), threads: 0, idle: 0, closed: false };
        Self { shared: Arc::new(Shared { limits, counters, queue: Mutex::new(queue), wake: Condvar::new() }) }
    }

    /// Queues a request and returns immediately.
    ///
    /// `done` is called once, on a thread of the warmer. It should pass the result on and return;
    /// while it runs it occupies the thread. It must not panic.
    ///
    /// # Errors
    /// [`QueueFull`] with the request; `done` is dropped.
    pub fn submit(
        &self,
        warm: Warm,
        done: impl FnOnce(io::Result<Warmed>) + Send + 'static,
    ) -> Result<(), QueueFull> {
        let mut queue = self.shared.lock();
        if queue.jobs.len() >= self.shared.limits.queued.max(1) {
            return Err(QueueFull(warm));
        }
        if queue.idle <= queue.jobs.len() && queue.threads < self.shared.limits.threads.max(1) {
            match self.shared.start() {
                Ok(()) => queue.threads += 1,
                Err(_) if queue.threads > 0 => {}
                Err(_) => return Err(QueueFull(warm)),
            }
        }
        queue.jobs.push_back(Job { warm, done: Box::new(done) });
        self.shared.wake.notify_one();
        Ok(())
    }
}

impl Drop for Warmer {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.jobs.clear();
        self.shared.wake.notify_all();
    }
}

impl fmt::Debug for Warmer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.shared.lock();
        let mut text = f.debug_struct("Warmer");
        text.field("limits", &self.shared.limits).field("threads", &queue.threads);
        text.field("queued", &queue.jobs.len()).finish()
    }
}

struct Shared {
    limits: WarmerLimits,
    counters: Arc<Counters>,
    queue: Mutex<Queue>,
    wake: Condvar,
}

struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Number of threads that wait for a job.
    idle: usize,
    closed: bool,
}

struct Job {
    warm: Warm,
    done: Box<dyn FnOnce(io::Result<Warmed>) + Send>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing can panic while it holds this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>) -> io::Result<()> {
        let shared = Arc::clone(self);
        std::thread::Builder::new().name("warmer".to_owned()).spawn(move || shared.serve())?;
        Ok(())
    }

    /// Serves requests until the warmer is dropped.
    fn serve(&self) {
        // On Linux the priority belongs to the thread. Lowering it needs no right.
        let _ = rustix::process::setpriority_process(None, NICE);
        let sink = File::options().write(true).open("/dev/null").ok();
        while let Some(Job { warm, done }) = self.next() {
            for extent in &warm.behind {
                drop_from_cache(extent);
                self.counters.dropped_behind(extent.len);
            }
            // A panic ends neither the thread nor the wait for this job. The panic hook has told of
            // it.
            let outcome = catch_unwind(AssertUnwindSafe(|| serve(&warm, sink.as_ref())))
                .unwrap_or_else(|_| Err(io::Error::other("reading ahead has panicked: report the panic")));
            if let Ok(warmed) = &outcome {
                self.counters.warmed(warmed.there);
            }
            let _ = catch_unwind(AssertUnwindSafe(|| done(outcome)));
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            queue.idle += 1;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

/// Requests all of it first, so that the device gets the whole range together; the following waits
/// only collect.
fn serve(warm: &Warm, sink: Option<&File>) -> io::Result<Warmed> {
    let wanted = || std::iter::once(&warm.extent).chain(&warm.ahead);
    if !warm.once {
        wanted().for_each(ask_for);
        return Ok(Warmed { there: bring_in(&warm.extent, sink)?, brought_in: Vec::new() });
    }
    let brought_in: Vec<Extent> = wanted().filter_map(missing).flatten().collect();
    brought_in.iter().for_each(|extent| ask_for(&without_read_ahead(extent)));
    Ok(Warmed { there: bring_in(&without_read_ahead(&warm.extent), sink)?, brought_in })
}

/// Opens the file of the extent again, without the kernel's read-ahead; returns the extent
/// unchanged if that fails.
fn without_read_ahead(extent: &Extent) -> Extent {
    let path = format!("/proc/self/fd/{}", extent.file.as_raw_fd());
    let opened = File::open(path).and_then(|file| {
        rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
        Ok(Arc::new(file))
    });
    Extent { file: opened.unwrap_or_else(|_| Arc::clone(&extent.file)), ..extent.clone() }
}

/// The kernel limits one request for read-ahead to a value of the device, often this one.
const ADVICE_BYTES: u64 = 128 << 10;

/// Starts to read the range ahead, without waiting.
fn ask_for(extent: &Extent) {
    let mut asked = 0;
    while asked < extent.len {
        let count = NonZeroU64::new(ADVICE_BYTES.min(extent.len - asked));
        let offset = extent.offset.saturating_add(asked);
        if rustix::fs::fadvise(&extent.file, offset, count, Advice::WillNeed).is_err() {
            break;
        }
        asked += ADVICE_BYTES;
    }
}

/// Waits until the range is there; how much of it is.
fn bring_in(extent: &Extent, sink: Option<&File>) -> io::Result<u64> {
    let Extent { file, offset, len } = extent;
    let mut there = 0;
    while there < *len {
        let at = offset.saturating_add(there);
        let count = match sink {
            Some(sink) => {
                by_reference(file, at, len - there, sink).or_else(|_| by_copy(file, at, len - there))
            }
            None => by_copy(file, at, len - there),
        }?;
        if count == 0 {
            break;
        }
        there += count;
    }
    Ok(there)
}

/// Hands pages to `/dev/null`: waits for each, copies none.
fn by_reference(file: &File, offset: u64, len: u64, sink: &File) -> io::Result<u64> {
    let mut at = offset;
    let count = usize::try_from(len.min(STEP_BYTES)).unwrap_or(usize::MAX);
    loop {
        match rustix::fs::sendfile(sink, file, Some(&mut at), count) {
            Ok(count) => return Ok(count as u64),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// One call moves no more than this: the kernel would cap it somewhere above.
const STEP_BYTES: u64 = 64 << 20;
const _: () = assert!(STEP_BYTES.is_multiple_of(ADVICE_BYTES));

/// Reads into a buffer that is not used.
fn by_copy(file: &File, offset: u64, len: u64) -> io::Result<u64> {
    let mut buffer = vec![0; usize::try_from(len.min(ADVICE_BYTES)).unwrap_or(0)];
    loop {
        match file.read_at(&mut buffer, offset) {
            Ok(count) => return Ok(count as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Drops the pages of a range without other references. Dirty pages stay.
fn drop_from_cache(extent: &Extent) {
    let Some(len) = NonZeroU64::new(extent.len) else { return };
    // Advice: a file system that ignores it is within its rights.
    let _ = rustix::fs::fadvise(&extent.file, extent.offset, Some(len), Advice::DontNeed);
}

#[cfg(test)]
mod tests;
