//! Samples by a timer in this process.

use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use super::{FREQUENCY, Seen};

/// A timer that runs while a stopwatch runs.
#[derive(Default)]
pub(super) struct Own {
    running: Option<ProfilerGuard<'static>>,
    seen: Seen,
}

impl Own {
    pub(super) fn enable(&mut self) {
        let frequency = i32::try_from(FREQUENCY).unwrap_or(i32::MAX);
        self.running = ProfilerGuardBuilder::default().frequency(frequency).build().ok();
    }

    pub(super) fn disable(&mut self) {
        let Some(report) = self.running.take().and_then(|guard| guard.report().build().ok()) else { return };
        for (frames, count) in &report.data {
            let names = frames.frames.iter().rev().flatten().map(|symbol| symbol.name());
            let stack = names.collect::<Vec<_>>().join(";");
            *self.seen.entry(stack).or_default() += u64::try_from(*count).unwrap_or(0);
        }
    }

    pub(super) fn finish(mut self) -> Seen {
        self.disable();
        self.seen
    }
}
