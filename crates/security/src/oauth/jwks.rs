//! Public keys of token issuers, as a JSON Web Key Set (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use super::jwt::Algorithm;

/// Keys, in the order of the document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jwks(Vec<Jwk>);

#[derive(Clone, Debug, PartialEq)]
struct Jwk {
    id: Option<String>,
    algorithm: Option<String>,
    key: Key,
}

#[derive(Clone, Debug, PartialEq)]
enum Key {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
}

/// The document is not a key set.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("not a JSON Web Key Set: {0}")]
pub struct JwksError(String);

impl Jwks {
    /// Reads a document. Keys of kinds that are not known are passed over: providers may offer them
    /// for others.
    ///
    /// # Errors
    /// The text is not a JSON object with a list `keys`.
    pub fn parse(text: &str) -> Result<Self, JwksError> {
        let document: Value = serde_json::from_str(text).map_err(|error| JwksError(error.to_string()))?;
        let keys = document.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or_else(|| JwksError("there is no list `keys`".to_owned()))?;
        Ok(Self(keys.iter().filter_map(Jwk::read).collect()))
    }

    /// True if there is no key to check a signature with.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the signature is from one of the keys. A token that names its key is checked only
    /// with that key.
    pub(super) fn has_signed(
        &self,
        (algorithm, id): (Algorithm, Option<&str>),
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, UnknownKey> {
        let fits = |key: &&Jwk| {
            id.is_none_or(|id| key.id.as_deref() == Some(id))
                && key.algorithm.as_deref().is_none_or(|name| name == algorithm.name())
        };
        let mut fitting = self.0.iter().filter(fits).peekable();
        if fitting.peek().is_none() {
            return Err(UnknownKey);
        }
        Ok(fitting.any(|key| key.key.verify(algorithm, message, signature)))
    }
}

/// No signing key matches the token.
pub(super) struct UnknownKey;

impl Jwk {
    fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |name: &str| BASE64.decode(text(name)?.trim_end_matches('=')).ok();
        let point = |size: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == size && y.len() == size).then(|| [&[4], &*x, &*y].concat())
        };
        let key = match (text("kty")?, text("crv")) {
            ("RSA", _) => Key::Rsa { modulus: bytes("n")?, exponent: bytes("e")? },
            ("EC", Some("P-256")) => Key::P256(point(32)?),
            ("EC", Some("P-384")) => Key::P384(point(48)?),
            _ => return None,
        };
        Some(Self { id: text("kid").map(str::to_owned), algorithm: text("alg").map(str::to_owned), key })
    }
}

impl Key {
    fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match (self, algorithm) {
            (Self::Rsa { modulus, exponent }, _) => {
                let parameters = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    Algorithm::Es256 | Algorithm::Es384 => return false,
                };
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).is_ok()
            }
            (Self::P256(point), Algorithm::Es256) => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, signature).is_ok()
            }
            (Self::P384(point), Algorithm::Es384) => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point);
                key.verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}
