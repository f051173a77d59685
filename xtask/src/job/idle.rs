//! Share of the time in which the machine's processors were idle.

use std::fs;

/// A measurement in progress.
pub(super) struct Idle {
    since: Option<Ticks>,
}

/// Clock ticks of all processors since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    /// Idle, or waiting for a device.
    idle: u64,
    all: u64,
}

impl Idle {
    /// Starts a measurement.
    pub(super) fn new() -> Self {
        Self { since: now() }
    }

    /// The idle share since the last call, or since the beginning; none if the kernel does not
    /// report it, or if no tick has passed.
    pub(super) fn share(&mut self) -> Option<f64> {
        let (now, since) = (now()?, self.since?);
        let all = now.all.checked_sub(since.all).filter(|ticks| *ticks > 0)?;
        self.since = Some(now);
        // Time of waiting for a device may decrease, according to proc(5).
        Some(now.idle.saturating_sub(since.idle) as f64 / all as f64)
    }
}

fn now() -> Option<Ticks> {
    parse(&fs::read_to_string("/proc/stat").ok()?)
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. The
/// time of guests, which follows, is part of user.
fn parse(text: &str) -> Option<Ticks> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    Some(Ticks { idle: ticks.get(3)? + ticks.get(4)?, all: ticks.iter().sum() })
}

#[cfg(test)]
mod tests;
