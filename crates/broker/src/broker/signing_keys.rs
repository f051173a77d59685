//! The keys that tokens are signed with, had anew from time to time from where the configuration says.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::broker::{Broker, now_ms};
use crate::security::oauth::jwks::{Jwks, JwksError};

/// A key set is a few kilobytes.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;
/// How long an address may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keys by the address that they are from.
#[derive(Debug, Default)]
pub(super) struct SigningKeys {
    sources: Mutex<BTreeMap<String, Source>>,
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Source {
    keys: Arc<Jwks>,
    tried_ms: i64,
    failures: u32,
    /// A token names a key that we do not have.
    missed: bool,
}

/// Why keys cannot be had.
#[derive(Debug, thiserror::Error)]
enum KeysError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it answers {status:?}")]
    Status { status: String },
    #[error(transparent)]
    Document(#[from] JwksError),
}

impl Broker {
    /// The keys that were last had from an address.
    pub(crate) fn signing_keys(&self, url: &str) -> Arc<Jwks> {
        let sources = self.signing_keys.sources.lock();
        sources.get(url).map(|source| source.keys.clone()).unwrap_or_default()
    }

    /// A token names a key that the address did not have: it may have it by now.
    pub(crate) fn miss_signing_key(&self, url: &str) {
        if let Some(source) = self.signing_keys.sources.lock().get_mut(url) {
            source.missed = true;
            self.signing_keys.wanted.notify_one();
        }
    }

    /// Has keys when they are due; never returns.
    pub(crate) async fn run_signing_keys(self: Arc<Self>) {
        loop {
            let (due, next_ms) = self.due_signing_keys(now_ms());
            for url in due {
                self.off_shard(move |broker| broker.renew_signing_keys(&url)).await;
            }
            let pause = Duration::from_millis(next_ms.unsigned_abs());
            let _ = tokio::time::timeout(pause, self.signing_keys.wanted.notified()).await;
        }
    }

    /// The addresses whose turn it is, and in how many milliseconds the next one has its turn.
    fn due_signing_keys(&self, now_ms: i64) -> (Vec<String>, i64) {
        let config = self.config();
        let listeners = config.security.sasl.values();
        let urls: BTreeSet<&String> =
            listeners.map(|sasl| &sasl.tokens.jwks_url).filter(|url| !url.is_empty()).collect();
        let times = config.security.signing_keys;
        let mut sources = self.signing_keys.sources.lock();
        let mut due = Vec::new();
        let mut next_ms = times.refresh_ms;
        for url in urls {
            let source = sources.entry(url.clone()).or_default();
            let pause_ms = match source.failures {
                0 if source.missed => times.retry_ms_max,
                0 => times.refresh_ms,
                failures => times.retry_ms.saturating_mul(1 << failures.min(20)).min(times.retry_ms_max),
            };
            let left_ms = source.tried_ms.saturating_add(pause_ms) - now_ms;
            if source.tried_ms == 0 || left_ms <= 0 {
                due.push(url.clone());
            } else {
                next_ms = next_ms.min(left_ms);
            }
        }
        let next_ms = if due.is_empty() { next_ms } else { 0 };
        (due, next_ms)
    }

    fn renew_signing_keys(&self, url: &str) {
        let had = fetch(url).and_then(|document| Ok(Jwks::parse(&document)?));
        let mut sources = self.signing_keys.sources.lock();
        let source = sources.entry(url.to_owned()).or_default();
        source.tried_ms = now_ms();
        source.missed = false;
        match had {
            Ok(keys) => {
                if keys.is_empty() {
                    tracing::warn!(url, "there is no key to check tokens with");
                }
                source.keys = Arc::new(keys);
                source.failures = 0;
            }
            Err(error) => {
                source.failures = source.failures.saturating_add(1);
                tracing::warn!(url, %error, "the keys that tokens are signed with cannot be had");
            }
        }
    }
}

fn fetch(url: &str) -> Result<String, KeysError> {
    match url.strip_prefix("http://") {
        Some(rest) => fetch_http(rest),
        None => {
            let path = url.strip_prefix("file:").unwrap_or(url);
            let path = path.strip_prefix("//").unwrap_or(path);
            Ok(std::fs::read_to_string(path)?)
        }
    }
}

/// GET without anything that a key server on this machine would ask for.
fn fetch_http(rest: &str) -> Result<String, KeysError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    let mut stream = TcpStream::connect(&address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Version 1.0: an answer in one piece, and then the end.
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {authority}\r\nAccept: application/json\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(DOCUMENT_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(KeysError::Status { status: status.to_owned() }),
    }
}
