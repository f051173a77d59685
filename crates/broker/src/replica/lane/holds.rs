//! Records how long threads hold writers. Each thread also notes the time since which it has held
//! one, so that a search for holds that do not end costs in proportion to threads, not to
//! partitions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use levada_process::blocking::may_wait;
use parking_lot::Mutex;

use super::{AppendLane, Work};

/// Origin of moments. A moment is a number of nanoseconds that is not 0.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// For each thread that has held a writer, the time at which it began, ns; 0 while it holds none.
static THREADS: Mutex<Vec<Weak<AtomicU64>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: Arc<AtomicU64> = {
        let own = Arc::default();
        THREADS.lock().push(Arc::downgrade(&own));
        own
    };
}

/// Measures the time for which a thread holds the writer.
pub(super) struct WriterHold<'a> {
    lane: &'a AppendLane,
    work: Work,
    begun: Instant,
    /// True if this hold is not inside another one.
    is_outer: bool,
}

impl WriterHold<'_> {
    pub(super) fn begin(lane: &AppendLane, work: Work) -> WriterHold<'_> {
        debug_assert!(may_wait(), "a thread that never waits for a disk waits for a writer");
        let begun = Instant::now();
        let moment_ns = nanos(begun.saturating_duration_since(*ORIGIN)).max(1);
        lane.held_since_ns.store(moment_ns, Ordering::Relaxed);
        let is_outer = OWN.with(|own| {
            let is_outer = own.load(Ordering::Relaxed) == 0;
            if is_outer {
                own.store(moment_ns, Ordering::Relaxed);
            }
            is_outer
        });
        WriterHold { lane, work, begun, is_outer }
    }
}

impl Drop for WriterHold<'_> {
    fn drop(&mut self) {
        let (took_ns, longest_ns) =
            (nanos(self.begun.elapsed()), &self.lane.longest_turns_ns[self.work as usize]);
        // Nearly always there is nothing to write, and the cache line stays shared.
        if took_ns > longest_ns.load(Ordering::Relaxed) {
            longest_ns.fetch_max(took_ns, Ordering::Relaxed);
        }
        self.lane.held_since_ns.store(0, Ordering::Relaxed);
        if self.is_outer {
            OWN.with(|own| own.store(0, Ordering::Relaxed));
        }
    }
}

/// True if some thread of the process has held a writer for this time. Does not wait for it.
pub(in crate::replica) fn last_for(time: Duration) -> bool {
    let mut is_any = false;
    THREADS.lock().retain(|thread| {
        let thread = thread.upgrade();
        let held = thread.as_ref().and_then(|since| time_since(since.load(Ordering::Relaxed)));
        is_any |= held.is_some_and(|held| held >= time);
        thread.is_some()
    });
    is_any
}

/// Time since a moment; none since 0.
pub(super) fn time_since(moment_ns: u64) -> Option<Duration> {
    (moment_ns > 0).then(|| ORIGIN.elapsed().saturating_sub(Duration::from_nanos(moment_ns)))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
