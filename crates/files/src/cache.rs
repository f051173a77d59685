//! The open files of one shard, by path: bounded in number and in bytes, and checked on every use.
//!
//! Each request checks the state of the file (`fstat`), so that a write, a rename over it or its
//! removal is noticed immediately; the path is looked up again a second after the last look-up,
//! which detects directories and links that were exchanged above it.

use std::cell::{Cell, RefCell};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use lru::LruCache;

use crate::entry::{Entry, Resource};

/// Time for which the resolution of a path is cached.
const LOOKUP_AGE: Duration = Duration::from_secs(1);

/// Time without a request after which a file is closed: it may have been removed, and keeps its
/// blocks while it is open.
const IDLE_AGE: Duration = Duration::from_secs(20);

/// Bytes of small files that one shard keeps.
const BODY_BYTES_MAX: u64 = 16 << 20;

/// The cache of one shard.
#[derive(Debug)]
pub(crate) struct Cache {
    files: RefCell<LruCache<Box<[u8]>, Rc<Resource>>>,
    /// Bytes of small files that entries keep, also entries that have left the cache.
    body_bytes: Rc<Cell<u64>>,
}

/// Cached state of a path.
#[derive(Debug)]
pub(crate) enum Known {
    /// The file in its present state.
    Current(Rc<Resource>),
    /// A file that must be looked up again.
    Stale(Rc<Resource>),
    /// No file exists at the path.
    Nothing,
}

impl Cache {
    /// A cache of at most this number of files.
    pub(crate) fn new(files_max: usize) -> Self {
        let most = NonZeroUsize::new(files_max).unwrap_or(NonZeroUsize::MIN);
        Self { files: RefCell::new(LruCache::new(most)), body_bytes: Rc::default() }
    }

    /// Cached state of a path at the time `now`.
    pub(crate) fn look(&self, key: &[u8], now: Instant) -> Known {
        let Some(resource) = self.files.borrow_mut().get(key).cloned() else { return Known::Nothing };
        resource.used.set(now);
        let fresh = now.saturating_duration_since(resource.looked_up.get()) < LOOKUP_AGE;
        if fresh && resource.plain.is_current() { Known::Current(resource) } else { Known::Stale(resource) }
    }

    /// Keeps a file under its path.
    pub(crate) fn insert(&self, key: &[u8], resource: Rc<Resource>) {
        self.files.borrow_mut().put(key.into(), resource);
    }

    /// Removes a path.
    pub(crate) fn remove(&self, key: &[u8]) {
        self.files.borrow_mut().pop(key);
    }

    /// Removes everything.
    pub(crate) fn clear(&self) {
        self.files.borrow_mut().clear();
    }

    /// Closes files without a recent request.
    pub(crate) fn sweep(&self, now: Instant) {
        let mut files = self.files.borrow_mut();
        while let Some((_, oldest)) = files.peek_lru()
            && now.saturating_duration_since(oldest.used.get()) >= IDLE_AGE
        {
            files.pop_lru();
        }
    }

    /// Keeps the bytes of a small file, if the limit permits.
    pub(crate) fn keep_body(&self, entry: &Entry, bytes: &Bytes, now: SystemTime) {
        if self.body_bytes.get() + bytes.len() as u64 <= BODY_BYTES_MAX {
            entry.keep(bytes, &self.body_bytes, now);
        }
    }
}
