//! Kafka's `ssl.*` settings of a listener or a client (key stores, trust stores, versions and
//! ciphers), converted for rustls.
//!
//! Stores are files: all functions here block.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::{RootCertStore, SupportedCipherSuite, SupportedProtocolVersion};

mod client;
mod elliptic;
mod form;
mod kinds;
#[cfg(test)]
mod tests;

pub use self::client::ClientTls;
pub use self::client::authorities;
pub use self::form::{REVOKED, identity, revoked, trusted};

/// Settings by Kafka's names, with the listener or client that they belong to.
pub struct SslSettings<'a> {
    owner: String,
    text: Box<Lookup<'a>>,
    written: Box<dyn Fn(&str) -> String + 'a>,
}

type Lookup<'a> = dyn Fn(&str) -> Option<&'a str> + 'a;

/// TLS settings that cannot be used. The text never contains a password or key.
#[derive(Debug, thiserror::Error)]
#[error("{owner}: {key}: {reason}")]
pub struct TlsError {
    owner: String,
    key: String,
    reason: String,
}

impl<'a> SslSettings<'a> {
    /// The settings that `text` looks up; errors name `owner`.
    pub fn new(owner: impl Into<String>, text: impl Fn(&str) -> Option<&'a str> + 'a) -> Self {
        Self { owner: owner.into(), text: Box::new(text), written: Box::new(str::to_owned) }
    }

    /// Returns the settings with the keys that `written` returns, for errors: a key of one listener
    /// has a prefix.
    #[must_use]
    pub fn written_as(self, written: impl Fn(&str) -> String + 'a) -> Self {
        Self { written: Box::new(written), ..self }
    }

    /// The value of a key; an empty one counts as not set.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        (self.text)(key).filter(|text| !text.is_empty())
    }

    /// The value of a key of any type.
    fn given(&self, key: &str) -> Option<&'a str> {
        (self.text)(key)
    }

    /// An error in the value of this key.
    pub fn error(&self, key: &str, reason: impl Into<String>) -> TlsError {
        TlsError { owner: self.owner.clone(), key: (self.written)(key), reason: reason.into() }
    }

    /// The ciphers that are wanted.
    pub fn provider(&self) -> Result<Arc<CryptoProvider>, TlsError> {
        Ok(Arc::new(CryptoProvider { cipher_suites: suites(self)?, ..ring::default_provider() }))
    }

    /// The versions that are wanted.
    pub fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let known = [("TLSv1.3", &rustls::version::TLS13), ("TLSv1.2", &rustls::version::TLS12)];
        let wanted = self.text("ssl.enabled.protocols").unwrap_or("TLSv1.2,TLSv1.3");
        let is_wanted = |name: &str| wanted.split(',').any(|word| word.trim() == name);
        known.into_iter().filter(|(name, _)| is_wanted(name)).map(|(_, version)| version).collect()
    }

    /// Trusted authorities, in the form of rustls.
    pub fn roots(&self, certificates: Vec<CertificateDer<'static>>) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots.add(certificate).map_err(|error| {
                self.error("ssl.truststore.location", format!("a certificate cannot be used: {error}"))
            })?;
        }
        Ok(roots)
    }
}

/// The supported cipher suites of the list, in its order; suites of old TLS versions, which stock
/// configurations name, are left out.
fn suites(settings: &SslSettings<'_>) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    const KEY: &str = "ssl.cipher.suites";
    let all = ring::default_provider().cipher_suites;
    let Some(wanted) = settings.text(KEY) else { return Ok(all) };
    let named = |name: &str| all.iter().find(|suite| suite_name(**suite) == name).copied();
    let found: Vec<_> = wanted.split(',').filter_map(|name| named(name.trim())).collect();
    if found.is_empty() {
        let names: Vec<_> = all.iter().map(|suite| suite_name(*suite)).collect();
        return Err(settings.error(
            KEY,
            format!("none of these cipher suites is supported; the supported ones are {}", names.join(", ")),
        ));
    }
    Ok(found)
}

/// The IANA name, which is Java's.
fn suite_name(suite: SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}
