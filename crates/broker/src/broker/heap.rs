//! Memory that the broker has freed and that the allocator keeps.

use std::sync::atomic::{AtomicI64, Ordering};

use levada_process::usage::own_bytes;

/// Memory of the process below which none is returned to the kernel, bytes.
const LITTLE: u64 = 256 << 20;
/// Time between two attempts, and the longest time after attempts without a result. A shard that
/// allocates during an attempt may wait for 0.2 s.
const PAUSE_MS: i64 = 5 * 60_000;
const PAUSE_MAX_MS: i64 = 60 * 60_000;

/// Returns freed memory to the kernel, if there is much of it: after many members, sessions or
/// requests with large texts have ended, the pages of the allocator would otherwise stay.
#[derive(Debug, Default)]
pub(super) struct Heap {
    /// Time of the next attempt, ms of the monotonic clock.
    next_ms: AtomicI64,
    pause_ms: AtomicI64,
}

impl Heap {
    /// Returns free memory to the kernel if the interval since the last attempt has passed. Blocks
    /// for up to 0.2 s.
    pub(super) fn give_back(&self, now_ms: i64) {
        if now_ms < self.next_ms.load(Ordering::Relaxed) {
            return;
        }
        let before = own_bytes().unwrap_or(0);
        let after = if before < LITTLE {
            0
        } else {
            levada_io::trim_heap();
            own_bytes().unwrap_or(0)
        };
        self.ended(now_ms, (before, after));
    }

    /// Sets the time of the next attempt, by the memory before and after this one.
    fn ended(&self, now_ms: i64, (before, after): (u64, u64)) {
        let is_worth_it = after <= before - before / 10;
        let longer = self.pause_ms.load(Ordering::Relaxed).saturating_mul(2);
        let pause_ms = if is_worth_it { PAUSE_MS } else { longer.clamp(PAUSE_MS, PAUSE_MAX_MS) };
        self.pause_ms.store(pause_ms, Ordering::Relaxed);
        self.next_ms.store(now_ms.saturating_add(pause_ms), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! Times of the attempts.

    use super::*;

    #[test]
    fn heap_trims_without_effect_become_rare() {
        let (heap, mut now) = (Heap::default(), 0);
        let mut pause = |before: u64, after: u64| {
            heap.ended(now, (before, after));
            let pause = heap.next_ms.load(Ordering::Relaxed) - now;
            now += pause;
            pause / PAUSE_MS
        };
        assert_eq!(pause(LITTLE, 0), 1);
        let kept: Vec<i64> = (0..6).map(|_| pause(10 * LITTLE, 10 * LITTLE)).collect();
        assert_eq!(kept, [2, 4, 8, 12, 12, 12]);
        assert_eq!(pause(10 * LITTLE, LITTLE), 1);
        assert_eq!(pause(0, 0), 1, "a kernel that reports nothing");
    }
}
