//! The server side of OAUTHBEARER (RFC 7628): a signed token names the client and its expiry.

use std::fmt;

use crate::jaas::Jaas;
use crate::step::Step;

pub mod jwks;
pub mod jwt;
#[cfg(test)]
mod tests;

use self::jwks::Jwks;
use self::jwt::JwtError;

/// Requirements for tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OauthConfig {
    /// Address of the signing keys of tokens.
    pub keys: KeySource,
    /// `sasl.oauthbearer.clock.skew.seconds`, in milliseconds.
    pub clock_skew_ms: i64,
    /// `sasl.oauthbearer.expected.audience`; empty for tokens without an audience.
    pub audiences: Vec<String>,
    /// `sasl.oauthbearer.expected.issuer`.
    pub issuer: Option<String>,
    /// `sasl.oauthbearer.scope.claim.name`.
    pub scope_claim: String,
    /// `sasl.oauthbearer.sub.claim.name`.
    pub sub_claim: String,
}

/// Address of the keys, and its trust store: two listeners with one address may trust different
/// authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeySource {
    /// `sasl.oauthbearer.jwks.endpoint.url`.
    pub url: String,
    /// `sasl.jaas.config`: its options `ssl.*` are for having the keys by https.
    pub login: Option<Jaas>,
}

/// The reason for the refusal of a client. The response only says that its token is not valid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OauthError {
    /// The message is not of this mechanism.
    #[error("malformed OAUTHBEARER message: expected {expected}")]
    Malformed {
        /// Value that was expected.
        expected: &'static str,
    },
    /// The client has received the refusal of its token.
    #[error("the token was refused: {0}")]
    Token(JwtError),
    /// The client requests authorization as another user.
    #[error("user {user} requested another authorization id")]
    OtherIdentity {
        /// The user of the token.
        user: String,
        /// User name from the client.
        asked: String,
    },
}

/// Message to a client whose token is refused.
pub const INVALID_TOKEN: &str = "{\"status\":\"invalid_token\"}";

/// Authentication of one client by OAUTHBEARER.
#[derive(Debug, Default)]
pub struct OauthServer {
    /// The client has received the error, and has to acknowledge it.
    refused: Option<JwtError>,
}

impl OauthServer {
    /// Processes the client's next message.
    ///
    /// # Errors
    /// The client is refused.
    pub fn step(
        &mut self,
        message: &[u8],
        config: &OauthConfig,
        (keys, now_ms): (&Jwks, i64),
    ) -> Result<Step, OauthError> {
        // Also if the client sends another token: that would be a guess without a delay.
        if let Some(error) = self.refused.take() {
            return Err(OauthError::Token(error));
        }
        let initial = Initial::parse(message)?;
        let token = match jwt::verify(initial.token, config, (keys, now_ms)) {
            Ok(token) => token,
            Err(error) => {
                self.refused = Some(error);
                return Ok(Step { challenge: INVALID_TOKEN.into(), user: None, expires_ms: None });
            }
        };
        if !initial.authorization_id.is_empty() && initial.authorization_id != token.user {
            let asked = initial.authorization_id.to_owned();
            return Err(OauthError::OtherIdentity { user: token.user, asked });
        }
        Ok(Step { challenge: Vec::new(), user: Some(token.user), expires_ms: Some(token.expires_ms) })
    }

    /// The reason why the token was refused, between the refusal and the client's response to it.
    pub fn refused(&self) -> Option<&JwtError> {
        self.refused.as_ref()
    }
}

/// `n,[a=authzid],^A auth=Bearer TOKEN ^A [name=value^A]… ^A`
struct Initial<'a> {
    authorization_id: &'a str,
    token: &'a str,
}

impl fmt::Debug for Initial<'_> {
    /// Omits the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initial").field("authorization_id", &self.authorization_id).finish_non_exhaustive()
    }
}

impl<'a> Initial<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, OauthError> {
        let malformed = |expected| OauthError::Malformed { expected };
        let text = std::str::from_utf8(message).map_err(|_| malformed("text"))?;
        let (head, pairs) = text.split_once('\x01').ok_or(malformed("a header"))?;
        let authorization_id = head.strip_prefix("n,").and_then(|rest| rest.strip_suffix(','));
        let authorization_id = match authorization_id.ok_or(malformed("n,[a=identity],"))? {
            "" => "",
            given => given.strip_prefix("a=").filter(|id| is_name(id)).ok_or(malformed("a=identity"))?,
        };
        let pairs = pairs.strip_suffix('\x01').ok_or(malformed("an end"))?;
        let mut auth = None;
        for pair in pairs.split_terminator('\x01') {
            let (name, value) = pair.split_once('=').ok_or(malformed("name=value"))?;
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic()) || !is_value(value) {
                return Err(malformed("name=value"));
            }
            if name == "auth" {
                auth = Some(value);
            }
        }
        let (scheme, token) =
            auth.and_then(|auth| auth.split_once(' ')).ok_or(malformed("auth=Bearer token"))?;
        let token = token.trim_start_matches(' ');
        if !scheme.eq_ignore_ascii_case("bearer") || !is_token(token) {
            return Err(malformed("auth=Bearer token"));
        }
        Ok(Self { authorization_id, token })
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| (1..=0x7f).contains(&byte) && byte != b',')
}

fn is_value(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() || b" \t\r\n".contains(&byte))
}

fn is_token(token: &str) -> bool {
    let body = token.trim_end_matches('=');
    !body.is_empty() && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_~+/.".contains(&byte))
}
