//! Old records and the page cache: the decision to keep or drop pages that a consumer reads from
//! the disk ([reasons](../../../docs/decisions/2026-11-23-cold-reads.md)).
//!
//! [`Admission`] decides. The state of memory is read when a client reads old records from the
//! disk, at most once a second, on a thread that may block. A broker without such readers never
//! reads it.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use levada_io::Extent;
use levada_io::residency::Warm;
use levada_process::blocking::off_shard;
use parking_lot::Mutex;

use levada_config::ReplayCache;

mod admission;
mod ghosts;
mod kernel;

use self::admission::{Admission, MemoryState, Wanted};
use self::ghosts::FileId;
use self::kernel::Kernel;

pub(crate) use self::admission::Verdict;

/// Time for which an observation of memory is valid.
const FRESH: Duration = Duration::from_secs(1);

/// Size of the read-ahead for an admitted range, so that the disk has enough work.
pub(crate) const AHEAD_BYTES: u64 = 4 << 20;

/// State about readers of old records that the broker's threads share.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    admission: Mutex<Admission>,
    kernel: Mutex<Kernel>,
    /// Time of the last reading of the kernel's figures.
    asked: Mutex<Option<Instant>>,
    admitted: AtomicU64,
    refused: AtomicU64,
    around: AtomicU64,
}

/// Old records that were read from the disk, by outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayStats {
    /// Bytes that may stay in the page cache.
    pub admitted_bytes: u64,
    /// Bytes that may not stay in the page cache.
    pub refused_bytes: u64,
    /// Bytes read without the page cache.
    pub around_bytes: u64,
    /// Bytes that may stay when they are read again.
    pub remembered_bytes: u64,
    /// State of the memory at the last observation; none is true without one.
    pub memory: [(&'static str, bool); 3],
}

impl Replays {
    /// Records a range that was refused, and that the page cache received with another one.
    pub(crate) fn note(&self, extent: &Extent) {
        if let Some(file) = identity(extent) {
            self.admission.lock().note(file, extent.offset, extent.len);
        }
    }

    /// Counts bytes that were read without the page cache.
    pub(crate) fn went_around(&self, bytes: u64) {
        self.around.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> ReplayStats {
        let (level, remembered_bytes) = {
            let admission = self.admission.lock();
            (admission.level(), admission.remembered_bytes())
        };
        let states =
            [("free", MemoryState::Free), ("full", MemoryState::Full), ("stalled", MemoryState::Stalled)];
        ReplayStats {
            admitted_bytes: self.admitted.load(Ordering::Relaxed),
            refused_bytes: self.refused.load(Ordering::Relaxed),
            around_bytes: self.around.load(Ordering::Relaxed),
            remembered_bytes,
            memory: states.map(|(name, state)| (name, level == Some(state))),
        }
    }

    /// Decides if a range of old records that is read from the disk now may stay in the page cache.
    pub(crate) async fn admits(self: &Arc<Self>, warm: &Warm, policy: ReplayCache) -> Verdict {
        if policy == ReplayCache::Auto && self.is_due(Instant::now()) {
            let replays = self.clone();
            off_shard(move || replays.look()).await;
        }
        self.ask(&warm.extent, policy)
    }

    /// True if the caller must read the state of memory again; true for one caller at a time.
    fn is_due(&self, now: Instant) -> bool {
        let mut asked = self.asked.lock();
        let due = asked.is_none_or(|asked| now.saturating_duration_since(asked) >= FRESH);
        *asked = if due { Some(now) } else { *asked };
        due
    }

    /// Reads the memory figures. Blocks.
    fn look(&self) {
        let seen = self.kernel.lock().observe();
        let mut admission = self.admission.lock();
        match seen {
            Some(seen) => admission.observe(&seen),
            None => admission.observe_nothing(),
        }
    }

    fn ask(&self, extent: &Extent, policy: ReplayCache) -> Verdict {
        let verdict = match (policy, identity(extent)) {
            (ReplayCache::Always, _) => Verdict::Admitted,
            (ReplayCache::Never, _) | (_, None) => Verdict::Refused,
            (ReplayCache::Auto, Some(file)) => {
                let Extent { offset, len, .. } = *extent;
                self.admission.lock().ask(&Wanted { file, offset, len, ahead: AHEAD_BYTES })
            }
        };
        let count = if verdict == Verdict::Admitted { &self.admitted } else { &self.refused };
        count.fetch_add(extent.len, Ordering::Relaxed);
        verdict
    }
}

/// A number that identifies a file while it is open.
fn identity(extent: &Extent) -> Option<FileId> {
    extent.file.metadata().ok().map(|file| (file.dev(), file.ino()))
}
