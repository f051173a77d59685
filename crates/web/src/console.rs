//! The console: pages about the running broker, on the HTTP address.
//!
//! Each page and each action is a request of Kafka's protocol. The broker's
//! [`Desk`](levada_broker::desk) has the handlers of the APIs answer it for the user who has logged
//! in. The console makes no access decisions. Nothing runs while no page is open, but for the
//! samples of `history`, which end an hour after the last page.

mod acls;
mod allowed;
mod brokers;
mod clients;
mod cluster;
mod connections;
mod failure;
mod fields;
mod format;
mod group;
mod groups;
mod hanging;
mod health;
mod history;
mod json_field;
mod laboratory;
mod lags;
mod layout;
mod live;
mod login;
mod members;
mod messages;
mod overview;
mod part;
mod performance;
mod produce;
mod question;
mod quotas;
mod records;
mod reset;
mod settings;
mod share;
mod streams;
mod tail;
mod topic;
mod topic_groups;
mod topics;
mod transactions;
mod users;
mod visitor;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use levada_broker::desk::{Caller, Desk};
use levada_broker::server::Door;
use levada_config::{BrokerConfig, HostPort, Listener, Protocol};
use levada_process::turns::Turns;
use levada_schema::{Registry, RegistrySettings, Schemas, SettingsError};
use levada_security::Session;
use parking_lot::{Mutex, MutexGuard};

use self::cluster::Unheard;
use self::history::History;
use self::laboratory::Laboratory;
use self::visitor::Sessions;

/// Name of the console in the audit log, where clients have that of their listener.
const LISTENER: &str = "CONSOLE";

/// Maximum number of simultaneous pages with live updates; one user has at most half of them.
const STREAMS_MAX: usize = 16;
/// Pages that wait for their data, in all and of one user: each keeps a connection.
const PAGES_MAX: usize = 64;
const PAGES_OF_USER_MAX: usize = 16;
/// Number of logins that are checked at the same time.
const LOGINS_AT_ONCE: usize = 2;
/// Longest form of a login, which is read before the sender is known.
const FORM_BYTES_MAX: usize = 16 << 10;
/// Requests to other brokers at the same time, in all and of one user.
const REMOTE_MAX: usize = 32;
const REMOTE_OF_USER_MAX: usize = 16;
/// Largest response of another broker, in bytes; the broker's desk has the same limit.
const ANSWER_BYTES_MAX: u32 = 16 << 20;
/// Number of responses whose records are decoded at the same time: each decompresses one batch
/// after the other.
const READS_AT_ONCE: usize = 2;

/// State that the pages share.
pub(super) struct Console {
    door: Door,
    desk: Desk,
    sessions: Mutex<Sessions>,
    pages: Turns,
    streams: Turns,
    logins: Turns,
    reads: Turns,
    remote: Turns,
    unheard: Unheard,
    history: History,
    laboratory: Mutex<Laboratory>,
    /// Schemas of the registry of `schema.registry.url`.
    schemas: Option<Arc<Schemas>>,
    listener: Arc<Listener>,
}

impl Console {
    /// True if users have to log in: clients of a listener have to, as well.
    fn asks_for_login(&self) -> bool {
        !self.door.config().security.sasl.is_empty()
    }

    /// True if the console cannot identify its visitors, and every client of a listener must have a
    /// certificate.
    fn is_closed(&self) -> bool {
        is_closed(&self.door.config())
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock()
    }

    fn caller(&self, session: Session, peer: SocketAddr) -> Caller {
        Caller::new(session, self.listener.clone(), peer, self.door.kafka_address())
    }
}

/// True if every listener requires certificates of clients, none requires a password, and the HTTP
/// address requires no token: otherwise each user of this machine could do more in the console than
/// any client.
fn is_closed(config: &BrokerConfig) -> bool {
    let admits_strangers = |listener: &Listener| {
        !listener.protocol.has_tls() || config.settings().client_auth(listener) != "required"
    };
    config.security.sasl.is_empty()
        && config.http_token.is_none()
        && !config.listeners.iter().any(admits_strangers)
}

/// Starts the console's thread and returns its pages.
///
/// # Errors
/// The thread cannot be made.
pub(crate) fn start(door: Door, schemas: Option<Arc<Schemas>>) -> io::Result<(Router, JoinHandle<()>)> {
    if is_closed(&door.config()) {
        tracing::warn!(
            "the console is closed: every listener requires a client certificate, but the HTTP address has no authentication; set levada.http.token"
        );
    }
    let (desk, thread) = door.open_desk()?;
    let advertised = door.config().listeners.first().and_then(|first| first.advertised.clone());
    let bind = HostPort { host: String::new(), port: 0 };
    let listener = Listener { name: LISTENER.to_owned(), bind, advertised, protocol: Protocol::Plaintext };
    let console = Console {
        door,
        desk,
        sessions: Mutex::default(),
        pages: Turns::shared(PAGES_MAX, PAGES_OF_USER_MAX),
        streams: Turns::halved(STREAMS_MAX),
        logins: Turns::of(LOGINS_AT_ONCE),
        reads: Turns::of(READS_AT_ONCE),
        remote: Turns::shared(REMOTE_MAX, REMOTE_OF_USER_MAX),
        unheard: Unheard::default(),
        history: History::default(),
        laboratory: Mutex::default(),
        schemas,
        listener: Arc::new(listener),
    };
    Ok((router(Arc::new(console)), thread))
}

/// The schemas of the registry that the configuration names. No request before a record needs it.
///
/// # Errors
/// A setting cannot be used, or the URL, which each user with access to the settings may read, has
/// a login.
pub(crate) fn schemas(config: &BrokerConfig) -> Result<Option<Arc<Schemas>>, SettingsError> {
    let settings = RegistrySettings::of("the broker", |key| config.settings().text(key))?;
    let url = config.settings().text(levada_schema::URL);
    if url.is_some_and(|url| url.contains('@')) {
        let reason = "must not contain a login: set schema.registry.basic.auth.user.info".to_owned();
        return Err(SettingsError::Value { owner: "the broker".to_owned(), key: levada_schema::URL, reason });
    }
    Ok(settings.map(|settings| Arc::new(Schemas::new(Registry::new(settings)))))
}

fn router(console: Arc<Console>) -> Router {
    use routing::{get, post};
    let pages = Router::new()
        .route("/", get(overview::show))
        .route("/live", get(overview::live))
        .route("/brokers", get(brokers::show))
        .route("/topics", get(topics::list))
        .route("/topics/create", post(topics::create))
        .route("/topics/{name}", get(topic::show))
        .route("/topics/{name}/delete", post(topics::delete))
        .route("/topics/{name}/extend", post(topics::extend))
        .route("/topics/{name}/trim", post(topics::trim))
        .route("/topics/{name}/messages", get(messages::show))
        .route("/topics/{name}/tail", get(tail::stream))
        .route("/topics/{name}/produce", get(produce::show).post(produce::submit))
        .route("/topics/{name}/settings", get(settings::show_topic).post(settings::alter_topic))
        .route("/topics/{name}/groups", get(topic_groups::show))
        .route("/topics/{name}/producers", get(topic::producers))
        .route("/groups", get(groups::list))
        .route("/group", get(group::show))
        .route("/group/reset", get(reset::plan).post(reset::submit))
        .route("/group/delete", post(group::delete))
        .route("/transactions", get(transactions::list))
        .route("/transactions/abort", post(transactions::abort))
        .route("/transactions/abort-hanging", post(hanging::abort))
        .route("/clients", get(clients::list))
        .route("/connections", get(connections::show))
        .route("/quotas", get(quotas::show))
        .route("/client", get(clients::show))
        .route("/users", get(users::list))
        .route("/users/set", post(users::set))
        .route("/users/delete", post(users::delete))
        .route("/acls/create", post(acls::create))
        .route("/acls/delete", post(acls::delete))
        .route("/performance", get(performance::show))
        .route("/laboratory", get(laboratory::show).post(laboratory::start))
        .route("/laboratory/stop", post(laboratory::stop))
        .route("/laboratory/report", get(laboratory::report))
        .route("/settings", get(settings::show_broker).post(settings::alter_broker))
        .layer(middleware::from_fn_with_state(console.clone(), visitor::enter));
    Router::new()
        .route("/login", get(login::show).post(login::submit).layer(small_form()))
        .route("/logout", post(login::leave).layer(small_form()))
        .route("/console.css", get(|| asset("text/css; charset=utf-8", include_str!("console/console.css"))))
        .route(
            "/console.js",
            get(|| asset("text/javascript; charset=utf-8", include_str!("console/console.js"))),
        )
        .route("/console.svg", get(|| asset("image/svg+xml", include_str!("console/console.svg"))))
        .merge(pages)
        .fallback(visitor::missing)
        .with_state(console)
        .layer(middleware::from_fn(harden))
}

/// Limit of a form without a login: a name, a password and a link.
fn small_form() -> DefaultBodyLimit {
    DefaultBodyLimit::max(FORM_BYTES_MAX)
}

async fn asset(media: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, media)], text).into_response()
}

/// Adds headers to every response of the console: only its own script runs, and caches keep
/// nothing.
async fn harden(request: Request, next: Next) -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                          connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
                          require-trusted-types-for 'script'; trusted-types 'none'";
    let mut response = next.run(request).await;
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        // The report of the laboratory has a separate policy.
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
