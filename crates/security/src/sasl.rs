//! SASL in Kafka's protocol: a handshake, then the tokens of the mechanism, bare or inside
//! SaslAuthenticate. An [`Exchange`] takes the frames of a connection until its client is
//! authenticated; another one handles re-authentication.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{
    ApiVersionsResponse, KafkaRequest, KafkaResponse, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse, StrBytes,
};
use levada_wire::{ApiKey, DecodeError, EncodeError, RequestHeader};

use crate::Session;
use crate::oauth::jwks::Jwks;
use crate::oauth::jwt::JwtError;
use crate::oauth::{INVALID_TOKEN, KeySource, OauthConfig, OauthError, OauthServer};
use crate::plain::{self, PlainError};
use crate::scram::{self, CredentialSource, ScramError, ScramServer};
use crate::step::Step;

#[cfg(test)]
mod tests;

/// SASL mechanisms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mechanism {
    /// User and password in clear.
    Plain,
    /// Proof of a password.
    Scram(scram::ScramMechanism),
    /// OAUTHBEARER: a signed token.
    OauthBearer,
}

impl Mechanism {
    /// All mechanisms that the broker offers.
    pub const ALL: [Self; 4] = [
        Self::Plain,
        Self::Scram(scram::ScramMechanism::Sha256),
        Self::Scram(scram::ScramMechanism::Sha512),
        Self::OauthBearer,
    ];

    /// The name of the mechanism in SASL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(mechanism) => mechanism.name(),
            Self::OauthBearer => "OAUTHBEARER",
        }
    }

    /// The mechanism of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

/// One mechanism of a listener.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Mechanism of the listener.
    pub mechanism: Mechanism,
    /// Time that a session lasts before its client has to show again who it is; none for ever.
    pub session_ms_max: Option<i64>,
}

/// SASL as one listener offers it.
#[derive(Clone, PartialEq)]
pub struct SaslConfig {
    /// The mechanisms, in their order in the response to clients.
    pub offers: Vec<Offer>,
    /// Users and passwords for PLAIN.
    pub passwords: BTreeMap<String, String>,
    /// Requirements for tokens of OAUTHBEARER.
    pub tokens: OauthConfig,
}

impl fmt::Debug for SaslConfig {
    /// Omits the passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslConfig")
            .field("offers", &self.offers)
            .field("users", &self.passwords.keys())
            .finish()
    }
}

impl SaslConfig {
    fn offer(&self, name: &str) -> Option<Offer> {
        self.offers.iter().copied().find(|offer| offer.mechanism.name() == name)
    }

    fn names(&self) -> Vec<StrBytes> {
        self.offers.iter().map(|offer| StrBytes::from(offer.mechanism.name())).collect()
    }
}

/// An authenticated user, and the way of authentication.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthenticatedUser {
    /// Name of the user.
    pub user: String,
    /// Mechanism of the authentication.
    pub mechanism: Mechanism,
    /// True if the user is the owner of a delegation token, which was shown.
    pub by_token: bool,
}

/// Context of a frame.
pub struct FrameContext<'a> {
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
    /// Credentials for SCRAM.
    pub credentials: CredentialSource<'a>,
    /// The last loaded keys of an address, for tokens.
    pub keys: &'a dyn Fn(&KeySource) -> Arc<Jwks>,
}

/// Outcome of a frame.
#[derive(Debug)]
pub enum SaslOutcome {
    /// An ApiVersions request, to be processed like any other.
    Versions(RequestHeader, BytesMut),
    /// Send this and continue.
    Reply(Bytes),
    /// The client is known. Send this.
    Done {
        /// Last message to the client.
        reply: Bytes,
        /// Identity of the client.
        identity: AuthenticatedUser,
        /// Time at which the session ends, if it has one.
        expires_ms: Option<i64>,
    },
    /// The client is refused: after a delay send this response, if there is one, and close the
    /// connection.
    Refused {
        /// Message to the client, if the mechanism has one.
        reply: Option<Bytes>,
        /// Reason of the refusal.
        error: SaslError,
    },
}

/// The reason why a client is refused; the client does not get this text.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SaslError {
    #[error("malformed frame during authentication: {0}")]
    Malformed(#[from] DecodeError),
    #[error("unexpected {api} request during authentication")]
    Unexpected { api: ApiKey },
    #[error("mechanism {mechanism:?} is not enabled on this listener")]
    Mechanism { mechanism: String },
    #[error("re-authentication uses mechanism {asked} instead of {before}")]
    OtherMechanism { asked: &'static str, before: &'static str },
    #[error("re-authentication as user {asked} instead of {before}")]
    OtherUser { asked: String, before: String },
    #[error(transparent)]
    Plain(#[from] PlainRefusal),
    #[error(transparent)]
    Scram(#[from] ScramError),
    #[error(transparent)]
    Oauth(#[from] OauthError),
    #[error("{} is reserved for unauthenticated clients and cannot be a user name", Session::ANONYMOUS)]
    Anonymous,
    #[error("cannot encode the response: {0}")]
    Encode(#[from] EncodeError),
}

/// Reason for which PLAIN refuses a client.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PlainRefusal(#[from] PlainError);

/// The talk with one client until it is known.
#[derive(Debug)]
pub struct Exchange {
    config: Arc<SaslConfig>,
    state: State,
    /// True if tokens are sent inside SaslAuthenticate.
    framed: bool,
    nonce: String,
    /// The client's identity before; it must stay the same.
    before: Option<AuthenticatedUser>,
}

#[derive(Debug)]
enum State {
    VersionsOrHandshake,
    Handshake,
    Tokens(Server, Offer),
    /// The re-authentication names the wrong mechanism; the next response reports it.
    OtherMechanism {
        asked: &'static str,
        before: &'static str,
    },
    Over,
}

#[derive(Debug)]
enum Server {
    Plain,
    Scram(ScramServer),
    Oauth(OauthServer),
}

impl Exchange {
    /// Name of the mechanism that the client has chosen, if it has.
    pub fn mechanism(&self) -> Option<&'static str> {
        match &self.state {
            State::Tokens(_, offer) => Some(offer.mechanism.name()),
            _ => None,
        }
    }

    /// Begins with a new connection. `nonce` is printable, without a comma, and cannot be guessed.
    pub fn new(config: Arc<SaslConfig>, nonce: String) -> Self {
        Self { config, state: State::VersionsOrHandshake, framed: false, nonce, before: None }
    }

    /// Starts a re-authentication of a client that was `before`; its handshake is the first frame.
    pub fn again(config: Arc<SaslConfig>, nonce: String, before: AuthenticatedUser) -> Self {
        Self { before: Some(before), ..Self::new(config, nonce) }
    }

    /// True if the client was known before.
    pub fn is_again(&self) -> bool {
        self.before.is_some()
    }

    /// Address that should have the signing key of the client's token, and lacks it.
    pub fn misses_key(&self) -> Option<&KeySource> {
        match &self.state {
            State::Tokens(Server::Oauth(server), _)
                if matches!(server.refused(), Some(JwtError::UnknownKey { .. })) =>
            {
                Some(&self.config.tokens.keys)
            }
            _ => None,
        }
    }

    /// Processes the next frame, without its size.
    pub fn step(&mut self, frame: BytesMut, moment: &FrameContext<'_>) -> SaslOutcome {
        let taken = match std::mem::replace(&mut self.state, State::Over) {
            State::Tokens(server, offer) if self.framed => self.take_framed(frame, (server, offer), moment),
            State::Tokens(server, offer) => self.take_bare(&frame, (server, offer), moment),
            State::OtherMechanism { asked, before } => {
                self.refuse_mechanism(frame, SaslError::OtherMechanism { asked, before })
            }
            State::Over => Err(SaslError::Unexpected { api: ApiKey::SaslAuthenticate }),
            state => self.take_request(frame, matches!(state, State::VersionsOrHandshake)),
        };
        taken.unwrap_or_else(|error| SaslOutcome::Refused { reply: None, error })
    }

    fn take_request(
        &mut self,
        mut frame: BytesMut,
        may_ask_versions: bool,
    ) -> Result<SaslOutcome, SaslError> {
        let header = RequestHeader::decode(&mut frame)?;
        match header.api {
            ApiKey::ApiVersions if may_ask_versions => {
                let answered = header.api.serves(header.version);
                self.state = if answered { State::Handshake } else { State::VersionsOrHandshake };
                Ok(SaslOutcome::Versions(header, frame))
            }
            ApiKey::SaslHandshake => self.handshake(&header, frame),
            api => Err(SaslError::Unexpected { api }),
        }
    }

    fn handshake(&mut self, header: &RequestHeader, body: BytesMut) -> Result<SaslOutcome, SaslError> {
        let request: SaslHandshakeRequest = decode(header, body)?;
        self.framed = header.version >= 1;
        let mut response = SaslHandshakeResponse::default();
        response.mechanisms = self.config.names();
        let Some(offer) = self.config.offer(request.mechanism.as_str()) else {
            response.error_code = ErrorCode::UnsupportedSaslMechanism.code();
            let error = SaslError::Mechanism { mechanism: request.mechanism.as_str().to_owned() };
            return Ok(SaslOutcome::Refused { reply: Some(encode(header, &response)?), error });
        };
        let asked = offer.mechanism;
        self.state = match &self.before {
            Some(before) if before.mechanism != asked => {
                State::OtherMechanism { asked: asked.name(), before: before.mechanism.name() }
            }
            _ => State::Tokens(Server::new(asked, &self.nonce), offer),
        };
        Ok(SaslOutcome::Reply(encode(header, &response)?))
    }

    fn take_bare(
        &mut self,
        token: &[u8],
        (mut server, offer): (Server, Offer),
        moment: &FrameContext<'_>,
    ) -> Result<SaslOutcome, SaslError> {
        let Step { challenge, user, expires_ms } = server.take(token, &self.config, moment)?;
        let mut reply = BytesMut::with_capacity(4 + challenge.len());
        reply.put_u32(u32::try_from(challenge.len()).expect("a challenge is short"));
        reply.put_slice(&challenge);
        let reply = reply.freeze();
        let Some(user) = user else {
            self.state = State::Tokens(server, offer);
            return Ok(SaslOutcome::Reply(reply));
        };
        let identity = self.identity(user, (&server, offer))?;
        Ok(SaslOutcome::Done { reply, identity, expires_ms: expiry(offer, expires_ms, moment.now_ms) })
    }

    fn take_framed(
        &mut self,
        mut frame: BytesMut,
        (mut server, offer): (Server, Offer),
        moment: &FrameContext<'_>,
    ) -> Result<SaslOutcome, SaslError> {
        let header = RequestHeader::decode(&mut frame)?;
        if header.api != ApiKey::SaslAuthenticate {
            let error = SaslError::Unexpected { api: header.api };
            return Ok(SaslOutcome::Refused { reply: out_of_turn(&header)?, error });
        }
        let request: SaslAuthenticateRequest = decode(&header, frame)?;
        let taken = server.take(&request.auth_bytes, &self.config, moment);
        let taken = taken.and_then(|taken| match taken.user {
            Some(user) => {
                let identity = self.identity(user, (&server, offer))?;
                Ok((taken.challenge, Some((identity, taken.expires_ms))))
            }
            None => Ok((taken.challenge, None)),
        });
        match taken {
            Ok((challenge, known)) => {
                let mut response = SaslAuthenticateResponse::default();
                response.auth_bytes = challenge.into();
                let Some((identity, expires_ms)) = known else {
                    self.state = State::Tokens(server, offer);
                    return Ok(SaslOutcome::Reply(encode(&header, &response)?));
                };
                let expires_ms = expiry(offer, expires_ms, moment.now_ms);
                if header.version >= 1 {
                    response.session_lifetime_ms =
                        expires_ms.map_or(0, |expires_ms| expires_ms - moment.now_ms);
                }
                Ok(SaslOutcome::Done { reply: encode(&header, &response)?, identity, expires_ms })
            }
            Err(error) => {
                let text = error.told(offer.mechanism, self.before.is_some());
                Ok(SaslOutcome::Refused { reply: Some(failed(&header, text)?), error })
            }
        }
    }

    fn refuse_mechanism(&self, mut frame: BytesMut, error: SaslError) -> Result<SaslOutcome, SaslError> {
        let header = RequestHeader::decode(&mut frame)?;
        if !self.framed || header.api != ApiKey::SaslAuthenticate {
            return Err(error);
        }
        Ok(SaslOutcome::Refused { reply: Some(failed(&header, error.to_string())?), error })
    }

    fn identity(&self, user: String, way: (&Server, Offer)) -> Result<AuthenticatedUser, SaslError> {
        let (server, Offer { mechanism, .. }) = way;
        let by_token = matches!(server, Server::Scram(scram) if scram.is_by_token());
        match &self.before {
            _ if user == Session::ANONYMOUS => Err(SaslError::Anonymous),
            Some(before) if before.user != user => {
                Err(SaslError::OtherUser { asked: user, before: before.user.clone() })
            }
            _ => Ok(AuthenticatedUser { user, mechanism, by_token }),
        }
    }
}

impl Server {
    fn new(mechanism: Mechanism, nonce: &str) -> Self {
        match mechanism {
            Mechanism::Plain => Self::Plain,
            Mechanism::Scram(mechanism) => Self::Scram(ScramServer::new(mechanism, nonce.to_owned())),
            Mechanism::OauthBearer => Self::Oauth(OauthServer::default()),
        }
    }

    fn take(
        &mut self,
        token: &[u8],
        config: &SaslConfig,
        moment: &FrameContext<'_>,
    ) -> Result<Step, SaslError> {
        match self {
            Self::Plain => {
                let user = plain::authenticate(token, &config.passwords).map_err(PlainRefusal)?;
                Ok(Step { challenge: Vec::new(), user: Some(user), expires_ms: None })
            }
            Self::Scram(server) => Ok(server.step(token, &moment.credentials)?),
            Self::Oauth(server) => {
                let keys = (moment.keys)(&config.tokens.keys);
                Ok(server.step(token, &config.tokens, (&keys, moment.now_ms))?)
            }
        }
    }
}

impl SaslError {
    /// Message to the client, in Kafka's words: nothing that helps to guess.
    fn told(&self, mechanism: Mechanism, again: bool) -> String {
        match self {
            Self::Plain(error) => error.to_string(),
            Self::OtherUser { asked, before } => {
                format!("Cannot change principals during re-authentication from User.{before}: User.{asked}")
            }
            Self::Oauth(OauthError::Token(_)) => INVALID_TOKEN.to_owned(),
            Self::Oauth(OauthError::OtherIdentity { user, asked }) => format!(
                "Authentication failed: Client requested an authorization id ({asked}) that is different from \
                 the token's principal name ({user})"
            ),
            Self::Scram(ScramError::OtherIdentity { .. }) => {
                "Authentication failed: Client requested an authorization id that is different from username"
                    .to_owned()
            }
            _ => {
                let what = if again { "re-authentication" } else { "authentication" };
                let name = mechanism.name();
                format!(
                    "Authentication failed during {what} due to invalid credentials with SASL mechanism {name}"
                )
            }
        }
    }

    /// The user who was named, if one was.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Plain(PlainRefusal(error)) => error.user(),
            Self::Scram(error) => error.user(),
            Self::Oauth(OauthError::OtherIdentity { user, .. }) => Some(user),
            Self::OtherUser { asked, .. } => Some(asked),
            Self::Anonymous => Some(Session::ANONYMOUS),
            _ => None,
        }
    }
}

/// End of a session: the end of its credential, or the end of the offer, if earlier.
fn expiry(offer: Offer, credential_ms: Option<i64>, now_ms: i64) -> Option<i64> {
    let offered_ms = offer.session_ms_max.map(|session_ms| now_ms.saturating_add(session_ms));
    // A credential may be past its end by as much as clocks may differ.
    let credential_ms = credential_ms.map(|ms| ms.max(now_ms));
    offered_ms.into_iter().chain(credential_ms).min()
}

fn failed(header: &RequestHeader, text: String) -> Result<Bytes, EncodeError> {
    let mut response = SaslAuthenticateResponse::default();
    response.error_code = ErrorCode::SaslAuthenticationFailed.code();
    response.error_message = Some(StrBytes::from(text));
    encode(header, &response)
}

fn decode<R: KafkaRequest>(header: &RequestHeader, body: BytesMut) -> Result<R, DecodeError> {
    levada_wire::decode(body.freeze(), header.version)
}

fn encode<R: KafkaResponse>(header: &RequestHeader, response: &R) -> Result<Bytes, EncodeError> {
    levada_wire::encode_response(header.correlation_id, header.version, response)
}

/// The response to a request instead of a token, for the two requests that clients send by mistake;
/// none for any other.
fn out_of_turn(header: &RequestHeader) -> Result<Option<Bytes>, EncodeError> {
    let error_code = ErrorCode::IllegalSaslState.code();
    match header.api {
        api if !api.serves(header.version) => Ok(None),
        ApiKey::ApiVersions => {
            let mut response = ApiVersionsResponse::default();
            response.error_code = error_code;
            encode(header, &response).map(Some)
        }
        ApiKey::SaslHandshake => {
            let mut response = SaslHandshakeResponse::default();
            response.error_code = error_code;
            encode(header, &response).map(Some)
        }
        _ => Ok(None),
    }
}
