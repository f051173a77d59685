//! Resources of one thread for its transfers: pipes, a buffer, thresholds and counters.

use std::sync::Arc;

use crate::counters::Counters;
use crate::path::SocketPath;
use crate::pipe::PipePool;
use crate::probe::{Caps, Means};
use crate::sys::sigpipe;
use crate::thresholds::Thresholds;

/// The transfer engine of one thread. Transfers of the same thread share it; [`Counters`] may be
/// shared by all threads.
#[derive(Debug)]
pub struct Engine {
    pub(crate) means: Means,
    pub(crate) thresholds: Thresholds,
    pub(crate) counters: Arc<Counters>,
    pub(crate) pipes: PipePool,
    pub(crate) page_bytes: u64,
    pub(crate) reports_cold: bool,
    pub(crate) forced: Option<SocketPath>,
    /// True if writing to a closed socket would kill the process unless this thread holds the
    /// signal off.
    sigpipe_kills: bool,
    scratch: Vec<u8>,
    sealed: Vec<u8>,
}

impl Engine {
    /// An engine with the default thresholds. It opens pipes and allocates memory on demand.
    ///
    /// Checks once if the process ignores `SIGPIPE`.
    pub fn new(caps: &Caps, counters: Arc<Counters>) -> Self {
        Self::with_thresholds(caps, counters, Thresholds::default())
    }

    /// An engine with thresholds of the caller's.
    pub fn with_thresholds(caps: &Caps, counters: Arc<Counters>, thresholds: Thresholds) -> Self {
        Self {
            means: Means::from(caps),
            thresholds,
            counters,
            pipes: PipePool::new(&thresholds),
            page_bytes: rustix::param::page_size() as u64,
            reports_cold: false,
            forced: None,
            sigpipe_kills: !sigpipe::is_ignored(),
            scratch: Vec::new(),
            sealed: Vec::new(),
        }
    }

    /// True if transfers end their turn with [`Turn::Cold`](crate::Turn::Cold) before pages that
    /// are not in the cache, instead of waiting for the disk; see [`residency`](crate::residency).
    /// Off at first.
    pub fn report_cold(&mut self, report: bool) {
        self.reports_cold = report;
    }

    /// Sends large extents by `sendfile` instead of by `splice`, where the machine has both. On
    /// Linux 6.18 `sendfile` costs less for a range of many turns: the pages that it takes up are
    /// still in the processor's cache when it sends them. `splice` remains the better choice if the
    /// caller has to announce to the socket that more follows.
    pub fn prefer_sendfile(&mut self) {
        self.means.splice &= !self.means.sendfile;
    }

    /// Sends extents by this path independent of their size, as far as it works, instead of the
    /// planned one: for measurements and tests. Bytes from memory and ranges that may change are
    /// not affected.
    pub fn force(&mut self, path: Option<SocketPath>) {
        self.forced = path;
    }

    /// The counters that this engine counts in.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Takes the buffer for copies out of the engine.
    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(self.thresholds.copy_bytes.max(1), 0);
        scratch
    }

    /// Returns the copying buffer to the engine.
    pub(crate) fn return_scratch(&mut self, scratch: Vec<u8>) {
        self.scratch = scratch;
    }

    /// Lends the buffer for encrypted bytes.
    pub(crate) fn take_sealed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sealed)
    }

    /// Returns the buffer of encrypted bytes to the engine.
    pub(crate) fn return_sealed(&mut self, sealed: Vec<u8>) {
        self.sealed = sealed;
    }

    /// Blocks `SIGPIPE` for this thread if the process does not ignore it: `splice` and `sendfile`
    /// have no flag against it.
    pub(crate) fn hold_sigpipe(&self) -> Option<sigpipe::SigpipeGuard> {
        self.sigpipe_kills.then(sigpipe::SigpipeGuard::new)
    }
}
