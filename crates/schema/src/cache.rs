//! Schemas that were read, by id: a bounded number of them and of bytes.
//!
//! A schema of an id never changes. The reason why there is none is kept for a while only.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::frame::SchemaId;
use crate::known::{Fault, Known};

/// Maximum number of schemas that are kept, of all kinds.
const ENTRIES_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");
/// Bytes of their texts.
const TEXT_BYTES_MAX: usize = 8 << 20;
/// Time for which the registry gets no request for a schema that it lacks.
const MISSING: Duration = Duration::from_secs(30);
/// Time for which the registry gets no request after it has not responded.
const OUTAGE: Duration = Duration::from_secs(10);

/// The schema of an id, or the reason why there is none and its end.
type Entry = Result<Arc<Known>, (Arc<Fault>, Instant)>;

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: LruCache<SchemaId, Entry>,
    text_bytes: usize,
    /// The last outage of the registry and its end for this cache.
    outage: Option<(Arc<Fault>, Instant)>,
}

impl Default for Cache {
    fn default() -> Self {
        Self { entries: LruCache::new(ENTRIES_MAX), text_bytes: 0, outage: None }
    }
}

impl Cache {
    /// The schema of an id, or the reason why it is not requested now; none if it must be
    /// requested.
    pub(crate) fn find(&mut self, id: SchemaId, now: Instant) -> Option<Result<Arc<Known>, Arc<Fault>>> {
        match self.entries.get(&id) {
            Some(Ok(known)) => return Some(Ok(known.clone())),
            Some(Err((fault, until))) if now < *until => return Some(Err(fault.clone())),
            _ => {}
        }
        let (fault, until) = self.outage.as_ref()?;
        (now < *until).then(|| Err(fault.clone()))
    }

    /// Caches a result of the registry.
    pub(crate) fn keep(&mut self, id: SchemaId, found: &Result<Arc<Known>, Arc<Fault>>, now: Instant) {
        let entry = match found {
            Ok(known) => {
                self.outage = None;
                self.text_bytes += known.text_bytes;
                Ok(known.clone())
            }
            Err(fault) if fault.is_outage() => {
                self.outage = Some((fault.clone(), now + OUTAGE));
                return;
            }
            Err(fault) => Err((fault.clone(), now + MISSING)),
        };
        if let Some((_, Ok(old))) = self.entries.push(id, entry) {
            self.text_bytes -= old.text_bytes;
        }
        while self.text_bytes > TEXT_BYTES_MAX && self.entries.len() > 1 {
            if let Some((_, Ok(old))) = self.entries.pop_lru() {
                self.text_bytes -= old.text_bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests;
