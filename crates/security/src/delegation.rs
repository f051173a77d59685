//! Delegation tokens (KIP-48): the HMAC of a token, which is its password, and the principals that
//! a token names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;

#[cfg(test)]
mod tests;

/// Type of all principals that clients of this broker have.
pub const USER: &str = "User";

/// The HMAC of a token under the secret key that brokers and controllers share.
pub fn token_hmac(secret_key: &str, token_id: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA512, secret_key.as_bytes());
    hmac::sign(&key, token_id.as_bytes()).as_ref().to_vec()
}

/// The password for SCRAM: the HMAC in Base64.
pub fn token_password(hmac: &[u8]) -> String {
    BASE64.encode(hmac)
}

/// Type and name of a principal in text, which is `type:name`.
pub fn principal_parts(principal: &str) -> (&str, &str) {
    principal.split_once(':').unwrap_or((USER, principal))
}
