//! Counts of requests and connections, shared by all shards.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

/// Plain counters; each is exact, but they are not read at one instant.
#[derive(Debug, Default)]
pub struct Stats {
    opened: AtomicU64,
    closed: AtomicU64,
    rejected: AtomicU64,
    /// Number of responses by the first digit of the status.
    answers: [AtomicU64; 6],
    sent_bytes: AtomicU64,
    cut: AtomicU64,
    log_lines_dropped: AtomicU64,
}

/// A connection, counted as open until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<'a>(&'a Stats);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Stats {
    pub(crate) fn connection(&self) -> Counted<'_> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }

    pub(crate) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self, status: StatusCode) {
        self.answers[usize::from(status.as_u16() / 100).min(5)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn log_lines_dropped(&self, lines: u64) {
        self.log_lines_dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Connections accepted so far, and how many of them have ended.
    #[must_use]
    pub fn connections(&self) -> (u64, u64) {
        let closed = self.closed.load(Ordering::Relaxed);
        (self.opened.load(Ordering::Relaxed), closed)
    }

    /// Connections closed immediately because their address had too many connections.
    #[must_use]
    pub fn connections_rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Responses by class of status, without `1xx`.
    #[must_use]
    pub fn answers(&self) -> [(&'static str, u64); 4] {
        let of = |class: usize| self.answers[class].load(Ordering::Relaxed);
        [("2xx", of(2)), ("3xx", of(3)), ("4xx", of(4)), ("5xx", of(5))]
    }

    /// Bytes of responses that sockets accepted, heads included, before any encryption.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Responses that were aborted because their file changed or could not be read.
    #[must_use]
    pub fn responses_truncated(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Lines of the access log that were lost because the disk was too slow.
    #[must_use]
    pub fn log_lines_dropped_total(&self) -> u64 {
        self.log_lines_dropped.load(Ordering::Relaxed)
    }
}
