//! Elliptic-curve private keys as Java writes them, without the public key. *ring* needs the public
//! key, which comes from the certificate.

use pkcs8::PrivateKeyInfoRef;
use x509_parser::prelude::{FromDer, X509Certificate};

const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const BITS: u8 = 0x03;
/// `[1]`, where RFC 5915 has the public key.
const PUBLIC_KEY: u8 = 0xa1;
/// Object identifier of keys on elliptic curves (id-ecPublicKey).
const ALGORITHM: &str = "1.2.840.10045.2.1";

/// Adds the public key of the certificate to a private key. `None` if the key is not on an elliptic
/// curve, or has its public key already.
pub(super) fn completed(key: &[u8], certificate: &[u8]) -> Option<Vec<u8>> {
    let info = PrivateKeyInfoRef::try_from(key).ok()?;
    if info.algorithm.oid.to_string() != ALGORITHM {
        return None;
    }
    // SEQUENCE { INTEGER 1, OCTET STRING secret, … }, all of it shorter than 128 bytes where the
    // public key is missing.
    let [SEQUENCE, _, 2, 1, 1, OCTETS, len, rest @ ..] = info.private_key.as_bytes() else { return None };
    let (secret, behind) = rest.split_at_checked(usize::from(*len))?;
    if behind.contains(&PUBLIC_KEY) {
        return None;
    }
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let public = &certificate.public_key().subject_public_key.data;
    let bits = element(BITS, &[&[0], &public[..]].concat());
    let parts = [vec![2, 1, 1], element(OCTETS, secret), element(PUBLIC_KEY, &bits)].concat();
    let algorithm = pkcs8::der::Encode::to_der(&info.algorithm).ok()?;
    let inner = element(OCTETS, &element(SEQUENCE, &parts));
    Some(element(SEQUENCE, &[vec![2, 1, 0], algorithm, inner].concat()))
}

/// An element of DER.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut element = vec![tag];
    match content.len() {
        len @ 0..128 => element.push(len as u8),
        len @ 128..256 => element.extend([0x81, len as u8]),
        len => element.extend([0x82, (len >> 8) as u8, len as u8]),
    }
    element.extend(content);
    element
}
