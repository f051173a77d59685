//! Topics as responses to Metadata have them, encoded once for the requests that ask again.
//!
//! A topic is kept from the second request within a second on, for one image of the metadata, one
//! state of this broker's partitions, one listener and one version. The next image drops all, and
//! so does a pause of ten seconds. A request that comes while another thread uses the topics is
//! answered without them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use levada_metadata::image::Image;
use levada_wire::Uuid;
use levada_wire::metadata::EncodedTopic;
use parking_lot::{Mutex, MutexGuard};

/// Bytes of all kept topics at most, about: a hundred thousand partitions of three replicas.
const BYTES_MAX: usize = 4 << 20;
/// Approximate memory of a topic in addition to its bytes.
const ENTRY_BYTES: usize = 128;
/// Time between two requests after which the first one is forgotten.
const AGAIN_MS: i64 = 1_000;
/// Time without a request after which nothing is kept.
const IDLE_MS: i64 = 10_000;

/// Encoded topics of responses to Metadata; see the module.
#[derive(Default)]
pub(crate) struct EncodedTopics {
    kept: Mutex<Kept>,
}

/// The state of the metadata and of this broker's partitions that a response is about.
#[derive(Clone, Copy)]
pub(crate) struct State<'a> {
    pub(crate) image: &'a Arc<Image>,
    /// Number of changes of this broker's partitions, read before the image.
    pub(crate) changes: u64,
}

#[derive(Default)]
struct Kept {
    image: Weak<Image>,
    changes: u64,
    asked_ms: i64,
    bytes: usize,
    views: Vec<View>,
}

/// Topics by listener and version.
struct View {
    listener: String,
    version: i16,
    topics: HashMap<Uuid, EncodedTopic>,
}

/// Topics of one view while a request uses them.
pub(crate) struct Lent<'a> {
    kept: MutexGuard<'a, Kept>,
    at: usize,
}

impl EncodedTopics {
    /// Topics in this state for a listener and a version; none for the first request within a
    /// second, or if they are lent already. Does not wait.
    pub(crate) fn lend(
        &self,
        state: State<'_>,
        (listener, version): (&str, i16),
        now_ms: i64,
    ) -> Option<Lent<'_>> {
        let mut kept = self.kept.try_lock()?;
        let is_same = kept.changes == state.changes && kept.image.as_ptr() == Arc::as_ptr(state.image);
        let is_repeated = is_same && (!kept.views.is_empty() || now_ms - kept.asked_ms <= AGAIN_MS);
        if !is_same {
            let image = Arc::downgrade(state.image);
            *kept = Kept { image, changes: state.changes, ..Kept::default() };
        }
        kept.asked_ms = now_ms;
        if !is_repeated {
            return None;
        }
        let is_meant = |view: &View| view.listener == listener && view.version == version;
        let at = kept.views.iter().position(is_meant).unwrap_or(kept.views.len());
        if at == kept.views.len() {
            kept.views.push(View { listener: listener.to_owned(), version, topics: HashMap::new() });
        }
        Some(Lent { kept, at })
    }

    /// Drops the encoded topics if no request has used them for `IDLE_MS`.
    pub(crate) fn expire(&self, now_ms: i64) {
        let mut kept = self.kept.lock();
        if now_ms - kept.asked_ms > IDLE_MS {
            *kept = Kept::default();
        }
    }
}

impl Lent<'_> {
    /// A topic, encoded now if it is not kept. `encode` also returns true if the topic may be kept.
    pub(crate) fn topic(
        &mut self,
        id: Uuid,
        encode: impl FnOnce() -> Option<(EncodedTopic, bool)>,
    ) -> Option<EncodedTopic> {
        if let Some(topic) = self.kept.views[self.at].topics.get(&id) {
            return Some(topic.clone());
        }
        let (topic, may_stay) = encode()?;
        let bytes = self.kept.bytes + topic.size() + ENTRY_BYTES;
        if may_stay && bytes <= BYTES_MAX {
            self.kept.bytes = bytes;
            self.kept.views[self.at].topics.insert(id, topic.clone());
        }
        Some(topic)
    }
}

#[cfg(test)]
mod tests;
