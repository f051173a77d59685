//! The server side of SCRAM (RFC 5802), with SHA-256 or SHA-512, and the computations that clients
//! and tools share.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

mod messages;
#[cfg(test)]
mod tests;

use self::messages::{ClientFinal, ClientFirst};
use crate::step::Step;

/// Minimum number of iterations that a credential may have.
pub const ITERATIONS_MIN: i32 = 4096;
/// Largest number of iterations of a credential.
pub const ITERATIONS_MAX: i32 = 16384;

/// SCRAM with one of two hashes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ScramMechanism {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl ScramMechanism {
    /// Both mechanisms.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Number of the mechanism in Kafka's protocol.
    pub fn code(self) -> i8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    /// The mechanism with that number.
    pub fn from_code(code: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.code() == code)
    }

    /// The name of the mechanism in SASL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The mechanism of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec()
    }

    fn hash(self, data: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, data).as_ref().to_vec()
    }

    /// The salted hash of a password, as a client computes it. Takes milliseconds on purpose; no
    /// iterations count as one.
    pub fn salted_password(self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let (algorithm, size) = match self {
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, digest::SHA256_OUTPUT_LEN),
            Self::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, digest::SHA512_OUTPUT_LEN),
        };
        let mut salted = vec![0; size];
        let iterations = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut salted);
        salted
    }

    /// Key that the client's proof demonstrates.
    pub fn client_key(self, salted_password: &[u8]) -> Vec<u8> {
        self.hmac(salted_password, b"Client Key")
    }

    /// Proof of the client.
    pub fn client_proof(self, salted_password: &[u8], auth_message: &str) -> Vec<u8> {
        let key = self.client_key(salted_password);
        let signature = self.hmac(&self.hash(&key), auth_message.as_bytes());
        xor(&key, &signature)
    }

    /// Key with which the server proves that it has the credential.
    pub fn server_signature(self, server_key: &[u8], auth_message: &str) -> Vec<u8> {
        self.hmac(server_key, auth_message.as_bytes())
    }

    /// Server key of a salted password.
    pub fn server_key(self, salted_password: &[u8]) -> Vec<u8> {
        self.hmac(salted_password, b"Server Key")
    }

    /// The credential of a user that does not exist: it has no password, and its salt is always the
    /// same.
    fn made_up(self, secret: &str, user: &str) -> Credential {
        Credential {
            salt: self.derived_salt(secret, user),
            stored_key: self.derived(secret, "stored key", user),
            server_key: Vec::new(),
            iterations: ITERATIONS_MIN,
        }
    }

    fn derived(self, secret: &str, what: &str, user: &str) -> Vec<u8> {
        self.hmac(secret.as_bytes(), format!("{what} {} {user}", self.name()).as_bytes())
    }

    /// A salt of the same form as those of `levada user set`.
    fn derived_salt(self, secret: &str, user: &str) -> Vec<u8> {
        let bytes = self.derived(secret, "salt", user);
        bytes.iter().take(32).flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
    }

    /// The credential of a delegation token with this password. Its salt is that of a token that
    /// does not exist, so that the challenge reveals nothing. Takes milliseconds.
    pub fn token_credential(self, secret: &str, id: &str, password: &str) -> Credential {
        let salt = self.derived_salt(secret, id);
        let salted = self.salted_password(password, &salt, ITERATIONS_MIN.unsigned_abs());
        self.credential(&salted, salt, ITERATIONS_MIN)
    }

    /// The credential that the server keeps of a hashed password.
    pub fn credential(self, salted_password: &[u8], salt: Vec<u8>, iterations: i32) -> Credential {
        let stored_key = self.hash(&self.client_key(salted_password));
        Credential { salt, stored_key, server_key: self.server_key(salted_password), iterations }
    }
}

/// Stored form of a password.
#[derive(Clone, PartialEq)]
pub struct Credential {
    /// Salt of the password hash.
    pub salt: Vec<u8>,
    /// The hash of the client's key.
    pub stored_key: Vec<u8>,
    /// Server key.
    pub server_key: Vec<u8>,
    /// Number of iterations of the password hash.
    pub iterations: i32,
}

impl fmt::Debug for Credential {
    /// Omits the keys: a reader of them could pose as the server.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// The reason for the refusal of a client. The response to clients does not contain it, because it
/// would help to guess passwords.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ScramError {
    #[error("malformed SCRAM {message} message")]
    Malformed { message: &'static str },
    #[error("user {user} has no credential for this mechanism")]
    UnknownUser { user: String },
    #[error("delegation token {id} does not exist, or has expired")]
    UnknownToken { id: String },
    #[error("wrong HMAC for delegation token {id}")]
    TokenProof { id: String },
    #[error("user {user} requested another authorization id")]
    OtherIdentity { user: String },
    #[error("the credential of user {user} has {iterations} iterations, fewer than 4096")]
    TooFewIterations { user: String, iterations: i32 },
    #[error(
        "the last message of {client} repeats another nonce than the server's, as librdkafka before 2.6.1 does"
    )]
    Nonce { client: String },
    #[error("wrong password for user {user}")]
    Proof { user: String },
    #[error("the SCRAM exchange has already ended")]
    Over,
}

impl ScramError {
    /// The user who was named, if one was.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::UnknownUser { user }
            | Self::OtherIdentity { user }
            | Self::TooFewIterations { user, .. }
            | Self::Proof { user } => Some(user),
            Self::Malformed { .. }
            | Self::UnknownToken { .. }
            | Self::TokenProof { .. }
            | Self::Nonce { .. }
            | Self::Over => None,
        }
    }
}

/// A delegation token that authenticates its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogin {
    /// Name of the owner.
    pub owner: String,
    /// Credential made of the token's password.
    pub credential: Credential,
    /// Expiry of the token, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// Source of the SCRAM credentials that a client authenticates against.
#[derive(Clone, Copy)]
pub struct CredentialSource<'a> {
    /// Function that looks up the credential of a user.
    pub of_user: &'a dyn Fn(&str, ScramMechanism) -> Option<Credential>,
    /// Function that looks up a delegation token by its id. It does not find an expired token.
    pub of_token: &'a dyn Fn(&str, ScramMechanism) -> Option<TokenLogin>,
    /// A private text that yields false credentials for users and tokens that do not exist, the
    /// same ones each time.
    pub secret: &'a str,
}

/// Authentication of one client by SCRAM.
#[derive(Debug)]
pub struct ScramServer {
    mechanism: ScramMechanism,
    state: State,
    is_by_token: bool,
}

#[derive(Debug)]
enum State {
    First { server_nonce: String },
    Final { client: Claim, credential: Credential, nonce: String, messages: String },
    Over,
}

/// Identity that the client has yet to prove. If there is no credential for it, the exchange
/// continues, so that the client does not notice.
#[derive(Debug)]
enum Claim {
    User { name: String, exists: bool },
    Token { id: String, login: Option<(String, i64)> },
}

impl Claim {
    /// Name of the client for messages.
    fn text(&self) -> String {
        match self {
            Self::User { name, .. } => format!("user {name}"),
            Self::Token { id, .. } => format!("delegation token {id}"),
        }
    }

    /// The authenticated user and the expiry, if the proof is right; otherwise the reason for a
    /// refusal.
    fn settle(self, is_proved: bool) -> Result<(String, Option<i64>), ScramError> {
        match self {
            Self::User { name: user, exists: false } => Err(ScramError::UnknownUser { user }),
            Self::User { name: user, .. } if !is_proved => Err(ScramError::Proof { user }),
            Self::User { name, .. } => Ok((name, None)),
            Self::Token { id, login: None } => Err(ScramError::UnknownToken { id }),
            Self::Token { id, .. } if !is_proved => Err(ScramError::TokenProof { id }),
            Self::Token { login: Some((owner, expires_ms)), .. } => Ok((owner, Some(expires_ms))),
        }
    }
}

impl ScramServer {
    /// Begins; `server_nonce` is printable, without a comma, and cannot be guessed.
    pub fn new(mechanism: ScramMechanism, server_nonce: String) -> Self {
        Self { mechanism, state: State::First { server_nonce }, is_by_token: false }
    }

    /// True if the client has named a delegation token instead of a user.
    pub fn is_by_token(&self) -> bool {
        self.is_by_token
    }

    /// Processes the client's next message, which may name a user or a token of `source`. After an
    /// error the SCRAM exchange has already ended.
    ///
    /// # Errors
    /// The client is refused.
    pub fn step(&mut self, message: &[u8], source: &CredentialSource<'_>) -> Result<Step, ScramError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::First { server_nonce } => self.first(message, &server_nonce, source),
            State::Final { client, credential, nonce, messages } => {
                let last = ClientFinal::parse(message).ok_or(ScramError::Malformed { message: "final" })?;
                if last.nonce != nonce {
                    return Err(ScramError::Nonce { client: client.text() });
                }
                let auth_message = format!("{messages},{}", last.without_proof());
                let is_proved = self.verify(&credential, &auth_message, &last.proof);
                let (user, expires_ms) = client.settle(is_proved)?;
                let signature = self.mechanism.server_signature(&credential.server_key, &auth_message);
                let challenge = format!("v={}", BASE64.encode(signature)).into_bytes();
                Ok(Step { challenge, user: Some(user), expires_ms })
            }
            State::Over => Err(ScramError::Over),
        }
    }

    fn first(
        &mut self,
        message: &[u8],
        server_nonce: &str,
        source: &CredentialSource<'_>,
    ) -> Result<Step, ScramError> {
        let first = ClientFirst::parse(message).ok_or(ScramError::Malformed { message: "first" })?;
        let user = first.user();
        self.is_by_token = first.is_token();
        let made_up = self.mechanism.made_up(source.secret, &user);
        let (found, client) = if self.is_by_token {
            let (login, credential) = match (source.of_token)(&user, self.mechanism) {
                Some(token) => (Some((token.owner, token.expires_ms)), Some(token.credential)),
                None => (None, None),
            };
            (credential, Claim::Token { id: user.clone(), login })
        } else {
            let found = (source.of_user)(&user, self.mechanism);
            let exists = found.is_some();
            (found, Claim::User { name: user.clone(), exists })
        };
        let credential = found.unwrap_or(made_up);
        if !first.authorization_id.is_empty() && first.authorization_id != user {
            return Err(ScramError::OtherIdentity { user });
        }
        if credential.iterations < ITERATIONS_MIN {
            return Err(ScramError::TooFewIterations { user, iterations: credential.iterations });
        }
        let nonce = format!("{}{server_nonce}", first.nonce);
        let challenge =
            format!("r={nonce},s={},i={}", BASE64.encode(&credential.salt), credential.iterations);
        let messages = format!("{},{challenge}", first.bare());
        self.state = State::Final { client, credential, nonce, messages };
        Ok(Step { challenge: challenge.into_bytes(), user: None, expires_ms: None })
    }

    fn verify(&self, credential: &Credential, auth_message: &str, proof: &[u8]) -> bool {
        let signature = self.mechanism.hmac(&credential.stored_key, auth_message.as_bytes());
        if signature.len() != proof.len() {
            return false;
        }
        let stored_key = self.mechanism.hash(&xor(&signature, proof));
        same_secret(&stored_key, &credential.stored_key)
    }
}

fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(one, other)| one ^ other).collect()
}

/// Compares in a time that does not depend on where the first difference is.
pub fn same_secret(one: &[u8], other: &[u8]) -> bool {
    // Tags under a secret key: their comparison reveals nothing about the texts.
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"levada");
    hmac::verify(&key, one, hmac::sign(&key, other).as_ref()).is_ok()
}
