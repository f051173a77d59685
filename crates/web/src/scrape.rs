//! Texts of `/metrics`. One is made at a time, and every scrape that waits gets the next one. Texts
//! take megabytes: few of them exist at the same time, however slowly they are read.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use levada_process::blocking::off_shard;
use tokio::sync::Mutex;

use super::Source;
use super::metrics::{Form, render};

/// Maximum number of texts at the same time, including texts that clients have not read to the end.
const TEXTS_MAX: usize = 4;

/// A kind of text: its form, and true if it has the series of topics, partitions and groups.
pub(super) type Kind = (Form, bool);

/// The texts of one HTTP address.
pub(super) struct Scrapes {
    source: Arc<dyn Source>,
    /// Locked while a text is made.
    texts: Arc<Mutex<Vec<Made>>>,
}

/// A text that a client may still be reading.
struct Made {
    kind: Kind,
    /// Time at which the text was begun.
    begun: Instant,
    text: Weak<String>,
}

/// The reason why there is no text.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScrapeError {
    /// The maximum number of texts exists: all are of other types and still being read.
    #[error("{TEXTS_MAX} scrapes of other kinds have not been read to the end; scrape again later")]
    Busy,
    /// A series cannot be written.
    #[error(transparent)]
    Encoding(#[from] fmt::Error),
}

/// A text that exists as long as the response that sends it.
struct Shared(Arc<String>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Scrapes {
    /// Creates a set without texts.
    pub(super) fn new(source: Arc<dyn Source>) -> Self {
        Self { source, texts: Arc::default() }
    }

    /// A text that was begun after this call. If too many are being read, the newest of them
    /// instead.
    pub(super) async fn text(&self, kind: Kind) -> Result<Bytes, ScrapeError> {
        let asked = Instant::now();
        let mut texts = self.texts.clone().lock_owned().await;
        texts.retain(|made| made.text.strong_count() > 0);
        let is_full = texts.len() >= TEXTS_MAX;
        let newest = texts.iter().rev().filter(|made| made.kind == kind && (is_full || made.begun >= asked));
        if let Some(text) = newest.filter_map(|made| made.text.upgrade()).next() {
            return Ok(Bytes::from_owner(Shared(text)));
        }
        if is_full {
            return Err(ScrapeError::Busy);
        }
        let (source, begun) = (self.source.clone(), Instant::now());
        // On a separate thread: a scrape may wait for the disk, and other requests do not wait for
        // it. The thread has the lock: a client that disconnects makes no room for another text
        // before this one is made.
        let made = off_shard(move || {
            let text = Arc::new(render(source, kind.0, kind.1)?);
            texts.push(Made { kind, begun, text: Arc::downgrade(&text) });
            Ok::<_, fmt::Error>(text)
        });
        Ok(Bytes::from_owner(Shared(made.await?)))
    }
}

#[cfg(test)]
mod tests;
