//! Formats of stores: PEM or PKCS #12, from a file or from the configuration.

use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12ImportPolicy};
use pkcs8::{EncryptedPrivateKeyInfoRef, Error, pkcs5};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::{SslSettings, TlsError, elliptic, kinds};

/// Identity: certificates, and the key of the first.
pub struct KeyAndChain {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

const KEY_STORE: &str = "ssl.keystore.location";
const TRUST_STORE: &str = "ssl.truststore.location";
/// The key of the list of revoked certificates.
pub const REVOKED: &str = "levada.ssl.crl.location";

/// Certificates and key; none where no store is named.
pub fn identity(settings: &SslSettings<'_>) -> Result<Option<KeyAndChain>, TlsError> {
    const CHAIN: &str = "ssl.keystore.certificate.chain";
    const KEY: &str = "ssl.keystore.key";
    let inline = (settings.text(CHAIN), settings.text(KEY));
    let identity = match (settings.text(KEY_STORE), inline) {
        (None, (Some(chain), Some(key))) => {
            let mut parts = parse_pem(settings, CHAIN, chain)?;
            parts.extend(parse_pem(settings, KEY, key)?);
            from_pem(settings, KEY, parts)
        }
        (None, (None, None)) => return Ok(None),
        (None, _) => Err(settings.error(KEY, format!("{CHAIN} and {KEY} belong together; one is missing"))),
        (Some(_), (None, None)) => match Store::read(settings, KEY_STORE)? {
            Store::Pem(text) => from_pem(settings, KEY_STORE, parse_pem(settings, KEY_STORE, &text)?),
            Store::Pkcs12(bytes) => {
                from_pkcs12(settings, &open(settings, (KEY_STORE, "ssl.keystore.password"), &bytes)?)
            }
        },
        (Some(_), _) => Err(settings.error(KEY, format!("set either {KEY_STORE} or {CHAIN} with {KEY}"))),
    };
    identity.map(Some)
}

/// Trusted authorities, at least one; none if no store is configured.
pub fn trusted(settings: &SslSettings<'_>) -> Result<Option<Vec<CertificateDer<'static>>>, TlsError> {
    const INLINE: &str = "ssl.truststore.certificates";
    let (key, certificates) = match (settings.text(TRUST_STORE), settings.text(INLINE)) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(settings.error(INLINE, format!("set either {TRUST_STORE} or {INLINE}")));
        }
        (None, Some(text)) => (INLINE, certificates(parse_pem(settings, INLINE, text)?)),
        (Some(_), None) => match Store::read(settings, TRUST_STORE)? {
            Store::Pem(text) => (TRUST_STORE, certificates(parse_pem(settings, TRUST_STORE, &text)?)),
            Store::Pkcs12(bytes) => {
                let store = open(settings, (TRUST_STORE, "ssl.truststore.password"), &bytes)?;
                let trusted = store.entries().filter_map(|(_, entry)| match entry {
                    KeyStoreEntry::Certificate(one) => Some(CertificateDer::from(one.as_der().to_vec())),
                    _ => None,
                });
                (TRUST_STORE, trusted.collect())
            }
        },
    };
    if certificates.is_empty() {
        Err(settings.error(key, "there is no certificate in it"))
    } else {
        Ok(Some(certificates))
    }
}

/// Lists of certificates that are good no longer; none where no file is named.
pub fn revoked(settings: &SslSettings<'_>) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let Some(path) = settings.text(REVOKED) else { return Ok(Vec::new()) };
    let bytes = std::fs::read(path)
        .map_err(|error| settings.error(REVOKED, format!("cannot read {path}: {error}")))?;
    let lists: Vec<Vec<u8>> = match std::str::from_utf8(&bytes) {
        Ok(text) if is_pem(&bytes) => {
            let parts = parse_pem(settings, REVOKED, text)?.into_iter();
            parts.filter(|part| part.label == "X509 CRL").map(|part| part.der).collect()
        }
        _ => vec![bytes],
    };
    if lists.is_empty() {
        Err(settings.error(REVOKED, format!("there is no revocation list in {path}")))
    } else {
        Ok(lists.into_iter().map(CertificateRevocationListDer::from).collect())
    }
}

/// A file, by its form.
enum Store {
    Pem(String),
    Pkcs12(Vec<u8>),
}

impl Store {
    /// Reads the file that `key` names. The content determines the form, as in Java; the type must
    /// only agree on whether it is PEM.
    fn read(settings: &SslSettings<'_>, key: &'static str) -> Result<Self, TlsError> {
        let path = settings.text(key).unwrap_or_default();
        let bytes = std::fs::read(path)
            .map_err(|error| settings.error(key, format!("cannot read {path}: {error}")))?;
        let kind = settings.text(if key == KEY_STORE { "ssl.keystore.type" } else { "ssl.truststore.type" });
        match (&bytes[..], kind) {
            ([0xfe, 0xed, 0xfe, 0xed, ..], _) => Err(settings.error(key, jks(path))),
            ([0x30, ..], Some("PEM")) => {
                Err(settings.error(key, format!("{path} is not PEM; set the type to PKCS12")))
            }
            ([0x30, ..], _) => Ok(Self::Pkcs12(bytes)),
            (_, Some("PKCS12" | "JKS")) if !bytes.starts_with(&[0x30]) && is_pem(&bytes) => {
                Err(settings.error(key, format!("{path} is PEM; set the type to PEM")))
            }
            _ if is_pem(&bytes) => String::from_utf8(bytes).map(Store::Pem).map_err(|_| {
                settings.error(key, format!("{path} is not PEM: it has bytes that are not text"))
            }),
            _ => Err(settings.error(key, format!("{path} is neither PEM nor PKCS12"))),
        }
    }
}

fn jks(path: &str) -> String {
    format!(
        "{path} is a JKS key store; JKS is not supported; convert it: keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype pkcs12"
    )
}

fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|window| window == BEGIN.as_bytes())
}

fn open(
    settings: &SslSettings<'_>,
    (key, password): (&str, &str),
    bytes: &[u8],
) -> Result<KeyStore, TlsError> {
    let secret = settings.text(password).unwrap_or_default();
    KeyStore::from_pkcs12(bytes, secret, Pkcs12ImportPolicy::Relaxed).map_err(|error| {
        settings.error(key, format!("cannot open the PKCS12 store; is {password} right? ({error})"))
    })
}

fn from_pkcs12(settings: &SslSettings<'_>, store: &KeyStore) -> Result<KeyAndChain, TlsError> {
    let (_, chain) = store
        .private_key_chain()
        .ok_or_else(|| settings.error(KEY_STORE, "there is no private key in it"))?;
    let certificates = chain.certs().iter().map(|one| CertificateDer::from(one.as_der().to_vec())).collect();
    private_key(settings, KEY_STORE, chain.key().as_der().to_vec(), certificates)
}

/// Key and chain together.
fn private_key(
    settings: &SslSettings<'_>,
    at: &str,
    der: Vec<u8>,
    chain: Vec<CertificateDer<'static>>,
) -> Result<KeyAndChain, TlsError> {
    let der = chain.first().and_then(|leaf| elliptic::completed(&der, leaf)).unwrap_or(der);
    let key = PrivateKeyDer::try_from(der)
        .map_err(|error| settings.error(at, format!("its private key cannot be parsed: {error}")))?;
    if any_supported_type(&key).is_err() {
        return Err(settings.error(at, kinds::unusable(chain.first().map(|leaf| &**leaf))));
    }
    Ok(KeyAndChain { chain, key })
}

/// A section of a PEM text.
struct Part {
    label: String,
    der: Vec<u8>,
}

const BEGIN: &str = "-----BEGIN ";

/// The sections of a text. Spaces may replace line ends, as Kafka allows in values.
fn parse_pem(settings: &SslSettings<'_>, key: &str, text: &str) -> Result<Vec<Part>, TlsError> {
    use base64::Engine;
    let broken = || settings.error(key, "the PEM is broken: a section has no end, or is not base64");
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((_, from)) = rest.split_once(BEGIN) {
        let (label, body) = from.split_once("-----").ok_or_else(broken)?;
        let (body, after) = body.split_once(&format!("-----END {label}-----")).ok_or_else(broken)?;
        if body.contains("Proc-Type") {
            return Err(settings.error(
                key,
                "the key is encrypted in OpenSSL's old form; convert it: openssl pkcs8 -topk8 -in key.pem",
            ));
        }
        let body: String = body.split_whitespace().collect();
        let der = base64::engine::general_purpose::STANDARD.decode(body).map_err(|_| broken())?;
        parts.push(Part { label: label.to_owned(), der });
        rest = after;
    }
    Ok(parts)
}

fn certificates(parts: Vec<Part>) -> Vec<CertificateDer<'static>> {
    let those = parts.into_iter().filter(|part| part.label.ends_with("CERTIFICATE"));
    those.map(|part| CertificateDer::from(part.der)).collect()
}

fn from_pem(settings: &SslSettings<'_>, key: &str, mut parts: Vec<Part>) -> Result<KeyAndChain, TlsError> {
    let position = parts.iter().position(|part| part.label.ends_with("PRIVATE KEY"));
    let part = parts.remove(position.ok_or_else(|| settings.error(key, "there is no private key in it"))?);
    let der = match &part.label[..] {
        "ENCRYPTED PRIVATE KEY" => decrypt(settings, key, &part.der)?,
        _ => part.der,
    };
    let chain = certificates(parts);
    if chain.is_empty() {
        return Err(settings.error(key, "there is no certificate in it"));
    }
    private_key(settings, key, der, chain)
}

fn decrypt(settings: &SslSettings<'_>, at: &str, der: &[u8]) -> Result<Vec<u8>, TlsError> {
    const PASSWORD: &str = "ssl.key.password";
    let secret =
        settings.text(PASSWORD).ok_or_else(|| settings.error(PASSWORD, "the private key has a password"))?;
    let sealed = EncryptedPrivateKeyInfoRef::try_from(der)
        .map_err(|_| settings.error(at, kinds::undecryptable(der)))?;
    let opened = sealed.decrypt(secret).map_err(|error| match error {
        // A wrong password can also result in bytes that are not a key.
        Error::EncryptedPrivateKey(pkcs5::Error::DecryptFailed) | Error::Asn1(_) => {
            settings.error(PASSWORD, format!("the private key cannot be decrypted with it ({error})"))
        }
        _ => settings.error(at, kinds::undecryptable(der)),
    })?;
    Ok(opened.as_bytes().to_vec())
}
