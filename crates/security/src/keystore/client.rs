//! The client side of TLS, from Kafka's client settings: trusted authorities, client certificate,
//! and the expected server name.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};

use super::{SslSettings, TlsError, form};

const NAMES: &str = "ssl.endpoint.identification.algorithm";

/// TLS configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Reads the stores of the settings. Without a trust store the authorities of this machine
    /// apply.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn load(settings: &SslSettings<'_>) -> Result<Self, TlsError> {
        let provider = settings.provider()?;
        let roots = settings.roots(authorities(settings)?)?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&settings.versions())
            .map_err(|error| settings.error("ssl.enabled.protocols", error.to_string()))?;
        let builder = match settings.given(NAMES).map(str::to_lowercase).as_deref() {
            None | Some("https") => builder.with_root_certificates(roots),
            Some("") => {
                let verifier = Arc::new(AnyName { roots, provider });
                builder.dangerous().with_custom_certificate_verifier(verifier)
            }
            Some(_) => return Err(settings.error(NAMES, "must be https, or empty for servers of any name")),
        };
        let config = match form::identity(settings)? {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                builder.with_client_auth_cert(identity.chain, identity.key).map_err(|error| {
                    let reason = format!("the key and the certificate do not match: {error}");
                    settings.error("ssl.keystore.location", reason)
                })?
            }
        };
        Ok(Self(Arc::new(config)))
    }

    /// Shakes hands with `host` over the socket. Blocks as long as the socket does.
    ///
    /// # Errors
    /// The socket fails, or one of the two does not trust the other.
    pub fn connect(
        &self,
        host: &str,
        mut socket: TcpStream,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(tls, socket))
    }
}

/// Trusted authorities of a client: those of its trust store, or otherwise those of the machine.
pub fn authorities(settings: &SslSettings<'_>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    if let Some(certificates) = form::trusted(settings)? {
        return Ok(certificates);
    }
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        Err(settings.error(
            "ssl.truststore.location",
            "names no trust store, and this machine has no certificate authorities",
        ))
    } else {
        Ok(found)
    }
}

/// Trusts the authorities, independent of the name in a certificate.
#[derive(Debug)]
struct AnyName {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, chain, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
