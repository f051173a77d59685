//! The client side of SASL: credentials, and the tokens that show them to a server. The caller
//! sends the tokens.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::jaas::Jaas;
use super::nonce;
use super::sasl::Mechanism;
use super::scram::{ITERATIONS_MAX, ScramMechanism};

#[cfg(test)]
mod tests;

/// Credentials for one mechanism.
#[derive(Clone)]
pub struct SaslLogin {
    mechanism: Mechanism,
    /// Empty for OAUTHBEARER: the token names the user.
    user: String,
    /// A password, or a token.
    secret: String,
    /// True for SCRAM with the id and the HMAC of a delegation token instead of a user and a
    /// password.
    is_delegated: bool,
}

impl fmt::Debug for SaslLogin {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslLogin").field("mechanism", &self.mechanism).field("user", &self.user).finish()
    }
}

/// A server's response that ends a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginFault {
    /// The challenge is malformed.
    #[error("the broker's SCRAM challenge is malformed: {part}")]
    Challenge {
        /// The malformed part.
        part: &'static str,
    },
    /// The challenge requires too much work.
    #[error("the broker's SCRAM challenge requires {iterations} iterations; the limit is {limit}")]
    Iterations {
        /// Number of iterations that the challenge requires.
        iterations: u32,
        /// Maximum number of iterations.
        limit: u32,
    },
    /// The server does not have the credential.
    #[error("the broker cannot prove that it has the password: it may be an impostor; check the address")]
    Server,
    /// The token is refused.
    #[error("the broker refuses the token")]
    Token,
}

impl SaslLogin {
    /// Credentials of this user.
    pub fn new(mechanism: Mechanism, user: String, secret: String) -> Self {
        Self { mechanism, user, secret, is_delegated: false }
    }

    /// Credentials of a login module: with `tokenauth="true"` and SCRAM, a delegation token's.
    pub fn of_module(mechanism: Mechanism, user: String, secret: String, module: &Jaas) -> Self {
        let is_set = module.options.get("tokenauth").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let is_delegated = is_set && matches!(mechanism, Mechanism::Scram(_));
        Self { is_delegated, ..Self::new(mechanism, user, secret) }
    }

    /// The mechanism.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// The user, or the id of a delegation token; empty for OAUTHBEARER.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// True if only the broker knows the user, as with tokens.
    pub fn is_by_token(&self) -> bool {
        self.is_delegated || self.mechanism == Mechanism::OauthBearer
    }

    /// Sends the credentials. `send` sends a token and returns the server's response to it.
    ///
    /// # Errors
    /// A failure of `send`, or a response that is not acceptable.
    pub fn show<E: From<LoginFault>>(
        &self,
        mut send: impl FnMut(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        match self.mechanism {
            Mechanism::Plain => send(format!("\0{}\0{}", self.user, self.secret).as_bytes()).map(drop),
            Mechanism::Scram(mechanism) => self.show_by_scram(mechanism, send),
            Mechanism::OauthBearer => {
                if send(format!("n,,\x01auth=Bearer {}\x01\x01", self.secret).as_bytes())?.is_empty() {
                    return Ok(());
                }
                // The server reports the refusal as an error after this acknowledgement.
                send(b"\x01")?;
                Err(LoginFault::Token.into())
            }
        }
    }

    fn show_by_scram<E: From<LoginFault>>(
        &self,
        mechanism: ScramMechanism,
        mut send: impl FnMut(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let user = self.user.replace('=', "=3D").replace(',', "=2C");
        let own = nonce();
        let extension = if self.is_delegated { ",tokenauth=true" } else { "" };
        let first = format!("n={user},r={own}{extension}");
        let challenge = send(format!("n,,{first}").as_bytes())?;
        let challenge =
            String::from_utf8(challenge).map_err(|_| LoginFault::Challenge { part: "not UTF-8" })?;
        let (both, salt, iterations) = read_challenge(&challenge, &own)?;
        let salted = mechanism.salted_password(&self.secret, &salt, iterations);
        let without_proof = format!("c=biws,r={both}");
        let auth_message = format!("{first},{challenge},{without_proof}");
        let proof = BASE64.encode(mechanism.client_proof(&salted, &auth_message));
        let last = send(format!("{without_proof},p={proof}").as_bytes())?;
        let expected = mechanism.server_signature(&mechanism.server_key(&salted), &auth_message);
        if last == format!("v={}", BASE64.encode(expected)).as_bytes() {
            Ok(())
        } else {
            Err(LoginFault::Server.into())
        }
    }
}

/// Nonce, salt and iterations of a challenge. A server that requires more iterations than the limit
/// would only waste time.
fn read_challenge<'a>(challenge: &'a str, own: &str) -> Result<(&'a str, Vec<u8>, u32), LoginFault> {
    let malformed = |part| LoginFault::Challenge { part };
    let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name));
    let both = field("r=").filter(|both| both.starts_with(own)).ok_or(malformed("nonce (r)"))?;
    let salt = field("s=").and_then(|salt| BASE64.decode(salt).ok()).ok_or(malformed("salt (s)"))?;
    let iterations = field("i=").and_then(|number| number.parse().ok());
    let iterations: u32 = iterations.ok_or(malformed("number of iterations (i)"))?;
    let limit = ITERATIONS_MAX.unsigned_abs() * 64;
    if iterations > limit {
        return Err(LoginFault::Iterations { iterations, limit });
    }
    Ok((both, salt, iterations))
}
