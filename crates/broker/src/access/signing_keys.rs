//! The signing keys of tokens, fetched from the configured addresses and refreshed regularly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use levada_process::blocking::off_shard;
use levada_process::clock::steady_ms;
use levada_security::jaas::Jaas;
use levada_security::keystore::{self, SslSettings, TlsError};
use levada_security::oauth::KeySource;
use levada_security::oauth::jwks::{Jwks, JwksError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::live_config::LiveConfig;

/// A key set is a few kilobytes.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;
/// Longest time that a server of keys may take to respond.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keys by where they are from.
pub(crate) struct SigningKeys {
    config: Arc<LiveConfig>,
    sources: Mutex<BTreeMap<KeySource, Had>>,
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Had {
    keys: Arc<Jwks>,
    /// Time of the last attempt to load the keys, by the monotonic clock.
    tried_ms: Option<i64>,
    failures: u32,
    /// True if a token has named a key that the broker lacks.
    missed: bool,
}

/// Reason why the keys are not available.
#[derive(Debug, thiserror::Error)]
enum KeysError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the server responded with HTTP status {status}")]
    Status { status: u16 },
    #[error("{0}")]
    Http(#[from] ureq::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Document(#[from] JwksError),
}

impl SigningKeys {
    pub(crate) fn new(config: Arc<LiveConfig>) -> Self {
        Self { config, sources: Mutex::default(), wanted: Notify::new() }
    }

    /// The keys of the last successful load.
    pub(crate) fn keys(&self, source: &KeySource) -> Arc<Jwks> {
        let sources = self.sources.lock();
        sources.get(source).map(|had| had.keys.clone()).unwrap_or_default()
    }

    /// Records that a token names a key that is not loaded: the source may have it now.
    pub(crate) fn miss(&self, source: &KeySource) {
        if let Some(had) = self.sources.lock().get_mut(source) {
            had.missed = true;
            self.wanted.notify_one();
        }
    }

    /// Loads the keys again when they are due; never returns.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let (due, next_ms) = self.due(steady_ms());
            for source in due {
                let keys = self.clone();
                off_shard(move || keys.renew(&source)).await;
            }
            let pause = Duration::from_millis(next_ms.unsigned_abs());
            let _ = tokio::time::timeout(pause, self.wanted.notified()).await;
        }
    }

    /// Sources whose keys are to be loaded now, and the time in ms until the next load.
    fn due(&self, now_ms: i64) -> (Vec<KeySource>, i64) {
        let config = self.config.load();
        let listeners = config.security.sasl.values();
        let wanted: BTreeSet<&KeySource> =
            listeners.map(|sasl| &sasl.tokens.keys).filter(|source| !source.url.is_empty()).collect();
        let times = config.security.signing_keys;
        let mut sources = self.sources.lock();
        let mut due = Vec::new();
        let mut next_ms = times.refresh_ms;
        for source in wanted {
            let had = sources.entry(source.clone()).or_default();
            let pause_ms = match had.failures {
                0 if had.missed => times.retry_ms_max,
                0 => times.refresh_ms,
                failures => times.retry_ms.saturating_mul(1 << failures.min(20)).min(times.retry_ms_max),
            };
            let left_ms = had.tried_ms.map_or(0, |tried_ms| tried_ms.saturating_add(pause_ms) - now_ms);
            if left_ms <= 0 {
                due.push(source.clone());
            } else {
                next_ms = next_ms.min(left_ms);
            }
        }
        let next_ms = if due.is_empty() { next_ms } else { 0 };
        (due, next_ms)
    }

    fn renew(&self, source: &KeySource) {
        let KeySource { url, login } = source;
        let document = fetch(url, login.as_ref()).and_then(|document| Ok(Jwks::parse(&document)?));
        let mut sources = self.sources.lock();
        let had = sources.entry(source.clone()).or_default();
        had.tried_ms = Some(steady_ms());
        had.missed = false;
        match document {
            Ok(keys) => {
                if keys.is_empty() {
                    tracing::warn!(url, "no signing key is available; the broker rejects tokens");
                }
                had.keys = Arc::new(keys);
                had.failures = 0;
            }
            Err(error) => {
                had.failures = had.failures.saturating_add(1);
                tracing::warn!(url, %error, "cannot load the signing keys (JWKS)");
            }
        }
    }
}

/// Reads the document at a URL. The trust settings of the login module (`ssl.truststore.*`) apply
/// to https.
fn fetch(url: &str, login: Option<&Jaas>) -> Result<String, KeysError> {
    if let Some(path) = url.strip_prefix("file:") {
        return Ok(std::fs::read_to_string(path.strip_prefix("//").unwrap_or(path))?);
    }
    let tls = if url.starts_with("https:") { Some(tls(login)?) } else { None };
    let builder = Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .proxy(None)
        // Unencrypted keys come from this machine only, and no other host may redirect requests for
        // them.
        .max_redirects(if tls.is_some() { 5 } else { 0 })
        .https_only(tls.is_some());
    let agent = builder.tls_config(tls.unwrap_or_default()).build().new_agent();
    let mut response = agent.get(url).header("Accept", "application/json").call()?;
    match response.status().as_u16() {
        200 => Ok(response.body_mut().with_config().limit(DOCUMENT_BYTES_MAX).read_to_string()?),
        status => Err(KeysError::Status { status }),
    }
}

fn tls(login: Option<&Jaas>) -> Result<TlsConfig, KeysError> {
    let view = SslSettings::new("the login module of OAUTHBEARER", |key| {
        login.and_then(|login| login.options.get(key)).map(String::as_str)
    });
    let trusted = keystore::authorities(&view)?;
    let trusted = trusted.iter().map(|one| Certificate::from_der(one).to_owned());
    let config = TlsConfig::builder()
        .root_certs(RootCerts::from(trusted))
        .unversioned_rustls_crypto_provider(view.provider()?);
    Ok(config.build())
}

#[cfg(test)]
mod tests;
