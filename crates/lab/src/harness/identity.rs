//! A certificate for the duration of an experiment, and the TLS settings of both ends: TLS 1.3 with
//! AES-128-GCM.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::error::LabError;

/// Host name in the certificate.
pub(crate) const NAME: &str = "localhost";

/// A certificate with its key in a file, and the matching settings of both ends.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Path of the key and the certificate in PEM.
    pub(crate) path: PathBuf,
    /// Settings of a client that trusts the certificate. Each handshake is a full one.
    pub(crate) client: Arc<ClientConfig>,
    /// Settings of a server with the certificate.
    pub(crate) server: Arc<ServerConfig>,
}

impl Identity {
    /// Creates a certificate and writes it to `path`.
    ///
    /// # Errors
    /// This process cannot write the file.
    pub(crate) fn create(path: &Path) -> Result<Self, LabError> {
        let wrong = |error: &dyn std::fmt::Display| {
            LabError::step("cannot make a certificate")(io::Error::other(error.to_string()))
        };
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(|error| wrong(&error))?;
        let (certificate, key) = (CertificateDer::from(made.cert.der().to_vec()), made.signing_key);
        let pem = key.serialize_pem() + &made.cert.pem();
        std::fs::write(path, pem).map_err(LabError::file("cannot write", path))?;
        let mut provider = ring::default_provider();
        provider.cipher_suites = vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let provider: Arc<CryptoProvider> = Arc::new(provider);
        let versions = [&rustls::version::TLS13];
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).map_err(|error| wrong(&error))?;
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| wrong(&error))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| wrong(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(|error| wrong(&error))?;
        Ok(Self { path: path.to_path_buf(), client: Arc::new(client), server: Arc::new(server) })
    }
}
