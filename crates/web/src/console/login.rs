//! The login: a user of the broker shows its password, which the broker's own SASL code checks as
//! it does on the wire.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use levada_base::Requester;
use levada_broker::server::Door;
use levada_process::blocking::off_shard;
use levada_process::clock::now_ms;
use levada_process::turns::Turn;
use levada_security::login::SaslLogin;
use levada_security::sasl::{
    AuthenticatedUser, Exchange, FrameContext, Mechanism, SaslConfig, SaslError, SaslOutcome,
};
use levada_security::{Session, nonce, process_secret, scram};
use levada_wire::StrBytes;
use levada_wire::messages::{
    KafkaRequest, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
};
use maud::{Markup, html};
use ring::hmac;

use super::layout::{self, PROOF};
use super::visitor::{cookie, cookie_name, fields, peer, proof_of, proves, unproved};
use super::{Console, LISTENER};

/// Version of SaslAuthenticate and SaslHandshake in the console's exchange.
const VERSION: i16 = 1;

/// Longest name and password.
const INPUT_BYTES_MAX: usize = 1024;

/// Maximum number of logins of one address that wait for their turn.
const WAITING_MAX: usize = 8;

/// A user who has shown the password, and the end of its session if the broker sets one.
struct Entered {
    identity: AuthenticatedUser,
    password: CheckedPassword,
    expires_ms: Option<i64>,
}

/// A password that a user has presented: its mechanism, and a keyed hash of the credential that the
/// broker had at the time.
#[derive(Clone, Debug)]
pub(super) struct CheckedPassword {
    mechanism: Mechanism,
    hash: Vec<u8>,
    /// Credentials for the other brokers of the cluster.
    login: Option<Arc<SaslLogin>>,
}

/// Equal if the broker had the same credential for both.
impl PartialEq for CheckedPassword {
    fn eq(&self, other: &Self) -> bool {
        (self.mechanism, &self.hash) == (other.mechanism, &other.hash)
    }
}

impl CheckedPassword {
    /// The password that the broker has for a user; none if it has none for the mechanism.
    fn of(broker: &Door, user: &str, mechanism: Mechanism) -> Option<Self> {
        let config = broker.config();
        let offers = |sasl: &&Arc<SaslConfig>| sasl.offers.iter().any(|offer| offer.mechanism == mechanism);
        let mut offering = config.security.sasl.values().filter(offers);
        let mut parts: Vec<Vec<u8>> = Vec::new();
        match mechanism {
            Mechanism::Plain => {
                parts.extend(
                    offering
                        .filter_map(|sasl| sasl.passwords.get(user))
                        .map(|text| text.clone().into_bytes()),
                );
            }
            Mechanism::Scram(scram) => {
                offering.next()?;
                let image = broker.image();
                let credential = image.credentials().find(user, scram.code())?;
                parts.extend([credential.salt.clone(), credential.stored_key.clone()]);
            }
            Mechanism::OauthBearer => {}
        }
        let mut hash =
            hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, process_secret().as_bytes()));
        for part in &parts {
            hash.update(&part.len().to_be_bytes());
            hash.update(part);
        }
        (!parts.is_empty()).then(|| Self { mechanism, hash: hash.sign().as_ref().to_vec(), login: None })
    }

    /// The credentials of the user, as other brokers take them.
    pub(super) fn login(&self) -> Option<Arc<SaslLogin>> {
        self.login.clone()
    }

    /// True if the user has the same password for the same mechanism.
    pub(super) fn still_counts(&self, broker: &Door, user: &str) -> bool {
        Self::of(broker, user, self.mechanism).is_some_and(|now| now == *self)
    }
}

#[cfg(test)]
impl Default for CheckedPassword {
    fn default() -> Self {
        Self { mechanism: Mechanism::Plain, hash: Vec::new(), login: None }
    }
}

/// The reason why a login failed; the page does not show it.
enum Refused {
    Sasl(SaslError),
    /// No listener offers a mechanism with a password.
    NoPasswords,
}

/// Renders the login form.
pub(super) async fn show(State(console): State<Arc<Console>>, request: Request) -> Response {
    if !console.asks_for_login() {
        return layout::see_other("/");
    }
    match fields(request).await {
        Ok((_, fields)) => layout::plain(StatusCode::OK, "Log in", form(fields.text("next"), None)),
        Err(refusal) => refusal,
    }
}

/// Checks the password and opens a session.
pub(super) async fn submit(State(console): State<Arc<Console>>, request: Request) -> Response {
    let address = peer(&request).ip();
    let (request, fields) = match fields(request).await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    if !proves(&fields, &proof_of("login")) {
        return unproved();
    }
    let (user, password) = (fields.text("user").to_owned(), fields.raw("password").to_owned());
    if user.len().max(password.len()) > INPUT_BYTES_MAX {
        return failed(fields.text("next"), "Name and password have at most 1024 bytes each.");
    }
    // Guesses wait for each other, and each failed one for the delay of the wire.
    let turn = match console.logins.take_if_few(Requester::at(address), WAITING_MAX).await {
        Ok(turn) => turn,
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    };
    // A client that disconnects makes no room for another guess before that.
    let entered = tokio::spawn(check(console.clone(), turn, (user, password), address)).await;
    match entered.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic())) {
        Ok(Entered { identity, password, expires_ms }) => {
            let life = expires_ms.map(|at| Duration::from_millis((at - now_ms()).max(0).unsigned_abs()));
            let secret = console.sessions().open((&identity.user, password), life, Instant::now());
            let set =
                format!("{}={secret}; Path=/; HttpOnly; SameSite=Strict", cookie_name(request.headers()));
            with_cookie(layout::see_other(inside(fields.text("next"))), &set)
        }
        Err(Refused::Sasl(_)) => failed(fields.text("next"), "This name and password were not accepted."),
        Err(Refused::NoPasswords) => {
            let text = "No listener offers PLAIN or SCRAM, so that no user has a password. Next: add a mechanism to \
                        sasl.enabled.mechanisms of a listener.";
            failed(fields.text("next"), text)
        }
    }
}

/// Checks a password and reports the outcome; waits for the delay of the wire after a failure.
async fn check(
    console: Arc<Console>,
    _turn: Turn,
    (user, password): (String, String),
    address: IpAddr,
) -> Result<Entered, Refused> {
    let (broker, attempt) = (console.door.clone(), user.clone());
    let entered = off_shard(move || authenticate(&broker, &attempt, &password)).await;
    let broker = &console.door;
    match &entered {
        Ok(Entered { identity, .. }) => {
            let session = Session::new(&identity.user, address);
            let mechanism = identity.mechanism.name();
            broker.logged_in(&session, LISTENER, mechanism);
        }
        Err(Refused::Sasl(error)) => {
            broker.refused_login(&user, address, LISTENER, error);
            let delay = broker.config().security.failed_delay;
            tokio::time::sleep(delay).await;
        }
        Err(Refused::NoPasswords) => {}
    }
    entered
}

/// Closes the session.
pub(super) async fn leave(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (request, fields) = match fields(request).await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    let Some(secret) = cookie(request.headers()) else { return layout::see_other("/") };
    if !proves(&fields, &proof_of(&secret)) {
        return unproved();
    }
    console.sessions().close(&secret);
    let gone = format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", cookie_name(request.headers()));
    with_cookie(layout::see_other("/login"), &gone)
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    let value = HeaderValue::from_str(cookie).expect("names and secrets of sessions are printable");
    response.headers_mut().insert(header::SET_COOKIE, value);
    response.into_response()
}

/// The page to continue to, which must be one of the console. Browsers remove tabs and ends of
/// lines from a link, so that `/`, a tab and `/host` would lead to another host.
fn inside(next: &str) -> &str {
    let is_odd = |letter: char| letter == '\\' || letter.is_control();
    if next.starts_with('/') && !next.starts_with("//") && !next.contains(is_odd) { next } else { "/" }
}

fn failed(next: &str, text: &str) -> Response {
    layout::plain(StatusCode::UNAUTHORIZED, "Log in", form(next, Some(text)))
}

fn form(next: &str, failed: Option<&str>) -> Markup {
    html! {
        @if let Some(text) = failed { (layout::notice("bad", text)) }
        form.card.narrow method="post" action="/login" {
            input type="hidden" name=(PROOF) value=(proof_of("login"));
            input type="hidden" name="next" value=(next);
            (layout::field("User", html! { input name="user" autocomplete="username" required autofocus; }))
            (layout::field("Password", html! {
                input name="password" type="password" autocomplete="current-password" required;
            }))
            button { "Log in" }
            p.soft { "A user with PLAIN or SCRAM credentials of this broker." }
        }
    }
}

/// Passes the password to the broker's SASL code as a client would. Takes equally long for each
/// user: otherwise the time would reveal how a user logs in, and if the user exists.
fn authenticate(broker: &Door, user: &str, password: &str) -> Result<Entered, Refused> {
    let image = broker.image();
    let Chosen { config, mechanism, scrams } = chosen(broker, user).ok_or(Refused::NoPasswords)?;
    // Before the password is checked: one that changes meanwhile ends the session.
    let stored = CheckedPassword::of(broker, user, mechanism);
    let moment = FrameContext {
        now_ms: now_ms(),
        keys: &|source| broker.signing_keys(source),
        credentials: scram::CredentialSource {
            of_user: &|user, mechanism| image.credentials().find(user, mechanism.code()).cloned(),
            of_token: &|_, _| None,
            secret: process_secret(),
        },
    };
    let mut talk = Talk { exchange: Exchange::new(config, nonce()), moment };
    let outcome = talk.enter(mechanism, user, password);
    for scram in scrams.into_iter().filter(|scram| Mechanism::Scram(*scram) != mechanism) {
        scram.salted_password(password, user.as_bytes(), scram::ITERATIONS_MIN.unsigned_abs());
    }
    let (identity, expires_ms) = outcome.map_err(Refused::Sasl)?;
    let mut stored = stored.ok_or(Refused::Sasl(scram::ScramError::Over.into()))?;
    stored.login = Some(Arc::new(SaslLogin::new(mechanism, user.to_owned(), password.to_owned())));
    Ok(Entered { identity, password: stored, expires_ms })
}

/// The mechanism for a user.
struct Chosen {
    config: Arc<SaslConfig>,
    mechanism: Mechanism,
    /// The mechanisms with a slow hash that any listener offers, each once.
    scrams: Vec<scram::ScramMechanism>,
}

/// The mechanism for a user: one that has the user, otherwise the first with a password, which then
/// refuses the login.
fn chosen(broker: &Door, user: &str) -> Option<Chosen> {
    let image = broker.image();
    let (mut known, mut first, mut scrams) = (None, None, Vec::new());
    for sasl in broker.config().security.sasl.values() {
        for offer in &sasl.offers {
            let has = match offer.mechanism {
                Mechanism::Plain => sasl.passwords.contains_key(user),
                Mechanism::Scram(scram) => {
                    if !scrams.contains(&scram) {
                        scrams.push(scram);
                    }
                    image.credentials().find(user, scram.code()).is_some()
                }
                Mechanism::OauthBearer => continue,
            };
            let offered = (sasl.clone(), offer.mechanism);
            if has && known.is_none() {
                known = Some(offered.clone());
            }
            first.get_or_insert(offered);
        }
    }
    let (config, mechanism) = known.or(first)?;
    Some(Chosen { config, mechanism, scrams })
}

/// The client and the server of a SASL exchange, both in this process.
struct Talk<'a> {
    exchange: Exchange,
    moment: FrameContext<'a>,
}

impl Talk<'_> {
    /// The user, and the end of its session if the broker sets one.
    fn enter(
        &mut self,
        mechanism: Mechanism,
        user: &str,
        password: &str,
    ) -> Result<(AuthenticatedUser, Option<i64>), SaslError> {
        let mut handshake = SaslHandshakeRequest::default();
        handshake.mechanism = StrBytes::from(mechanism.name());
        self.send(&handshake)?;
        let outcome = match mechanism {
            Mechanism::Scram(scram) => self.prove(scram, user, password)?,
            _ => self.token(format!("\0{user}\0{password}").into_bytes())?,
        };
        match outcome {
            SaslOutcome::Done { identity, expires_ms, .. } => Ok((identity, expires_ms)),
            _ => Err(scram::ScramError::Over.into()),
        }
    }

    fn prove(
        &mut self,
        mechanism: scram::ScramMechanism,
        user: &str,
        password: &str,
    ) -> Result<SaslOutcome, SaslError> {
        let malformed = || scram::ScramError::Malformed { message: "first" };
        let first = format!("n={},r={}", user.replace('=', "=3D").replace(',', "=2C"), nonce());
        let SaslOutcome::Reply(reply) = self.token(format!("n,,{first}").into_bytes())? else {
            return Err(malformed().into());
        };
        let (_, response) =
            levada_wire::decode_response::<SaslAuthenticateResponse>(reply.slice(4..), VERSION)?;
        let challenge = String::from_utf8_lossy(&response.auth_bytes).into_owned();
        let part = |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name));
        let (nonce, salt) = part("r=").zip(part("s=")).ok_or_else(malformed)?;
        let salt = BASE64.decode(salt).map_err(|_| malformed())?;
        let iterations = part("i=").and_then(|text| text.parse().ok()).ok_or_else(malformed)?;
        let salted = mechanism.salted_password(password, &salt, iterations);
        let without_proof = format!("c=biws,r={nonce}");
        let proof = mechanism.client_proof(&salted, &format!("{first},{challenge},{without_proof}"));
        self.token(format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes())
    }

    fn token(&mut self, token: Vec<u8>) -> Result<SaslOutcome, SaslError> {
        let mut request = SaslAuthenticateRequest::default();
        request.auth_bytes = Bytes::from(token);
        self.send(&request)
    }

    fn send<R: KafkaRequest>(&mut self, request: &R) -> Result<SaslOutcome, SaslError> {
        let frame = levada_wire::encode_request(1, None, VERSION, request)?;
        match self.exchange.step(BytesMut::from(&frame[4..]), &self.moment) {
            SaslOutcome::Refused { error, .. } => Err(error),
            outcome => Ok(outcome),
        }
    }
}

#[cfg(test)]
mod tests;
