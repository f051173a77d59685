//! Settings of a registry, by the keys of Confluent's clients.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use levada_security::keystore::{self, SslSettings, TlsError};
use percent_encoding::percent_decode_str;
use rustls::pki_types::PrivateKeyDer;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// The key of the registry's URL.
pub const URL: &str = "schema.registry.url";

const USER: [&str; 2] = ["schema.registry.basic.auth.user.info", "basic.auth.user.info"];
const SOURCE: [&str; 2] = ["schema.registry.basic.auth.credentials.source", "basic.auth.credentials.source"];
/// Prefix of the TLS settings.
const PREFIX: &str = "schema.registry.";
const NAMES: &str = "ssl.endpoint.identification.algorithm";
/// Maximum number of URLs of one registry.
const URLS_MAX: usize = 16;

/// Addresses of a registry, and the login there.
#[derive(Clone)]
pub struct RegistrySettings {
    /// URLs without user information and without a slash at the end.
    pub(crate) urls: Vec<String>,
    /// Value of the header `Authorization`.
    pub(crate) authorization: Option<String>,
    pub(crate) tls: Option<TlsConfig>,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A value that cannot be used.
    #[error("{owner}: {key}: {reason}")]
    Value {
        /// The source of the settings, for errors.
        owner: String,
        /// The key.
        key: &'static str,
        /// The reason, and the expected value.
        reason: String,
    },
    /// A TLS setting that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl RegistrySettings {
    /// The settings that `value` looks up by their keys; none without a URL. Reads the stores of
    /// the TLS settings: blocks. Errors name `owner`, and never contain a password.
    ///
    /// # Errors
    /// A setting cannot be used.
    pub fn of<'a>(
        owner: &str,
        value: impl Fn(&str) -> Option<&'a str> + 'a,
    ) -> Result<Option<Self>, SettingsError> {
        let text = |keys: &[&str]| keys.iter().find_map(|key| value(key).filter(|text| !text.is_empty()));
        let Some(urls) = text(&[URL]) else { return Ok(None) };
        let wrong = |key, reason: &str| SettingsError::Value {
            owner: owner.to_owned(),
            key,
            reason: reason.to_owned(),
        };
        let mut login = None;
        let mut bases = Vec::new();
        for url in urls.split(',').map(str::trim).filter(|url| !url.is_empty()).take(URLS_MAX) {
            let (base, user) = parts(url).map_err(|reason| wrong(URL, reason))?;
            bases.push(base);
            login = login.or(user);
        }
        if bases.is_empty() {
            return Ok(None);
        }
        let login = match text(&SOURCE) {
            None => text(&USER).map(str::to_owned).or(login),
            Some("URL") => login,
            Some("USER_INFO") => {
                let user = text(&USER).ok_or_else(|| wrong(USER[1], "is not set; expected USER:PASSWORD"))?;
                Some(user.to_owned())
            }
            Some(_) => return Err(wrong(SOURCE[1], "must be URL or USER_INFO")),
        };
        if login.as_ref().is_some_and(|login| !login.contains(':')) {
            return Err(wrong(USER[1], "must be USER:PASSWORD"));
        }
        let authorization = login.map(|login| format!("Basic {}", BASE64.encode(login)));
        let is_encrypted = bases.iter().any(|base| base.starts_with("https:"));
        let tls = if is_encrypted { Some(tls(owner, value)?) } else { None };
        Ok(Some(Self { urls: bases, authorization, tls }))
    }
}

/// The URL without user information, and the user information.
fn parts(url: &str) -> Result<(String, Option<String>), &'static str> {
    const EXPECTED: &str = "must be http://HOST:PORT or https://HOST:PORT";
    let (scheme, rest) = url.split_once("://").ok_or(EXPECTED)?;
    if !matches!(scheme, "http" | "https") || rest.contains(['?', '#']) || rest.contains(char::is_whitespace)
    {
        return Err(EXPECTED);
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(percent_decode_str(user).decode_utf8_lossy().into_owned()), host),
        None => (None, authority),
    };
    if host.is_empty() {
        return Err(EXPECTED);
    }
    Ok((format!("{scheme}://{host}{}", path.trim_end_matches('/')), user))
}

fn tls<'a>(owner: &str, value: impl Fn(&str) -> Option<&'a str> + 'a) -> Result<TlsConfig, TlsError> {
    let names = value(&format!("{PREFIX}{NAMES}"));
    let lookup = move |key: &str| value(&format!("{PREFIX}{key}"));
    let view = SslSettings::new(owner, lookup).written_as(|key| format!("{PREFIX}{key}"));
    if names.is_some_and(|names| !names.eq_ignore_ascii_case("https")) {
        return Err(view.error(NAMES, "must be https"));
    }
    let trusted = keystore::authorities(&view)?;
    let trusted = trusted.iter().map(|one| Certificate::from_der(one).to_owned());
    let identity = match keystore::identity(&view)? {
        None => None,
        Some(identity) => {
            let chain: Vec<_> =
                identity.chain.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
            let key = PrivateKey::from_pem(pem(&identity.key).as_bytes());
            let key = key.map_err(|error| view.error("ssl.keystore.location", error.to_string()))?;
            Some(ClientCert::new_with_certs(&chain, key))
        }
    };
    let config = TlsConfig::builder()
        .root_certs(RootCerts::from(trusted))
        .client_cert(identity)
        .unversioned_rustls_crypto_provider(view.provider()?);
    Ok(config.build())
}

/// A key as PEM, the only form that the HTTP client takes.
fn pem(key: &PrivateKeyDer<'_>) -> String {
    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64.encode(key.secret_der()))
}

#[cfg(test)]
mod tests;
