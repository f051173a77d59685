//! Rate limit of audit entries that clients can cause repeatedly: each origin has a burst, then one
//! entry per second. Omitted entries are counted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Number of entries in a burst of one origin.
const BURST: u32 = 100;

/// Interval after which one more entry is written.
const EVERY: Duration = Duration::from_secs(1);

/// Maximum number of origins that are counted separately; further ones share a counter.
const ORIGINS_MAX: usize = 1024;

/// The kind of an entry, and the client that causes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuditOrigin {
    /// Kind of the event.
    pub event: &'static str,
    /// The principal, if it is known; it is cut to 256 bytes.
    pub principal: Option<String>,
    /// The address; none for origins that share a counter.
    pub host: Option<String>,
}

impl AuditOrigin {
    /// Maximum length of the stored part of a principal, bytes.
    const PRINCIPAL_BYTES_MAX: usize = 256;

    /// Origin for a user, from any address: for failed passwords or proofs.
    pub fn of_user(event: &'static str, principal: &str) -> Self {
        Self { host: None, ..Self::new(event, Some(principal), "") }
    }

    /// An attempt of this principal, if it has one, from this address.
    pub fn new(event: &'static str, principal: Option<&str>, host: &str) -> Self {
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
pub struct Repeats(HashMap<AuditOrigin, Pace>);

#[derive(Debug)]
struct Pace {
    /// Time at which the entries written so far no longer count.
    until: Instant,
    left_out: u64,
}

impl Pace {
    fn begun(now: Instant) -> Self {
        Self { until: now, left_out: 0 }
    }

    /// True if an entry may be written now.
    fn admits(&mut self, now: Instant) -> bool {
        let until = self.until.max(now);
        let is_free = until.duration_since(now) <= EVERY * (BURST - 1);
        if is_free {
            self.until = until + EVERY;
        }
        is_free
    }
}

impl Repeats {
    /// True if an entry is to be written; otherwise it is counted.
    pub fn admit(&mut self, origin: AuditOrigin, now: Instant) -> bool {
        let pace = self.pace(origin, now);
        let is_admitted = pace.admits(now);
        pace.left_out += u64::from(!is_admitted);
        is_admitted
    }

    /// Like `admit`, for an entry with two origins: it is written if one of them permits it,
    /// otherwise counted for the second. The second has its own limit, whatever the number of
    /// origins.
    pub fn admit_either(&mut self, (first, second): (AuditOrigin, AuditOrigin), now: Instant) -> bool {
        if self.pace(first, now).admits(now) {
            return true;
        }
        let pace = self.0.entry(second).or_insert(Pace::begun(now));
        let is_admitted = pace.admits(now);
        pace.left_out += u64::from(!is_admitted);
        is_admitted
    }

    /// The pace of an origin, which shares one with others while too many are counted.
    fn pace(&mut self, origin: AuditOrigin, now: Instant) -> &mut Pace {
        let is_new = !self.0.contains_key(&origin);
        if is_new && self.0.len() >= ORIGINS_MAX {
            self.0.retain(|_, pace| pace.until > now || pace.left_out > 0);
        }
        let origin = if is_new && self.0.len() >= ORIGINS_MAX {
            AuditOrigin { principal: None, host: None, ..origin }
        } else {
            origin
        };
        self.0.entry(origin).or_insert(Pace::begun(now))
    }

    /// The origins with omitted entries since the last call, and their numbers. Origins without
    /// recent entries are dropped.
    pub fn left_out(&mut self, now: Instant) -> Vec<(AuditOrigin, u64)> {
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
