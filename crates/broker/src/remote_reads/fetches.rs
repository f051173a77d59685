//! The reader threads: each fetches one part at a time into the cache. Parts that a read waits for
//! precede those that are fetched ahead, which use at most half of the threads.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Instant;

use levada_chunks::{CHUNK_BYTES, Cache, ChunkKey, Part};
use levada_process::rate_gate::RateGate;
use levada_remote::{IndexKind, RemoteError, RemoteErrorKind};
use levada_tiered::RemoteSegment;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::RemoteSegments;
use super::fault::RemoteFault;

/// A part of a remote segment.
#[derive(Clone)]
pub(super) struct RemotePart {
    pub(super) segment: Arc<RemoteSegment>,
    pub(super) part: Part,
}

impl RemotePart {
    pub(super) fn key(&self) -> ChunkKey {
        ChunkKey { segment: self.segment.id.id.to_bytes(), part: self.part }
    }
}

/// Bounds of the reader threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchLimits {
    /// Number of fetching threads.
    pub(crate) threads: usize,
    /// Number of parts that may wait for a thread.
    pub(crate) pending_max: usize,
}

/// The fetch of a part that reads wait for.
#[derive(Default)]
pub(super) struct Ticket {
    result: OnceLock<Result<(), RemoteFault>>,
    sleepers: Mutex<Vec<Weak<Notify>>>,
}

impl Ticket {
    fn ended(result: Result<(), RemoteFault>) -> Arc<Self> {
        Arc::new(Self { result: OnceLock::from(result), sleepers: Mutex::default() })
    }

    /// The result, once it is there.
    pub(super) fn result(&self) -> Option<Result<(), RemoteFault>> {
        self.result.get().cloned()
    }

    fn end(&self, result: Result<(), RemoteFault>) {
        // Set once: only the thread that took the part ends it.
        let _ = self.result.set(result);
        let sleepers = std::mem::take(&mut *self.sleepers.lock());
        sleepers.iter().filter_map(Weak::upgrade).for_each(|sleeper| sleeper.notify_one());
    }

    /// True if a read still waits for it.
    fn is_wanted(&self) -> bool {
        self.sleepers.lock().iter().any(|sleeper| sleeper.strong_count() > 0)
    }
}

/// The reader threads and their queue.
pub(super) struct Fetches {
    cache: Arc<Cache<RemoteError>>,
    segments: Arc<dyn RemoteSegments>,
    limits: FetchLimits,
    queue: Mutex<Queue>,
    news: Condvar,
    /// Wakes threads that wait for the rate, when the broker stops.
    stopped: Condvar,
    gate: RateGate,
}

#[derive(Default)]
struct Queue {
    wanted: VecDeque<ChunkKey>,
    ahead: VecDeque<ChunkKey>,
    parts: HashMap<ChunkKey, Queued>,
    threads: usize,
    idle: usize,
    running_ahead: usize,
    is_stopped: bool,
}

struct Queued {
    part: RemotePart,
    ticket: Arc<Ticket>,
    is_running: bool,
}

/// A part that a thread is fetching.
struct Taken {
    part: RemotePart,
    ticket: Arc<Ticket>,
    is_ahead: bool,
}

impl Fetches {
    pub(super) fn new(
        cache: Arc<Cache<RemoteError>>,
        segments: Arc<dyn RemoteSegments>,
        limits: FetchLimits,
    ) -> Self {
        Self {
            cache,
            segments,
            limits,
            queue: Mutex::default(),
            news: Condvar::new(),
            stopped: Condvar::new(),
            gate: RateGate::default(),
        }
    }

    /// Requests the fetch of a part, and wakes the sleeper afterwards. A part that is being fetched
    /// is not fetched again.
    pub(super) fn request(self: &Arc<Self>, part: RemotePart, sleeper: &Arc<Notify>) -> Arc<Ticket> {
        let key = part.key();
        let mut queue = self.queue.lock();
        let waiting = queue.wanted.len();
        if queue.is_stopped || waiting >= self.limits.pending_max {
            sleeper.notify_one();
            let fault = if queue.is_stopped { RemoteFault::Stopping } else { RemoteFault::Busy { waiting } };
            return Ticket::ended(Err(fault));
        }
        let queued = queue.parts.entry(key).or_insert_with(|| Queued::new(part));
        queued.ticket.sleepers.lock().push(Arc::downgrade(sleeper));
        let (ticket, is_running) = (queued.ticket.clone(), queued.is_running);
        if !is_running {
            queue.wanted.push_back(key);
            self.wake(&mut queue);
        }
        ticket
    }

    /// Requests the fetch of a part for which no read waits yet, unless the cache has the part or
    /// threads are scarce.
    pub(super) fn fetch_ahead(self: &Arc<Self>, part: RemotePart) {
        let key = part.key();
        if self.cache.has(key) {
            return;
        }
        let mut queue = self.queue.lock();
        let is_full = queue.ahead.len() >= self.limits.threads;
        if queue.is_stopped || is_full || queue.parts.contains_key(&key) {
            return;
        }
        queue.parts.insert(key, Queued::new(part));
        queue.ahead.push_back(key);
        self.wake(&mut queue);
    }

    /// Ends the threads after their present fetch.
    pub(super) fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.is_stopped = true;
        let waiting: Vec<_> = queue.parts.extract_if(|_, queued| !queued.is_running).collect();
        (queue.wanted, queue.ahead) = Default::default();
        drop(queue);
        waiting.iter().for_each(|(_, queued)| queued.ticket.end(Err(RemoteFault::Stopping)));
        self.news.notify_all();
        self.stopped.notify_all();
    }

    /// Wakes a thread, or starts one.
    fn wake(self: &Arc<Self>, queue: &mut Queue) {
        if queue.idle > 0 || queue.threads >= self.limits.threads {
            self.news.notify_one();
            return;
        }
        let own = self.clone();
        let builder = thread::Builder::new().name(format!("remote-reader-{}", queue.threads));
        match builder.spawn(move || own.run()) {
            Ok(_) => queue.threads += 1,
            Err(error) => {
                tracing::warn!(%error, threads = queue.threads, "cannot start a remote reader thread")
            }
        }
    }

    fn run(&self) {
        while let Some(taken) = self.take() {
            let fetched = catch_unwind(AssertUnwindSafe(|| self.fetch(&taken.part)));
            let mut queue = self.queue.lock();
            queue.parts.remove(&taken.part.key());
            queue.running_ahead -= usize::from(taken.is_ahead);
            drop(queue);
            taken.ticket.end(fetched.unwrap_or_else(|_| Err(RemoteFault::Abandoned(taken.part.key()))));
        }
    }

    /// The next part; none once the threads are to end. Blocks until there is one.
    fn take(&self) -> Option<Taken> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_stopped {
                queue.threads -= 1;
                return None;
            }
            if let Some(taken) = queue.next(self.limits.threads.div_ceil(2)) {
                return Some(taken);
            }
            queue.idle += 1;
            self.news.wait(&mut queue);
            queue.idle -= 1;
        }
    }

    /// Fetches a part into the cache. Blocks on the store, on the local disk, and as long as the
    /// rate of fetches requires; an index does not count.
    fn fetch(&self, part: &RemotePart) -> Result<(), RemoteFault> {
        let (segment, len) = (&part.segment, part_len(part)?);
        if let Some(bytes) = len
            && !self.cache.has(part.key())
        {
            self.pass_gate(bytes)?;
        }
        let chunk = self.cache.obtain(part.key(), len, |into| {
            let store = self.segments.store()?;
            let index = |kind| store.fetch_index(segment, kind);
            let bytes = match part.part {
                Part::Records(number) => {
                    let start = u64::from(number) * CHUNK_BYTES;
                    let range = start..start + len.unwrap_or(0);
                    return store.fetch_log(segment, range, &mut |bytes| into.write_all(bytes));
                }
                Part::Offsets => index(IndexKind::Offset)?,
                Part::Times => index(IndexKind::Time)?,
                Part::Aborted => index(IndexKind::Transaction)?,
            };
            let written = into.write_all(&bytes.unwrap_or_default());
            written.map_err(|error| local(segment, &error))
        });
        chunk?;
        Ok(())
    }

    /// Waits until the rate limit admits the fetch of a part of this size.
    fn pass_gate(&self, bytes: u64) -> Result<(), RemoteFault> {
        loop {
            let wait = self.gate.admit(bytes, self.segments.bytes_per_second(), Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            let mut queue = self.queue.lock();
            if queue.is_stopped {
                return Err(RemoteFault::Stopping);
            }
            self.stopped.wait_for(&mut queue, wait);
        }
    }
}

impl Queue {
    fn next(&mut self, ahead_max: usize) -> Option<Taken> {
        while let Some(key) = self.wanted.pop_front() {
            let Some(queued) = self.parts.get_mut(&key).filter(|queued| !queued.is_running) else { continue };
            if !queued.ticket.is_wanted() {
                // The client has disconnected, or its request came too late.
                self.parts.remove(&key);
                continue;
            }
            queued.is_running = true;
            return Some(Taken { part: queued.part.clone(), ticket: queued.ticket.clone(), is_ahead: false });
        }
        while self.running_ahead < ahead_max {
            let key = self.ahead.pop_front()?;
            let Some(queued) = self.parts.get_mut(&key).filter(|queued| !queued.is_running) else { continue };
            queued.is_running = true;
            self.running_ahead += 1;
            return Some(Taken { part: queued.part.clone(), ticket: queued.ticket.clone(), is_ahead: true });
        }
        None
    }
}

impl Queued {
    fn new(part: RemotePart) -> Self {
        Self { part, ticket: Arc::default(), is_running: false }
    }
}

/// Bytes of a part of the records; none if the part is an index, whose length only the store knows.
fn part_len(part: &RemotePart) -> Result<Option<u64>, RemoteFault> {
    let Part::Records(number) = part.part else { return Ok(None) };
    let size = u64::try_from(part.segment.size).unwrap_or(0);
    let left = size.checked_sub(u64::from(number) * CHUNK_BYTES).filter(|left| *left > 0);
    left.map(|left| Some(left.min(CHUNK_BYTES))).ok_or_else(|| RemoteFault::Damaged {
        segment: part.segment.id.to_string(),
        fault: format!("a batch ends after the size of {size} bytes"),
    })
}

fn local(segment: &RemoteSegment, error: &io::Error) -> RemoteError {
    let operation = format!("cannot keep an index of {}", segment.id);
    RemoteError::new(RemoteErrorKind::Local, operation, error)
}
