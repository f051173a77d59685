//! TLS of the listeners: what each was told about keys, trust and versions, made into what a handshake needs, and made anew when
//! the configuration or a file changes.
//!
//! `store` reads key and trust stores, `names` turns certificates into principals, `handshakes` brings connections up on a
//! thread of their own, `session` is one connection that this process encrypts, `kernel` one that the kernel encrypts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use crate::config::{BrokerConfig, Listener, Settings};

pub(crate) mod channel;
mod elliptic;
pub(crate) mod handshakes;
mod kernel;
mod names;
mod session;
mod store;

use self::names::Rules;

/// What every TLS listener goes by.
pub(crate) struct Tls {
    setups: Vec<(String, ArcSwap<Setup>)>,
}

/// What one listener's handshakes go by.
pub(crate) struct Setup {
    config: Arc<ServerConfig>,
    rules: Rules,
    /// The files it was read from, as they were then.
    files: Vec<(PathBuf, Stamp)>,
}

/// What tells a file from the one that replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

/// TLS settings of a listener that cannot be used. Says nothing of what a password or key is.
#[derive(Debug, thiserror::Error)]
#[error("listener {listener}: {key}: {reason}")]
pub struct TlsError {
    listener: String,
    key: String,
    reason: String,
}

impl Tls {
    /// Reads what the TLS listeners need. Blocks for their files.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub(crate) fn load(config: &BrokerConfig) -> Result<Tls, TlsError> {
        let listeners = config.listeners.iter().filter(|listener| listener.protocol.has_tls());
        let setups = listeners.map(|listener| {
            let setup = Setup::load(&View { settings: config.settings(), listener })?;
            Ok((listener.name.clone(), ArcSwap::from_pointee(setup)))
        });
        Ok(Tls { setups: setups.collect::<Result<_, _>>()? })
    }

    /// What this listener goes by now.
    pub(crate) fn setup(&self, listener: &Listener) -> Option<Arc<Setup>> {
        let (_, setup) = self.setups.iter().find(|(name, _)| *name == listener.name)?;
        Some(setup.load_full())
    }

    /// Goes by another configuration, as far as it can be used; connections that are up stay. Blocks for files.
    pub(crate) fn reload(&self, config: &BrokerConfig) {
        self.load_those(config, |_| true);
    }

    /// Reads again what has changed on the disk. Blocks for files.
    pub(crate) fn refresh(&self, config: &BrokerConfig) {
        self.load_those(config, Setup::is_stale);
    }

    fn load_those(&self, config: &BrokerConfig, which: impl Fn(&Setup) -> bool) {
        for listener in config.listeners.iter().filter(|listener| listener.protocol.has_tls()) {
            let Some((_, slot)) = self.setups.iter().find(|(name, _)| *name == listener.name) else {
                continue;
            };
            if !which(&slot.load()) {
                continue;
            }
            match Setup::load(&View { settings: config.settings(), listener }) {
                Ok(setup) => {
                    slot.store(Arc::new(setup));
                    tracing::info!(listener = listener.name, "TLS keys and trust read again");
                }
                Err(error) => {
                    // Asked again only when the files change again.
                    let kept = slot.load();
                    let files = kept.files.iter().map(|(path, _)| (path.clone(), Stamp::of(path))).collect();
                    slot.store(Arc::new(Setup {
                        files,
                        config: kept.config.clone(),
                        rules: kept.rules.clone(),
                    }));
                    tracing::error!(%error, "TLS goes on with the keys and trust that it had");
                }
            }
        }
    }
}

/// One listener's settings.
pub(crate) struct View<'a> {
    settings: &'a Settings,
    listener: &'a Listener,
}

impl View<'_> {
    /// The value of a key; an empty one counts as not set.
    fn text(&self, key: &str) -> Option<&str> {
        self.settings.listener_text(&self.listener.name, key).filter(|text| !text.is_empty())
    }

    fn error(&self, key: &str, reason: impl Into<String>) -> TlsError {
        TlsError { listener: self.listener.name.clone(), key: key.to_owned(), reason: reason.into() }
    }
}

impl Setup {
    fn load(view: &View<'_>) -> Result<Setup, TlsError> {
        let identity = store::identity(view)?;
        let provider = Arc::new(rustls::crypto::CryptoProvider {
            cipher_suites: suites(view)?,
            ..rustls::crypto::ring::default_provider()
        });
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions(view))
            .map_err(|error| view.error("ssl.enabled.protocols", error.to_string()))?;
        let builder = match client_auth(view) {
            "none" => builder.with_no_client_auth(),
            wish => {
                let key = "ssl.truststore.location";
                let roots = Arc::new(store::roots(view)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = if wish == "requested" { verifier.allow_unauthenticated() } else { verifier };
                builder.with_client_cert_verifier(
                    verifier.build().map_err(|error| view.error(key, error.to_string()))?,
                )
            }
        };
        let mut config = builder.with_single_cert(identity.chain, identity.key).map_err(|error| {
            view.error("ssl.keystore.location", format!("the key and the certificate do not fit: {error}"))
        })?;
        config.enable_secret_extraction = view.text("levada.ssl.kernel.offload") != Some("never");
        let rules = view.text("ssl.principal.mapping.rules").unwrap_or("DEFAULT");
        let rules =
            Rules::parse(rules).map_err(|reason| view.error("ssl.principal.mapping.rules", reason))?;
        let paths = ["ssl.keystore.location", "ssl.truststore.location"].into_iter();
        let files = paths
            .filter_map(|key| view.text(key))
            .map(|path| (PathBuf::from(path), Stamp::of(path.as_ref())));
        Ok(Setup { config: Arc::new(config), rules, files: files.collect() })
    }

    fn is_stale(&self) -> bool {
        self.files.iter().any(|(path, stamp)| Stamp::of(path) != *stamp)
    }
}

impl Stamp {
    /// Of a file that cannot be looked at: one that differs from that of any other.
    fn of(path: &std::path::Path) -> Stamp {
        use std::os::unix::fs::MetadataExt;
        let absent = Stamp { len: u64::MAX, modified: None, inode: 0 };
        std::fs::metadata(path).map_or(absent, |file| Stamp {
            len: file.len(),
            modified: file.modified().ok(),
            inode: file.ino(),
        })
    }
}

/// On a listener with SASL, which authenticates clients, certificates are asked for only if the listener itself says so (KIP-684).
fn client_auth<'a>(view: &View<'a>) -> &'a str {
    const KEY: &str = "ssl.client.auth";
    let View { settings, listener } = view;
    let found = match listener.protocol.has_sasl() {
        true => settings.own_listener_text(&listener.name, KEY),
        false => settings.listener_text(&listener.name, KEY),
    };
    found.unwrap_or("none")
}

fn versions(view: &View<'_>) -> Vec<&'static SupportedProtocolVersion> {
    let wanted = view.text("ssl.enabled.protocols").unwrap_or_default();
    let known = [("TLSv1.3", &rustls::version::TLS13), ("TLSv1.2", &rustls::version::TLS12)];
    known
        .into_iter()
        .filter(|(name, _)| wanted.split(',').any(|word| word == *name))
        .map(|(_, version)| version)
        .collect()
}

/// The suites of the list that there are, in its order; those of old TLS, which stock configurations name, are left out.
fn suites(view: &View<'_>) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    const KEY: &str = "ssl.cipher.suites";
    let all = rustls::crypto::ring::default_provider().cipher_suites;
    let Some(wanted) = view.text(KEY) else { return Ok(all) };
    let named = |name: &str| all.iter().find(|suite| suite_name(**suite) == name).copied();
    let found: Vec<_> = wanted.split(',').filter_map(|name| named(name.trim())).collect();
    if found.is_empty() {
        let names: Vec<_> = all.iter().map(|suite| suite_name(*suite)).collect();
        return Err(view.error(KEY, format!("none of these is served; there are {}", names.join(", "))));
    }
    Ok(found)
}

/// The IANA name, which is Java's.
fn suite_name(suite: SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

#[cfg(test)]
mod tests;
