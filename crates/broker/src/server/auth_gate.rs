//! The authentication gate of a connection. On a listener with SASL, no request passes before the
//! client has authenticated or after its session has expired. Without SASL every request passes, in
//! the name of the client's certificate or as anonymous.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use levada_process::clock::{now_ms, steady_ms};
use levada_security::sasl::{AuthenticatedUser, Exchange, FrameContext, SaslConfig, SaslError, SaslOutcome};
use levada_security::scram::CredentialSource;
use levada_security::{Session, nonce, process_secret};
use levada_wire::{ApiKey, RequestHeader};

use crate::api::connection_info::ConnectionInfo;
use crate::broker::Broker;

/// Shortest time between two re-authentications of a client.
const AGAIN_AFTER_MS: i64 = 1000;

/// Time that an authentication may take.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Mechanism of clients that have not chosen one, in counts.
const NO_MECHANISM: &str = "none";

/// Authentication state of one connection.
pub(super) struct AuthGate {
    session: Rc<Session>,
    state: State,
    /// Start of the last authentication.
    talking: Instant,
}

enum State {
    /// The client is authenticated, or the listener requires no authentication.
    Open(Option<Authenticated>),
    Talking(Box<Exchange>),
}

/// Authentication of a client.
struct Authenticated {
    identity: AuthenticatedUser,
    /// Time at which the session expires, by the monotonic clock: setting the wall clock ends no
    /// session, and lengthens none.
    expires_ms: Option<i64>,
    /// Start of the last re-authentication, by the monotonic clock.
    again_ms: Option<i64>,
}

/// Next step for a received frame.
pub(super) enum AuthStep {
    /// The request is to be processed.
    Through(BytesMut),
    /// The request is ApiVersions, which needs no authentication.
    Versions(RequestHeader, BytesMut),
    /// The broker sends this response.
    Answer(Bytes),
    /// After a delay the broker sends this response, if there is one, and closes the connection.
    Closed { answer: Option<Bytes>, after: Duration, error: AuthError },
}

/// The reason why a connection is closed at the gate.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthError {
    #[error("authentication failed: {0}")]
    Refused(#[from] SaslError),
    #[error("the SASL session of user {user} expired {} s ago, and the client did not re-authenticate", .ago_ms / 1000)]
    Expired { user: String, ago_ms: i64 },
    #[error("the client did not authenticate within {} s", TIME_MAX.as_secs())]
    Late,
}

impl AuthGate {
    /// The gate of the connection `info`.
    pub(super) fn new(broker: &Broker, info: &ConnectionInfo) -> Self {
        let sasl = sasl(broker, info);
        let address = info.peer.ip();
        let session = match &info.certificate {
            Some(name) if sasl.is_none() => Session::new(&name.principal, address),
            _ => Session::anonymous(address),
        };
        if sasl.is_none() {
            let mechanism = if info.certificate.is_some() { "certificate" } else { "none" };
            broker.access().audit().entered(&session, &info.listener.name, mechanism);
        }
        let state = match sasl {
            Some(config) => State::Talking(Box::new(Exchange::new(config, nonce()))),
            None => State::Open(None),
        };
        Self { session: Rc::new(session), state, talking: Instant::now() }
    }

    /// Identity of the client.
    pub(super) fn session(&self) -> &Rc<Session> {
        &self.session
    }

    /// Writes the end of the connection to the audit log, if the client was authenticated.
    pub(super) fn close(&self, broker: &Broker, info: &ConnectionInfo, reason: &dyn std::fmt::Display) {
        if self.has_entered() {
            broker.access().audit().left(&self.session, &info.listener.name, reason);
        }
    }

    /// True if the client is authenticated, or the listener requires no authentication.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// True if the client has ever been authenticated, also while it authenticates again.
    fn has_entered(&self) -> bool {
        match &self.state {
            State::Open(_) => true,
            State::Talking(exchange) => exchange.is_again(),
        }
    }

    /// Deadline for authentication; none once the client is authenticated.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.is_open()).then(|| self.talking + TIME_MAX)
    }

    /// Refuses a client that did not authenticate in time.
    pub(super) fn too_late(&self, broker: &Broker, info: &ConnectionInfo) -> AuthError {
        broker.stats().authentication(&info.listener.name, NO_MECHANISM, "failure");
        broker.access().audit().refused(None, info.peer.ip(), &info.listener.name, &AuthError::Late);
        AuthError::Late
    }

    /// Maximum size of the next frame.
    pub(super) fn frame_bytes_max(&self, broker: &Broker) -> u32 {
        let config = broker.config();
        match self.state {
            State::Open(_) => config.socket_request_max_bytes,
            State::Talking(_) => config.security.frame_bytes_max,
        }
    }

    /// Processes one frame: a step of the authentication, or a request that the gate lets through.
    pub(super) fn pass(
        &mut self,
        broker: &Broker,
        info: &ConnectionInfo,
        frame: BytesMut,
    ) -> Result<AuthStep, AuthError> {
        if let State::Open(entered) = &mut self.state {
            // The clock is read only for clients whose session can end.
            let Some(entered) = entered else { return Ok(AuthStep::Through(frame)) };
            let now_ms = steady_ms();
            // By the configuration in force: a user who was removed since cannot stay.
            let begins = if is_handshake(&frame) { sasl(broker, info) } else { None };
            match begins.and_then(|config| entered.again(config, now_ms)) {
                Some(exchange) => {
                    (self.state, self.talking) = (State::Talking(Box::new(exchange)), Instant::now());
                }
                None if entered.is_over(now_ms) => {
                    let mechanism = entered.identity.mechanism.name();
                    broker.stats().authentication(&info.listener.name, mechanism, "expired");
                    let ago_ms = entered.expires_ms.map_or(0, |expires_ms| now_ms.saturating_sub(expires_ms));
                    return Err(AuthError::Expired { user: entered.identity.user.clone(), ago_ms });
                }
                None => return Ok(AuthStep::Through(frame)),
            }
        }
        Ok(self.talk(broker, info, frame))
    }

    fn talk(&mut self, broker: &Broker, info: &ConnectionInfo, frame: BytesMut) -> AuthStep {
        let State::Talking(exchange) = &mut self.state else { return AuthStep::Through(frame) };
        let image = broker.metadata().image();
        let now_ms = now_ms();
        let moment = FrameContext {
            now_ms,
            keys: &|source| broker.access().signing_keys().keys(source),
            credentials: CredentialSource {
                of_user: &|user, mechanism| image.credentials().find(user, mechanism.code()).cloned(),
                of_token: &|id, mechanism| broker.access().token_login(id, mechanism, now_ms),
                secret: process_secret(),
            },
        };
        let address: IpAddr = info.peer.ip();
        let listener = &info.listener.name;
        let mechanism = exchange.mechanism().unwrap_or(NO_MECHANISM);
        let outcome = exchange.step(frame, &moment);
        if let Some(source) = exchange.misses_key() {
            broker.access().signing_keys().miss(source);
        }
        match outcome {
            SaslOutcome::Versions(header, body) => AuthStep::Versions(header, body),
            SaslOutcome::Reply(bytes) => AuthStep::Answer(bytes),
            SaslOutcome::Done { reply, identity, expires_ms } => {
                broker.stats().authentication(listener, identity.mechanism.name(), "success");
                self.session = Rc::new(if identity.by_token {
                    Session::by_token(&identity.user, address)
                } else {
                    Session::new(&identity.user, address)
                });
                broker.access().audit().entered(&self.session, listener, identity.mechanism.name());
                let is_again = exchange.is_again();
                self.state = State::Open(Some(Authenticated::new(identity, expires_ms, is_again)));
                AuthStep::Answer(reply)
            }
            SaslOutcome::Refused { reply, error } => {
                broker.stats().authentication(listener, mechanism, "failure");
                broker.access().audit_refusal(error.user(), address, listener, &error);
                let after = broker.config().security.failed_delay;
                AuthStep::Closed { answer: reply, after, error: error.into() }
            }
        }
    }
}

impl Authenticated {
    /// A session that ends at this date.
    fn new(identity: AuthenticatedUser, expires_ms: Option<i64>, is_again: bool) -> Self {
        let now = levada_process::clock::now();
        let expires_ms = expires_ms.map(|date_ms| now.steady_ms.saturating_add(date_ms - now.wall_ms));
        Self { identity, expires_ms, again_ms: is_again.then_some(now.steady_ms) }
    }

    /// True if the session has expired.
    fn is_over(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| expires_ms < now_ms)
    }

    /// The exchange in which the client authenticates again; none if its session never ends, or if
    /// it is too early.
    fn again(&self, config: Arc<SaslConfig>, now_ms: i64) -> Option<Exchange> {
        let too_soon = self.again_ms.is_some_and(|last_ms| now_ms - last_ms < AGAIN_AFTER_MS);
        (self.expires_ms.is_some() && !too_soon)
            .then(|| Exchange::again(config, nonce(), self.identity.clone()))
    }
}

/// SASL as the listener of a connection offers it now; none for a listener without.
fn sasl(broker: &Broker, info: &ConnectionInfo) -> Option<Arc<SaslConfig>> {
    broker.config().security.sasl.get(&info.listener.name).cloned()
}

fn is_handshake(frame: &[u8]) -> bool {
    frame.first_chunk().is_some_and(|key| i16::from_be_bytes(*key) == ApiKey::SaslHandshake.wire())
}

#[cfg(test)]
mod tests;
