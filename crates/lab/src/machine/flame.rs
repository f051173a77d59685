//! Profile of a case: samples of this process. The profiler samples only while a
//! [`Stopwatch`](crate::machine::cpu::Stopwatch) runs, so that the profile covers exactly the
//! measured time.
//!
//! With perf the profile includes the kernel, which uses most of the time of moving bytes. Root
//! sees all of it; other users need `kernel.perf_event_paranoid` at 1 or below. Without perf a
//! timer in this process takes the samples, which then show only user code.

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

/// Number of samples of each item. Items are stacks, as names from the outermost to the innermost,
/// joined by `;`, or system calls.
pub type Seen = BTreeMap<String, u64>;

/// Samples per second; not a round number, so that no periodic work coincides with the samples.
const FREQUENCY: u32 = 997;

/// The only profiler; none if no profile is requested.
static SAMPLER: Mutex<Option<Sampler>> = Mutex::new(None);
/// True if there is a profiler. Without one, a stopwatch only makes this check.
static SAMPLING: AtomicBool = AtomicBool::new(false);

enum Sampler {
    Perf(Perf, TempDir),
    Own(Own),
    /// Counts system calls.
    Calls(Perf, TempDir),
    /// Samples another process all the time, because the stopwatches of this process do not cover
    /// it.
    Other(Perf, TempDir),
}

/// Starts the profiler, with perf if possible. Returns a description of the tool.
///
/// # Errors
/// This process cannot create a temporary directory.
pub fn start() -> Result<&'static str, LabError> {
    let dir = tempfile::tempdir().map_err(LabError::step("cannot make a directory"))?;
    let (sampler, name) = match Perf::sampling(dir.path()) {
        Some(perf) => (Sampler::Perf(perf, dir), "perf"),
        None => (Sampler::Own(Own::default()), "a timer, without the kernel: perf is not available"),
    };
    install(sampler);
    Ok(name)
}

/// Starts to sample another process, which needs perf. Returns a description of the tool, or none
/// if perf is not available or not permitted.
///
/// # Errors
/// This process cannot create the directory of perf's file.
pub fn start_on(pid: u32) -> Result<Option<&'static str>, LabError> {
    let dir = tempfile::tempdir().map_err(LabError::step("cannot make a directory"))?;
    let Some(mut perf) = Perf::sampling_other(dir.path(), pid) else { return Ok(None) };
    perf.enable();
    install(Sampler::Other(perf, dir));
    Ok(Some("perf, in the process of the server; just-in-time code of a virtual machine has no names"))
}

/// Starts to count system calls of this process by tracepoints of the kernel. Returns false if that
/// is not possible: it needs perf, root and the kernel's tracing directory.
///
/// # Errors
/// This process cannot create the directory of perf's file.
pub fn count(calls: &[&str]) -> Result<bool, LabError> {
    let dir = tempfile::tempdir().map_err(LabError::step("cannot make a directory"))?;
    let perf = Perf::counting(dir.path(), calls);
    Ok(perf.map(|perf| install(Sampler::Calls(perf, dir))).is_some())
}

fn install(sampler: Sampler) {
    *SAMPLER.lock() = Some(sampler);
    SAMPLING.store(true, Ordering::Release);
}

/// Stops the profiler and returns the samples.
///
/// # Errors
/// This process cannot read the output of perf.
pub fn finish() -> Result<Seen, LabError> {
    SAMPLING.store(false, Ordering::Release);
    match SAMPLER.lock().take() {
        Some(Sampler::Perf(perf, _dir) | Sampler::Other(perf, _dir)) => perf.sampled(),
        Some(Sampler::Calls(perf, _dir)) => perf.counted(),
        Some(Sampler::Own(own)) => Ok(own.finish()),
        None => Ok(Seen::new()),
    }
}

/// True if the samples of perf include the kernel. Without permission they lack it, and with it
/// most of the time.
pub(crate) fn has_kernel(seen: &Seen) -> bool {
    seen.keys().any(|stack| stack.contains("_[k]"))
}

/// Starts sampling, because a stopwatch starts.
pub(crate) fn open() {
    in_sampler(|sampler| match sampler {
        Sampler::Perf(perf, _) | Sampler::Calls(perf, _) => perf.enable(),
        Sampler::Own(own) => own.enable(),
        Sampler::Other(..) => {}
    });
}

/// Stops sampling, because a stopwatch is read.
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

/// Draws stacks as an SVG document for an `img` element, which uses no style and no script of the
/// page. None if there are no stacks.
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

/// Width in pixels of the picture: that of the report's column, so that the font has its size.
const WIDTH: usize = 872;

#[cfg(test)]
mod tests;
