//! Stores with keys that cannot be used. The keys were made by openssl for this test.

use super::{SslSettings, form};

/// The error about the identity in a PEM store.
fn error(pem: &str) -> String {
    let (certificate, key) = {
        let at = pem.find("-----BEGIN CERTIFICATE").unwrap();
        (&pem[at..], &pem[..at])
    };
    let view = SslSettings::new("test", |name| match name {
        "ssl.keystore.certificate.chain" => Some(certificate),
        "ssl.keystore.key" => Some(key),
        "ssl.key.password" => Some("secret"),
        _ => None,
    });
    form::identity(&view).err().expect("a key that cannot be used").to_string()
}

#[test]
fn unsupported_key_kind_is_named_in_error() {
    fn check(pem: &str, expected: &str) {
        let error = error(pem);
        assert!(error.starts_with("test: ssl.keystore.key: ") && error.contains(expected), "{error}");
    }
    check(include_str!("tests/p521.pem"), "elliptic curve P-521; make a key on the curve P-256");
    check(include_str!("tests/rsa1024.pem"), "RSA with 1024 bits; make");
    check(include_str!("tests/ed448.pem"), "Ed448");
    check(
        include_str!("tests/pkcs12-pbe.pem"),
        "PBE of PKCS #12, with 3DES, RC2 or RC4; convert it: openssl",
    );
    check(include_str!("tests/pbes1.pem"), "PBES1; convert it");
    check(include_str!("tests/pbes2-des3.pem"), "PBES2 with a cipher other than AES");
}
