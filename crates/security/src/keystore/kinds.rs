//! Kinds of private keys, and of their encryption, that the broker cannot use: named as their owner
//! knows them, with the next step.

use x509_parser::asn1_rs::Sequence;
use x509_parser::prelude::{AlgorithmIdentifier, FromDer, SubjectPublicKeyInfo, X509Certificate};

/// Private keys that the TLS library supports.
const SUPPORTED: &str = "make a key on the curve P-256 or P-384, an Ed25519 key, or an RSA key of 2048 to 4096 bits, and a certificate for it";

/// The reason why the broker cannot use a private key with this certificate.
pub(super) fn unusable(certificate: Option<&[u8]>) -> String {
    match certificate.and_then(kind) {
        Some(kind) => format!("a key of this kind is not supported: {kind}; {SUPPORTED}"),
        None => {
            format!("its private key cannot be parsed, or is of a kind that is not supported; {SUPPORTED}")
        }
    }
}

/// The kind of the key in a certificate.
fn kind(certificate: &[u8]) -> Option<String> {
    const ELLIPTIC: &str = "1.2.840.10045.2.1";
    const RSA: &str = "1.2.840.113549.1.1.1";
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let key = certificate.public_key();
    Some(match &*key.algorithm.algorithm.to_id_string() {
        ELLIPTIC => format!("elliptic curve {}", curve(key)?),
        RSA => format!("RSA with {} bits", key.parsed().ok()?.key_size()),
        "1.2.840.113549.1.1.10" => "RSASSA-PSS".to_owned(),
        "1.2.840.10040.4.1" => "DSA".to_owned(),
        "1.3.101.113" => "Ed448".to_owned(),
        other => format!("algorithm {other}"),
    })
}

/// The curve of a key on a named one.
fn curve(key: &SubjectPublicKeyInfo<'_>) -> Option<String> {
    let name = key.algorithm.parameters.as_ref()?.as_oid().ok()?;
    Some(match &*name.to_id_string() {
        "1.2.840.10045.3.1.7" => "P-256".to_owned(),
        "1.3.132.0.34" => "P-384".to_owned(),
        "1.3.132.0.35" => "P-521".to_owned(),
        "1.3.132.0.10" => "secp256k1".to_owned(),
        other => other.to_owned(),
    })
}

/// The reason why the broker cannot decrypt this private key with any password.
pub(super) fn undecryptable(key: &[u8]) -> String {
    let scheme = scheme(key).unwrap_or_default();
    let name = match &*scheme {
        // PBES2 names its key derivation and its cipher separately.
        "1.2.840.113549.1.5.13" => "PBES2 with a cipher other than AES, or another key derivation",
        pbes1 if pbes1.starts_with("1.2.840.113549.1.5.") => "PBES1",
        pkcs12 if pkcs12.starts_with("1.2.840.113549.1.12.1.") => "PBE of PKCS #12, with 3DES, RC2 or RC4",
        _ => "an unknown algorithm",
    };
    format!(
        "the encryption of the private key is not supported: {name}; convert it: openssl pkcs8 -topk8 -v2 aes-256-cbc -in key.pem -out new-key.pem"
    )
}

/// The algorithm that encrypts a key, as an object identifier.
fn scheme(key: &[u8]) -> Option<String> {
    let (_, sealed) = Sequence::from_der(key).ok()?;
    let (_, algorithm) = AlgorithmIdentifier::from_der(&sealed.content).ok()?;
    Some(algorithm.algorithm.to_id_string())
}
