//! The entrance of the console: the principal of a request is found, and changes must come from a
//! form of the console.
//!
//! Three checks keep other pages of the same browser out, each of which would suffice: browsers say
//! that a request comes from another site ([`crate::origin`]), a form carries a proof that
//! only a page of the console can read, and the cookie is never sent along with a request of
//! another site.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{FromRequest as _, FromRequestParts as _, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Form};
use levada_broker::desk::Caller;
use levada_security::{Session, nonce, process_secret};
use maud::html;
use ring::hmac;

use super::cluster::Others;
use super::fields::Fields;
use super::layout::{self, PROOF};
use super::login::CheckedPassword;
use super::{Console, PAGES_OF_USER_MAX, format};
use crate::Peer;

/// Maximum number of open sessions, in all and of one user; a further login ends the session that
/// would expire first, of the user or of the one with most.
const SESSIONS_MAX: usize = 256;
const SESSIONS_OF_USER_MAX: usize = 32;
/// Header of automatic requests of a page: they do not extend an idle session.
const REFRESH: &str = "x-levada-refresh";
/// Maximum lifetime of a session, and its lifetime without a page request.
const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);
const IDLE_TIME: Duration = Duration::from_secs(3600);
/// Fields of a form or of a link; a reset of 1 000 partitions has fewer. Each takes some 50 bytes
/// of memory, however short it is.
const FIELDS_MAX: usize = 8192;

/// The principal of a request for pages, its address, and the proof in its forms.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) caller: Caller,
    pub(super) proof: String,
    /// Secret of the session, if the visitor has logged in.
    pub(super) session: Option<Arc<str>>,
    /// The other brokers of the cluster, for this request.
    pub(super) others: Arc<Others>,
}

/// One request: its principal, and the fields of its form or link.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) visitor: Visitor,
    pub(super) fields: Arc<Fields>,
}

/// The open sessions by their secret.
#[derive(Default)]
pub(super) struct Sessions(HashMap<String, Open>);

struct Open {
    user: String,
    password: CheckedPassword,
    expires: Instant,
    used: Instant,
}

impl Sessions {
    /// Opens a session of this user, with a maximum lifetime; returns its secret.
    pub(super) fn open(
        &mut self,
        (user, password): (&str, CheckedPassword),
        life: Option<Duration>,
        now: Instant,
    ) -> String {
        self.0.retain(|_, open| open.is_alive(now));
        self.make_room(user);
        let secret = nonce();
        let expires = now + life.unwrap_or(SESSION_TIME).min(SESSION_TIME);
        self.0.insert(secret.clone(), Open { user: user.to_owned(), password, expires, used: now });
        secret
    }

    /// Ends a session if a further one of this user is one too many.
    fn make_room(&mut self, user: &str) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        self.0.values().for_each(|open| *counts.entry(&open.user).or_default() += 1);
        let crowded = if counts.get(user).is_some_and(|own| *own >= SESSIONS_OF_USER_MAX) {
            Some(user)
        } else if self.0.len() >= SESSIONS_MAX {
            counts.into_iter().max_by_key(|(_, count)| *count).map(|(user, _)| user)
        } else {
            None
        };
        let of_crowded = self.0.iter().filter(|(_, open)| Some(&*open.user) == crowded);
        let first = of_crowded.min_by_key(|(_, open)| open.expires).map(|(secret, _)| secret.clone());
        first.map(|secret| self.0.remove(&secret));
    }

    /// The user of a session, and the password with which it was opened. `uses` is true if the
    /// request extends an idle session.
    fn user(&mut self, secret: &str, now: Instant, uses: bool) -> Option<(String, CheckedPassword)> {
        let open = self.0.get_mut(secret).filter(|open| open.is_alive(now))?;
        if uses {
            open.used = now;
        }
        Some((open.user.clone(), open.password.clone()))
    }

    pub(super) fn close(&mut self, secret: &str) {
        self.0.remove(secret);
    }
}

impl Open {
    fn is_alive(&self, now: Instant) -> bool {
        now < self.expires && now.saturating_duration_since(self.used) < IDLE_TIME
    }
}

/// The proof that forms of a session carry: only this process can make it.
pub(super) fn proof_of(session: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, process_secret().as_bytes());
    let tag = hmac::sign(&key, format!("console form {session}").as_bytes());
    tag.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// True if the fields carry the proof.
pub(super) fn proves(fields: &Fields, proof: &str) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, process_secret().as_bytes());
    hmac::verify(&key, fields.raw(PROOF).as_bytes(), hmac::sign(&key, proof.as_bytes()).as_ref()).is_ok()
}

/// The name of the cookie: browsers share cookies between the ports of a host, brokers do not share
/// sessions.
pub(super) fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    match port.filter(|port| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(port) => format!("levada_{port}"),
        None => "levada".to_owned(),
    }
}

/// The secret in the cookie of a request.
pub(super) fn cookie(headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(headers);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, secret)| secret.to_owned())
}

/// The address of the browser.
pub(super) fn peer(request: &Request) -> SocketAddr {
    let unknown = SocketAddr::from((IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
    request.extensions().get::<Peer>().map_or(unknown, |peer| peer.0)
}

/// Finds the principal of a request, or sends it to the login; reads the form, which must carry the
/// proof.
pub(super) async fn enter(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    if console.is_closed() {
        return closed();
    }
    let follows = request.headers().contains_key(REFRESH)
        || request.headers().get(header::ACCEPT).is_some_and(|accept| accept == "text/event-stream");
    let Some(visitor) = visitor(&console, request.headers(), peer(&request), !follows) else {
        return match request.method() {
            &Method::GET if !follows => {
                let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
                layout::see_other(&format!("/login?next={}", format::linked(target)))
            }
            _ => (StatusCode::UNAUTHORIZED, "log in first, at /login\n").into_response(),
        };
    };
    let changes = request.method() == Method::POST;
    let (request, fields) = match fields(request).await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    if changes && !proves(&fields, &visitor.proof) {
        return unproved();
    }
    let Some(_page) = console.pages.try_take(visitor.caller.session().requester()) else {
        let text = format!(
            "{PAGES_OF_USER_MAX} of your pages wait for their data, the maximum; open this one later\n"
        );
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let mut request = request;
    request.extensions_mut().insert(Visit { visitor, fields: Arc::new(fields) });
    next.run(request).await
}

/// The response for a path without a page: a page for browsers, a line of text for others.
pub(super) async fn missing(State(console): State<Arc<Console>>, request: Request) -> Response {
    if console.is_closed() || !wants_page(request.headers()) {
        return crate::nothing_here().await;
    }
    let visitor = visitor(&console, request.headers(), peer(&request), true);
    layout::missing(visitor.as_ref(), request.uri().path())
}

/// True for a browser that opens a page.
fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// The response of a console that cannot identify its visitors.
fn closed() -> Response {
    let text = html! {
        p { "Every listener of this broker asks clients for a certificate, and the console can ask for none. Without a password or a token each user of this machine would have all rights here." }
        p { "Next: set " code { "levada.http.token" } ", which the browser then requests, or add a listener with SASL, whose users log in." }
    };
    layout::plain(StatusCode::FORBIDDEN, "The console is closed", text)
}

/// The response to a form that is not from a page of this session.
pub(super) fn unproved() -> Response {
    let text = html! {
        p { "This form does not belong to your session, which may have ended. Nothing was changed." }
        p { a href="/" { "Open the console again" } }
    };
    layout::plain(StatusCode::FORBIDDEN, "Not done", text)
}

/// The fields of the form of a POST, or otherwise of the query.
pub(super) async fn fields(request: Request) -> Result<(Request, Fields), Response> {
    if request.method() != Method::POST {
        let query = request.uri().query().unwrap_or_default();
        refuse_many_fields(query.as_bytes()).map_err(IntoResponse::into_response)?;
        let (mut parts, body) = request.into_parts();
        let query = Query::<Vec<(String, String)>>::from_request_parts(&mut parts, &()).await;
        let fields = query.map(|Query(fields)| Fields(fields)).map_err(IntoResponse::into_response)?;
        return Ok((Request::from_parts(parts, body), fields));
    }
    let (parts, body) = request.into_parts();
    let head = Request::from_parts(parts.clone(), axum::body::Body::empty());
    let text = Bytes::from_request(Request::from_parts(parts.clone(), body), &()).await;
    let text = text.map_err(IntoResponse::into_response)?;
    refuse_many_fields(&text).map_err(IntoResponse::into_response)?;
    let request = Request::from_parts(parts, text.into());
    let form = Form::<Vec<(String, String)>>::from_request(request, &()).await;
    let Form(fields) = form.map_err(IntoResponse::into_response)?;
    Ok((head, Fields(fields)))
}

/// Refuses the text of a form or of a query that has too many fields, before it is split.
fn refuse_many_fields(text: &[u8]) -> Result<(), (StatusCode, String)> {
    let count = text.iter().filter(|byte| **byte == b'&').count() + 1;
    if count <= FIELDS_MAX {
        return Ok(());
    }
    let refused = format!("the form has {count} fields; at most {FIELDS_MAX} are allowed\n");
    Err((StatusCode::PAYLOAD_TOO_LARGE, refused))
}

impl Console {
    /// True if the visitor's session is still open, or if no session is needed. Does not extend an
    /// idle session.
    pub(super) fn admits(&self, visitor: &Visitor) -> bool {
        match &visitor.session {
            Some(secret) => self.user(secret, false).is_some(),
            None => !self.asks_for_login(),
        }
    }

    /// The user of a session, and the password. Ends the session if the password with which it was
    /// opened is no longer valid.
    fn user(&self, secret: &str, uses: bool) -> Option<(String, CheckedPassword)> {
        let (user, password) = self.sessions().user(secret, Instant::now(), uses)?;
        if !password.still_counts(&self.door, &user) {
            self.sessions().close(secret);
            return None;
        }
        Some((user, password))
    }
}

fn visitor(console: &Console, headers: &HeaderMap, peer: SocketAddr, uses: bool) -> Option<Visitor> {
    if !console.asks_for_login() {
        let caller = console.caller(Session::anonymous(peer.ip()), peer);
        let others = Arc::default();
        return Some(Visitor { caller, proof: proof_of("anonymous"), session: None, others });
    }
    let secret = cookie(headers)?;
    let (user, password) = console.user(&secret, uses)?;
    let caller = console.caller(Session::new(&user, peer.ip()), peer);
    let others = Arc::new(Others::new(password.login()));
    Some(Visitor { caller, proof: proof_of(&secret), session: Some(secret.into()), others })
}

/// A request as handlers take it.
pub(super) type Visiting = Extension<Visit>;

#[cfg(test)]
mod tests;
