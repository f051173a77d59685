//! Profile of a case: stack samples of this process, taken only while a
//! [`Stopwatch`](crate::machine::cpu::Stopwatch) runs, so that the profile covers exactly the
//! measured time.
//!
//! With perf the kernel's side shows, which is where most of the time of moving bytes goes (all of
//! it for root; others need `kernel.perf_event_paranoid` at 1 or below). Without perf we sample
//! ourselves, and see our own side alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use inferno::flamegraph::{self, Options};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::error::LabError;

mod own;
mod perf;

use self::own::Own;
use self::perf::Perf;

/// Number of samples of each item: stacks, each as names from the outermost to the innermost,
/// joined by `;`; or system calls.
pub type Seen = BTreeMap<String, u64>;

/// Samples per second; not a round number, so that no periodic work coincides with it.
const FREQUENCY: u32 = 997;

/// Profiler; one at a time.
static SAMPLER: Mutex<Option<Sampler>> = Mutex::new(None);
/// True if there is one; a stopwatch without one does only this check.
static SAMPLING: AtomicBool = AtomicBool::new(false);

enum Sampler {
    Perf(Perf, TempDir),
    Own(Own),
    /// Counts system calls.
    Calls(Perf, TempDir),
    /// Samples another process all the time: our stopwatches do not cover it.
    Other(Perf, TempDir),
}

/// Begins to sample, with perf if possible; returns the method.
///
/// # Errors Neither perf nor a timer is available.
pub fn start() -> Result<&'static str, LabError> {
    let dir = tempfile::tempdir().map_err(LabError::step("cannot make a directory"))?;
    let (sampler, name) = match Perf::sampling(dir.path()) {
        Some(perf) => (Sampler::Perf(perf, dir), "perf"),
        None => (Sampler::Own(Own::default()), "own samples, without the kernel: perf is not available"),
    };
    install(sampler);
    Ok(name)
}

/// Begins to sample another process, which needs perf; returns the method, or none if it cannot.
///
/// # Errors
/// There is no room for perf's file.
pub fn start_on(pid: u32) -> Result<Option<&'static str>, LabError> {
    let dir = tempfile::tempdir().map_err(LabError::step("cannot make a directory"))?;
    let Some(mut perf) = Perf::sampling_other(dir.path(), pid) else { return Ok(None) };
    perf.enable();
    install(Sampler::Other(perf, dir));
    Ok(Some("perf, in the process of the server; code that a virtual machine has made has no names"))
}

/// Begins to count system calls of this process instead, by the kernel's own tracepoints; whether
/// that can be done: it takes perf, root and the kernel's tracing directory.
///
/// # Errors
/// There is no room for perf's file.
pub fn count(calls: &[&str]) -> Result<bool, LabError> {
    let dir = tempfile::tempdir().map_err(LabError::step("cannot make a directory"))?;
    let perf = Perf::counting(dir.path(), calls);
    Ok(perf.map(|perf| install(Sampler::Calls(perf, dir))).is_some())
}

fn install(sampler: Sampler) {
    *SAMPLER.lock() = Some(sampler);
    SAMPLING.store(true, Ordering::Release);
}

/// Ends, and returns the samples.
///
/// # Errors
/// The output of perf cannot be read.
pub fn finish() -> Result<Seen, LabError> {
    SAMPLING.store(false, Ordering::Release);
    match SAMPLER.lock().take() {
        Some(Sampler::Perf(perf, _dir) | Sampler::Other(perf, _dir)) => perf.sampled(),
        Some(Sampler::Calls(perf, _dir)) => perf.counted(),
        Some(Sampler::Own(own)) => Ok(own.finish()),
        None => Ok(Seen::new()),
    }
}

/// True if the kernel's calls are among what perf saw: where perf may not look into it they are
/// missing, and with them most of the time.
pub(crate) fn has_kernel(seen: &Seen) -> bool {
    seen.keys().any(|stack| stack.contains("_[k]"))
}

/// A stopwatch starts.
pub(crate) fn open() {
    in_sampler(|sampler| match sampler {
        Sampler::Perf(perf, _) | Sampler::Calls(perf, _) => perf.enable(),
        Sampler::Own(own) => own.enable(),
        Sampler::Other(..) => {}
    });
}

/// A stopwatch is read.
pub(crate) fn close() {
    in_sampler(|sampler| match sampler {
        Sampler::Perf(perf, _) | Sampler::Calls(perf, _) => perf.disable(),
        Sampler::Own(own) => own.disable(),
        Sampler::Other(..) => {}
    });
}

fn in_sampler(act: impl FnOnce(&mut Sampler)) {
    if SAMPLING.load(Ordering::Acquire)
        && let Some(sampler) = SAMPLER.lock().as_mut()
    {
        act(sampler);
    }
}

/// The picture of stacks, as an SVG document for an `img`: its style and its empty script are its
/// own, and not those of a page. Nothing if there are none.
pub fn draw(stacks: &Seen) -> Option<String> {
    let lines: Vec<String> = stacks.iter().map(|(stack, count)| format!("{stack} {count}")).collect();
    let mut options = Options::default();
    options.no_javascript = true;
    options.title.clear();
    options.font_size = 11;
    options.image_width = Some(WIDTH);
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg).ok()?;
    String::from_utf8(svg).ok()
}

/// Of a picture: that of the report's column, so that its letters have their size.
const WIDTH: usize = 872;

#[cfg(test)]
mod tests;
