//! Rate limit of audit entries that clients can cause repeatedly: each origin has a burst, then one
//! entry per second. Omitted entries are counted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Entries at once of one origin.
const BURST: u32 = 100;

/// The time that brings one more.
const EVERY: Duration = Duration::from_secs(1);

/// Maximum number of origins that are counted separately; further ones share a counter.
const ORIGINS_MAX: usize = 1024;

/// The kind of an entry, and the client that causes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AuditOrigin {
    /// The kind.
    pub(crate) event: &'static str,
    /// The principal, if it is known; it is cut to 256 bytes.
    pub(crate) principal: Option<String>,
    /// The address; none for origins that share a counter.
    pub(crate) host: Option<String>,
}

impl AuditOrigin {
    /// Maximum length of the stored part of a principal, bytes.
    const PRINCIPAL_BYTES_MAX: usize = 256;

    pub(crate) fn new(event: &'static str, principal: Option<&str>, host: &str) -> Self {
        let cut = |name: &str| {
            let ends = name.char_indices().map(|(at, one)| at + one.len_utf8());
            let end = ends.take_while(|end| *end <= Self::PRINCIPAL_BYTES_MAX).last();
            name[..end.unwrap_or(0)].to_owned()
        };
        Self { event, principal: principal.map(cut), host: Some(host.to_owned()) }
    }
}

/// The origins of the last entries.
#[derive(Debug, Default)]
pub(crate) struct Repeats(HashMap<AuditOrigin, Pace>);

#[derive(Debug)]
struct Pace {
    /// Time at which the entries written so far no longer count.
    until: Instant,
    left_out: u64,
}

impl Repeats {
    /// True if an entry is to be written; otherwise it is counted.
    pub(crate) fn admit(&mut self, origin: AuditOrigin, now: Instant) -> bool {
        let is_new = !self.0.contains_key(&origin);
        let origin = if is_new && self.0.len() >= ORIGINS_MAX {
            AuditOrigin { principal: None, host: None, ..origin }
        } else {
            origin
        };
        let pace = self.0.entry(origin).or_insert(Pace { until: now, left_out: 0 });
        let until = pace.until.max(now);
        if until.duration_since(now) > EVERY * (BURST - 1) {
            pace.left_out += 1;
            return false;
        }
        pace.until = until + EVERY;
        true
    }

    /// The origins with omitted entries since the last call, and their numbers. Origins without
    /// recent entries are dropped.
    pub(crate) fn left_out(&mut self, now: Instant) -> Vec<(AuditOrigin, u64)> {
        let counted = |(origin, pace): (&AuditOrigin, &mut Pace)| {
            let count = std::mem::take(&mut pace.left_out);
            (count > 0).then(|| (origin.clone(), count))
        };
        let counts = self.0.iter_mut().filter_map(counted).collect();
        self.0.retain(|_, pace| pace.until > now);
        if self.0.is_empty() {
            self.0.shrink_to_fit();
        }
        counts
    }
}

#[cfg(test)]
mod tests;
