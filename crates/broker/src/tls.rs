//! TLS settings of the listeners: keys, trust stores and versions of each, converted for
//! handshakes, and reloaded when the configuration or a file changes.
//!
//! `stores` reads key and trust stores, `names` turns certificates into principals. Connections and
//! their handshakes are in `server/channel`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use levada_security::Session;
use levada_security::keystore::{self, SslSettings, TlsError};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};

use levada_config::{BrokerConfig, Listener, Settings};

pub mod names;
#[cfg(test)]
mod tests;

use self::names::{CertifiedName, Names, Rules};

/// Configuration that all TLS listeners share.
pub(crate) struct Tls {
    contexts: Vec<(String, ArcSwap<TlsContext>)>,
}

/// TLS configuration of one listener.
#[derive(Clone)]
pub struct TlsContext {
    config: Arc<ServerConfig>,
    /// None if the listener requests no certificates of clients.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    rules: Rules,
    /// Subject of the certificate and its alternative names.
    names: Option<Names>,
    /// Identity of the files before they were read.
    files: Vec<(PathBuf, FileVersion)>,
}

/// Identity of a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    len: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

/// Checks the TLS settings of all listeners, and the files that they name. Blocks.
///
/// # Errors
/// The first setting that cannot be used.
pub fn check(config: &BrokerConfig) -> Result<(), TlsError> {
    Tls::load(config, None).map(drop)
}

impl Tls {
    /// Reads the settings of the TLS listeners, which may have used others `before`. Blocks for
    /// their files.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub(crate) fn load(config: &BrokerConfig, before: Option<&Self>) -> Result<Self, TlsError> {
        let listeners = config.listeners.iter().filter(|listener| listener.protocol.has_tls());
        let contexts = listeners.map(|listener| {
            let before = before.and_then(|before| before.context(listener));
            let context = TlsContext::load(config.settings(), listener, before.as_deref())?;
            Ok((listener.name.clone(), ArcSwap::from_pointee(context)))
        });
        Ok(Self { contexts: contexts.collect::<Result<_, _>>()? })
    }

    /// Current configuration of this listener.
    pub(crate) fn context(&self, listener: &Listener) -> Option<Arc<TlsContext>> {
        let (_, context) = self.contexts.iter().find(|(name, _)| *name == listener.name)?;
        Some(context.load_full())
    }

    /// Applies another configuration, as far as it can be used; open connections stay. Blocks for
    /// files.
    pub(crate) fn reload(&self, config: &BrokerConfig) {
        self.load_those(config, |_| true);
    }

    /// Reloads files that have changed. Blocks for files.
    pub(crate) fn refresh(&self, config: &BrokerConfig) {
        self.load_those(config, TlsContext::is_stale);
    }

    fn load_those(&self, config: &BrokerConfig, which: impl Fn(&TlsContext) -> bool) {
        for listener in config.listeners.iter().filter(|listener| listener.protocol.has_tls()) {
            let Some((_, slot)) = self.contexts.iter().find(|(name, _)| *name == listener.name) else {
                continue;
            };
            let kept = slot.load_full();
            if !which(&kept) {
                continue;
            }
            let files = kept.files.iter().map(|(path, _)| (path.clone(), FileVersion::of(path))).collect();
            match TlsContext::load(config.settings(), listener, Some(&kept)) {
                Ok(context) => {
                    slot.store(Arc::new(context));
                    tracing::info!(listener = listener.name, "TLS key and trust stores reloaded");
                }
                Err(error) => {
                    // Checked again only when the files change again.
                    slot.store(Arc::new(TlsContext { files, ..TlsContext::clone(&kept) }));
                    tracing::error!(%error, "cannot reload the TLS key and trust stores; the previous ones stay in use");
                }
            }
        }
    }
}

impl TlsContext {
    fn load(settings: &Settings, listener: &Listener, before: Option<&Self>) -> Result<Self, TlsError> {
        let owner = format!("listener {}", listener.name);
        let view = SslSettings::new(owner, |key| settings.listener_text(&listener.name, key));
        let view = view
            .written_as(|key| settings.as_written(&settings.listener_key(&listener.name, key)).to_owned());
        Self::of(&view, settings.client_auth(listener), before)
    }

    /// The context of these settings and of their files. `client_auth` decides about certificates
    /// of clients: `none`, `requested`, or else `required`. The certificate must have the subject
    /// and names of the certificate in `before`. Blocks for files.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn of(view: &SslSettings<'_>, client_auth: &str, before: Option<&Self>) -> Result<Self, TlsError> {
        // Before the files are read: a file that changes meanwhile is read again.
        let files = files(view);
        let no_identity =
            || view.error("ssl.keystore.location", "a TLS listener needs a key store, in PEM or PKCS12");
        let identity = keystore::identity(view)?.ok_or_else(no_identity)?;
        let names = identity.chain.first().and_then(|certificate| Names::of(certificate));
        if let (Some(names), Some(before)) = (&names, before.and_then(|before| before.names.as_ref())) {
            let allowed = names.follow(before, |key| view.text(key) == Some("true"));
            allowed.map_err(|(key, reason)| view.error(key, reason))?;
        }
        let provider = view.provider()?;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&view.versions())
            .map_err(|error| view.error("ssl.enabled.protocols", error.to_string()))?;
        let verifier = verifier(view, client_auth, provider)?;
        let builder = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        };
        let mut config = builder.with_single_cert(identity.chain, identity.key).map_err(|error| {
            view.error("ssl.keystore.location", format!("the key and the certificate do not match: {error}"))
        })?;
        config.enable_secret_extraction = view.text("levada.ssl.kernel.offload") != Some("never");
        let rules = view.text("ssl.principal.mapping.rules").unwrap_or("DEFAULT");
        let rules =
            Rules::parse(rules).map_err(|reason| view.error("ssl.principal.mapping.rules", reason))?;
        Ok(Self { config: Arc::new(config), verifier, rules, names, files })
    }

    /// Verifies the certificates of a client that has resumed an earlier session: they may have
    /// expired since, and so may the revocation lists.
    ///
    /// # Errors
    /// The certificates are no longer good.
    pub(crate) fn verify(
        &self,
        certificates: Option<&[CertificateDer<'static>]>,
    ) -> Result<(), rustls::Error> {
        let (Some(verifier), Some([own, issuers @ ..])) = (&self.verifier, certificates) else {
            return Ok(());
        };
        verifier.verify_client_cert(own, issuers, UnixTime::now()).map(drop)
    }

    /// Names in the first certificate of the peer's chain; none if the peer presented no
    /// certificate.
    ///
    /// # Errors
    /// Errors of `TlsContext::certified_name`.
    pub fn peer(
        &self,
        certificates: Option<&[CertificateDer<'static>]>,
    ) -> Result<Option<CertifiedName>, String> {
        let Some([certificate, ..]) = certificates else { return Ok(None) };
        self.certified_name(certificate).map(Some)
    }

    /// Names of the subject and of the principal of a certificate that the handshake has verified.
    ///
    /// # Errors
    /// No rule matches the subject, or the principal would be that of anonymous clients.
    pub(crate) fn certified_name(&self, certificate: &[u8]) -> Result<CertifiedName, String> {
        let distinguished =
            names::subject(certificate).ok_or("the certificate's subject cannot be parsed")?;
        let principal = self.rules.principal(&distinguished);
        let no_rule = || format!("no rule of ssl.principal.mapping.rules matches {distinguished:?}");
        let principal = principal.ok_or_else(no_rule)?;
        if principal == Session::ANONYMOUS {
            return Err(format!(
                "{distinguished:?} maps to {principal}, the name of unauthenticated clients"
            ));
        }
        Ok(CertifiedName { principal, distinguished })
    }

    /// TLS configuration of the server.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    fn is_stale(&self) -> bool {
        self.files.iter().any(|(path, version)| FileVersion::of(path) != *version)
    }
}

/// The files of a listener, and their versions.
fn files(view: &SslSettings<'_>) -> Vec<(PathBuf, FileVersion)> {
    let paths = ["ssl.keystore.location", "ssl.truststore.location", keystore::REVOKED].into_iter();
    let version = |path: &str| (PathBuf::from(path), FileVersion::of(path.as_ref()));
    paths.filter_map(|key| view.text(key)).map(version).collect()
}

/// Verifier of the certificates of clients; none if the listener requests none.
fn verifier(
    view: &SslSettings<'_>,
    client_auth: &str,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    if client_auth == "none" {
        return Ok(None);
    }
    let key = "ssl.truststore.location";
    let nobody = || {
        view.error(
            key,
            "ssl.client.auth requires client certificates, and no trust store is set to verify them",
        )
    };
    let roots = Arc::new(view.roots(keystore::trusted(view)?.ok_or_else(nobody)?)?);
    // Every certificate of a chain has to be in no list, and a list there has to be for each that
    // signs.
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
        .with_crls(keystore::revoked(view)?)
        .enforce_revocation_expiration();
    let verifier = if client_auth == "requested" { verifier.allow_unauthenticated() } else { verifier };
    let verifier = verifier.build().map_err(|error| match error {
        VerifierBuilderError::InvalidCrl(error) => {
            view.error(keystore::REVOKED, format!("a revocation list cannot be used: {error:?}"))
        }
        error => view.error(key, error.to_string()),
    })?;
    Ok(Some(verifier))
}

impl FileVersion {
    /// Version of a file that cannot be examined: it differs from that of any other.
    fn of(path: &std::path::Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        let absent = Self { len: u64::MAX, modified: None, inode: 0 };
        std::fs::metadata(path).map_or(absent, |file| Self {
            len: file.len(),
            modified: file.modified().ok(),
            inode: file.ino(),
        })
    }
}
