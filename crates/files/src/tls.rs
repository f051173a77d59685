//! TLS: the certificate and key from files, converted for handshakes.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The files of a certificate.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// The certificate and its chain up to the authority, in PEM.
    pub certificate: PathBuf,
    /// The key, in PEM; by default in the file of the certificate.
    pub key: Option<PathBuf>,
}

/// The reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file has no certificate that can be read.
    #[error("cannot read a certificate from {}: {reason}; the file must be PEM", path.display())]
    Certificate {
        /// File of the certificate.
        path: PathBuf,
        /// Description of the fault.
        reason: String,
    },
    /// The file has no key that can be read.
    #[error("cannot read a private key from {}: {reason}; the file must be unencrypted PEM", path.display())]
    Key {
        /// File of the private key.
        path: PathBuf,
        /// Description of the fault.
        reason: String,
    },
    /// Key and certificate are not a pair, or of a kind that is not known.
    #[error("cannot use the private key with the certificate {}: {source}", path.display())]
    Pair {
        /// The file of the certificate.
        path: PathBuf,
        /// Reason for which rustls does not accept the pair.
        source: rustls::Error,
    },
}

impl TlsOptions {
    /// Reads certificate and private key from their files.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub(crate) fn load(&self) -> Result<ServerConfig, TlsError> {
        let path = self.certificate.clone();
        let unreadable = |reason: String| TlsError::Certificate { path: path.clone(), reason };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unreadable(error.to_string()))?;
        if chain.is_empty() {
            return Err(unreadable("it has none".to_owned()));
        }
        let key_path = self.key.as_ref().unwrap_or(&self.certificate);
        let key = PrivateKeyDer::from_pem_file(key_path)
            .map_err(|error| TlsError::Key { path: key_path.clone(), reason: error.to_string() })?;
        let pair = |source| TlsError::Pair { path: path.clone(), source };
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(pair)?.with_no_client_auth();
        let mut config = builder.with_single_cert(chain, key).map_err(pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ticketer = ring::Ticketer::new().map_err(pair)?;
        // The kernel gets the keys where it encrypts.
        config.enable_secret_extraction = true;
        Ok(config)
    }
}
