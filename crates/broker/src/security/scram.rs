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
use crate::security::sasl::Step;

/// Fewest iterations that a credential may have.
pub const ITERATIONS_MIN: i32 = 4096;
/// Most iterations that a credential may be given.
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
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Kafka's number.
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

    /// The password as a client hashes it. Takes milliseconds on purpose; no iterations count as
    /// one.
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

    /// The server's key.
    pub fn server_key(self, salted_password: &[u8]) -> Vec<u8> {
        self.hmac(salted_password, b"Server Key")
    }

    /// The credential of a user that does not exist: it has no password, and its salt is always the
    /// same.
    fn made_up(self, secret: &str, user: &str) -> Credential {
        let derive =
            |what: &str| self.hmac(secret.as_bytes(), format!("{what} {} {user}", self.name()).as_bytes());
        // In the form of those that `levada user set` makes.
        let salt: String = derive("salt").iter().take(32).map(|byte| format!("{byte:02x}")).collect();
        Credential {
            salt: salt.into_bytes(),
            stored_key: derive("stored key"),
            server_key: Vec::new(),
            iterations: ITERATIONS_MIN,
        }
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
    /// The server's key.
    pub server_key: Vec<u8>,
    /// Iterations of the password hash.
    pub iterations: i32,
}

impl fmt::Debug for Credential {
    /// Without the keys: who has them can pose as the server.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// The reason why a client is not let in. The answer to clients contains none of it, because it
/// would help to guess passwords.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ScramError {
    #[error("malformed SCRAM {message} message")]
    Malformed { message: &'static str },
    #[error("user {user} has no credential for this mechanism")]
    UnknownUser { user: String },
    #[error("user {user} sent a delegation token; delegation tokens are not supported")]
    Token { user: String },
    #[error("user {user} requested another authorization id")]
    OtherIdentity { user: String },
    #[error("the credential of user {user} has {iterations} iterations, fewer than 4096")]
    TooFewIterations { user: String, iterations: i32 },
    #[error("the client's nonce does not match the server's")]
    Nonce,
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
            | Self::Token { user }
            | Self::OtherIdentity { user }
            | Self::TooFewIterations { user, .. }
            | Self::Proof { user } => Some(user),
            Self::Malformed { .. } | Self::Nonce | Self::Over => None,
        }
    }
}

/// One exchange.
#[derive(Debug)]
pub struct ScramServer {
    mechanism: ScramMechanism,
    state: State,
}

#[derive(Debug)]
enum State {
    First { server_nonce: String },
    Final { user: User, credential: Credential, nonce: String, messages: String },
    Over,
}

/// User name from the client.
#[derive(Debug)]
struct User {
    name: String,
    /// True if there is a credential; without one the exchange continues, so that the client does
    /// not notice.
    exists: bool,
}

impl ScramServer {
    /// Begins; `server_nonce` is printable, without a comma, and cannot be guessed.
    pub fn new(mechanism: ScramMechanism, server_nonce: String) -> Self {
        Self { mechanism, state: State::First { server_nonce } }
    }

    /// The mechanism.
    pub fn mechanism(&self) -> ScramMechanism {
        self.mechanism
    }

    /// Takes the client's next message. `find` looks up a user's credential. For users that do not
    /// exist, the private `secret` yields a false one, the same each time. After an error the SCRAM
    /// exchange has already ended.
    ///
    /// # Errors
    /// The client is not let in.
    pub fn step(
        &mut self,
        message: &[u8],
        find: impl FnOnce(&str) -> Option<Credential>,
        secret: &str,
    ) -> Result<Step, ScramError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::First { server_nonce } => self.first(message, &server_nonce, (find, secret)),
            State::Final { user, credential, nonce, messages } => {
                let last = ClientFinal::parse(message).ok_or(ScramError::Malformed { message: "final" })?;
                if last.nonce != nonce {
                    return Err(ScramError::Nonce);
                }
                let auth_message = format!("{messages},{}", last.without_proof());
                let proved = self.verify(&credential, &auth_message, &last.proof);
                let User { name: user, exists } = user;
                if !exists {
                    return Err(ScramError::UnknownUser { user });
                }
                proved.ok_or_else(|| ScramError::Proof { user: user.clone() })?;
                let signature = self.mechanism.server_signature(&credential.server_key, &auth_message);
                let challenge = format!("v={}", BASE64.encode(signature)).into_bytes();
                Ok(Step { challenge, user: Some(user), expires_ms: None })
            }
            State::Over => Err(ScramError::Over),
        }
    }

    fn first(
        &mut self,
        message: &[u8],
        server_nonce: &str,
        (find, secret): (impl FnOnce(&str) -> Option<Credential>, &str),
    ) -> Result<Step, ScramError> {
        let first = ClientFirst::parse(message).ok_or(ScramError::Malformed { message: "first" })?;
        let user = first.user();
        if first.is_token() {
            return Err(ScramError::Token { user });
        }
        let (found, made_up) = (find(&user), self.mechanism.made_up(secret, &user));
        let exists = found.is_some();
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
        self.state = State::Final { user: User { name: user, exists }, credential, nonce, messages };
        Ok(Step { challenge: challenge.into_bytes(), user: None, expires_ms: None })
    }

    fn verify(&self, credential: &Credential, auth_message: &str, proof: &[u8]) -> Option<()> {
        let signature = self.mechanism.hmac(&credential.stored_key, auth_message.as_bytes());
        if signature.len() != proof.len() {
            return None;
        }
        let stored_key = self.mechanism.hash(&xor(&signature, proof));
        same_secret(&stored_key, &credential.stored_key).then_some(())
    }
}

fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(one, other)| one ^ other).collect()
}

/// Compares in a time that does not depend on where the first difference is.
pub(crate) fn same_secret(one: &[u8], other: &[u8]) -> bool {
    // Tags under a secret key: their comparison reveals nothing about the texts.
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"levada");
    hmac::verify(&key, one, hmac::sign(&key, other).as_ref()).is_ok()
}
