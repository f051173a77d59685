//! A directory whose storage refuses records: it is full, read-only or frozen, or the process has
//! no descriptor left. Its logs are read as before. If other brokers may lead, the logs accept no
//! records until the directory has room again; alone, each record may find room.
//!
//! The reserve of a directory is a file that takes space for what frees space: a start, and changes
//! of the metadata. While the reserve is used, the logs accept no records. The directory has room
//! again when the reserve could be made again, with as much room besides.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use levada_log::disk::{is_read_only, is_short};
use levada_log::{FailedWork, LogError};
use levada_process::clock::uptime_ms;

use super::{DataDir, State};

/// Name of the reserve, which no partition has.
const RESERVE: &str = ".levada-reserve";
/// Size of the reserve: this part of the file system, within limits.
const RESERVE_SHARE: u64 = 64;
const RESERVE_BYTES_MIN: u64 = 64 << 10;
const RESERVE_BYTES_MAX: u64 = 4 << 20;

/// Shortest refusal. It doubles up to [`HOLD_MS_MAX`] while refusals follow each other within
/// [`RELAPSE_MS`]: otherwise leaderships would change whenever a little space is free.
const HOLD_MS: i64 = 2_000;
const HOLD_MS_MAX: i64 = 64_000;
const RELAPSE_MS: i64 = 60_000;

/// State of one directory. A machine without clock or disk.
#[derive(Debug, Default)]
pub(super) struct Acceptance {
    refusal: Option<Refusal>,
    /// Time of the end of the last refusal, and how long it had to last.
    last: Option<(i64, i64)>,
    has_reserve: bool,
    /// True while a thread writes the reserve.
    is_probed: bool,
    /// True until the broker has acted on the refusal.
    is_news: bool,
}

#[derive(Debug)]
struct Refusal {
    since_ms: i64,
    hold_ms: i64,
}

impl Acceptance {
    /// Records that the storage has refused a record; true if it accepted records before.
    fn refuse(&mut self, now_ms: i64) -> bool {
        if self.refusal.is_some() {
            return false;
        }
        let relapse = self.last.filter(|(end_ms, _)| now_ms - end_ms < RELAPSE_MS);
        let hold_ms = relapse.map_or(HOLD_MS, |(_, hold_ms)| (2 * hold_ms).min(HOLD_MS_MAX));
        self.refusal = Some(Refusal { since_ms: now_ms, hold_ms });
        (self.has_reserve, self.is_news) = (false, true);
        true
    }

    /// True if a thread is to make the reserve, which then calls [`Acceptance::probed`].
    fn takes_probe(&mut self, now_ms: i64) -> bool {
        let is_due = !self.has_reserve && self.may_end(now_ms) && !self.is_probed;
        self.is_probed |= is_due;
        is_due
    }

    /// Records that the reserve was made, or could not be made; true if this ends a refusal.
    fn probed(&mut self, has_reserve: bool, now_ms: i64) -> bool {
        self.is_probed = false;
        if !has_reserve || !self.may_end(now_ms) {
            return false;
        }
        self.has_reserve = true;
        let ended = self.refusal.take();
        self.last = ended.as_ref().map(|ended| (now_ms, ended.hold_ms)).or(self.last);
        ended.is_some()
    }

    fn may_end(&self, now_ms: i64) -> bool {
        self.refusal.as_ref().is_none_or(|refusal| now_ms - refusal.since_ms >= refusal.hold_ms)
    }
}

impl State {
    /// Refuses records if the error shows that the storage does, and may accept some later.
    pub(super) fn note_refusal(&self, error: &LogError, work: FailedWork) {
        let is_refusal = |source: &io::Error| match work {
            // A file that has reached the largest size says nothing about its directory.
            FailedWork::Append => is_short(source) && source.kind() != io::ErrorKind::FileTooLarge,
            FailedWork::Other => is_read_only(source),
        };
        if error.source_io().is_some_and(is_refusal) {
            self.refuse(&error.to_string(), self.troubles.has_other_brokers);
        }
    }

    fn refuse(&self, cause: &str, has_logs_refuse: bool) {
        let is_new = self.acceptance.lock().refuse(uptime_ms());
        if has_logs_refuse {
            self.refuses.store(true, Ordering::Release);
        }
        if is_new {
            let directory = self.path.display();
            tracing::error!(
                %directory,
                cause,
                "log directory refuses records: free disk space, or remove the cause; fetches continue, and records are \
                 accepted again without a restart"
            );
            self.troubles.refusals.notify_one();
        }
    }
}

impl DataDir {
    /// Refuses records from now on: an append, or work before it, has not returned for long.
    pub(crate) fn refuse(&self, cause: &str) {
        self.state.refuse(cause, true);
    }

    /// True while the directory refuses records.
    pub(crate) fn refuses_records(&self) -> bool {
        self.state.acceptance.lock().refusal.is_some()
    }

    /// Processes an error that refused a change of the metadata.
    pub(crate) fn report_refused(&self, error: &LogError) {
        self.state.report(error, FailedWork::Append);
    }

    /// Removes the reserve if the directory refuses records, for a change of the metadata.
    pub(crate) fn use_reserve(&self) {
        if self.refuses_records() {
            self.state.refuses.store(true, Ordering::Release);
            self.release_reserve();
        }
    }

    /// Removes the reserve for a change that frees space. Housekeeping makes it again.
    pub(super) fn lend_reserve(&self) {
        self.state.acceptance.lock().has_reserve = false;
        self.release_reserve();
    }

    /// True once after the directory has begun to refuse records.
    pub(crate) fn take_refusal(&self) -> bool {
        std::mem::take(&mut self.state.acceptance.lock().is_news)
    }

    /// True if [`DataDir::probe`] is to be called.
    pub(crate) fn takes_probe(&self, now_ms: i64) -> bool {
        let is_in_use = self.is_in_use.load(Ordering::Acquire) && !self.has_failed();
        is_in_use && self.state.acceptance.lock().takes_probe(now_ms)
    }

    /// Writes the reserve; true if the directory accepts records again. Without space for the
    /// reserve it refuses them. Blocks for as long as the storage is frozen.
    pub(crate) fn probe(&self, now_ms: i64) -> bool {
        let made = self.make_reserve();
        let has_reserve = made.is_ok();
        if let Err(source) = made {
            self.state.report(&LogError::io("reserve space in", &self.path, source), FailedWork::Append);
        }
        let accepts = self.state.acceptance.lock().probed(has_reserve, now_ms);
        if accepts {
            self.state.refuses.store(false, Ordering::Release);
            tracing::info!(directory = %self.path.display(), "log directory accepts records again");
        }
        accepts
    }

    /// Removes the reserve, so that its space is free: a start and a stop may need it.
    pub(crate) fn release_reserve(&self) {
        let path = self.reserve();
        if self.disk.len(&path).is_ok()
            && let Err(error) = self.disk.remove(&path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove the reserve of disk space");
        }
    }

    fn make_reserve(&self) -> io::Result<()> {
        self.release_reserve();
        let path = self.reserve();
        let volume = rustix::fs::statvfs(&self.path)?;
        let share = volume.f_blocks.saturating_mul(volume.f_frsize) / RESERVE_SHARE;
        let bytes = share.clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
        let file = self.disk.create(&path)?;
        let made = self.disk.allocate(&file, &path, 0, 2 * bytes);
        let made = made.and_then(|()| self.disk.truncate(&file, &path, bytes));
        made.inspect_err(|_| self.release_reserve())
    }

    fn reserve(&self) -> PathBuf {
        self.path.join(RESERVE)
    }
}

#[cfg(test)]
mod tests;
