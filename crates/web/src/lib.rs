//! The HTTP address: health, metrics and the console, on a separate thread, so that a scrape never
//! runs on a shard.
//!
//! Connections are few, with a limit per request and a total limit; silent ones give way to new
//! ones (`places`). Without a token the server answers only requests whose Host names this
//! machine, which stops DNS rebinding.
//!
//! - [`start`]: the threads of the address, for
//!   [`Server::start`](levada_broker::server::Server::start).
//! - `console`: the pages. Each sends requests of Kafka's protocol through the broker's
//!   [`Desk`](levada_broker::desk::Desk), for the user who has logged in, and makes no decision
//!   about access.
//! - `metrics`, `scrape`: `/metrics` in two formats. Hot paths count in plain atomics; a scrape
//!   reads them through a [`Source`].
//! - `readiness`: `/readyz`. `origin`: requests of pages of other sites.
//! - `places`, `stall`: connections, and clients that do not read.

mod console;
mod metrics;
mod origin;
mod places;
mod readiness;
mod scrape;
mod stall;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use axum::extract::{RawQuery, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use levada_broker::server::Door;
use levada_broker::server::{HttpError, HttpPlace, HttpServer};
use levada_broker::source::Source;
use levada_config::Secret;
use levada_process::blocking::keep_free;
use levada_process::descriptors;
use levada_process::tasks::{caught, guarded, spawn_restarted};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use self::metrics::Form;
use self::places::{Place, Places, Tracked};
use self::scrape::{ScrapeError, Scrapes};
use self::stall::StallGuard;

/// Simultaneous connections, and the part of all descriptors that they may take.
const CONNECTIONS_MAX: u64 = 64;
const DESCRIPTORS_PART: u64 = 16;
const CONNECTIONS_MIN: u64 = 4;

/// Time limits: of the head of a request including the wait for it, of a connection as a whole, and
/// of a response that has begun when the connection's time ends.
const HEAD_TIME: Duration = Duration::from_secs(10);
const CONNECTION_TIME: Duration = Duration::from_secs(300);
const LAST_RESPONSE_TIME: Duration = Duration::from_secs(30);

/// Memory of a connection for the heads of its requests.
const BUFFER_BYTES: usize = 64 * 1024;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the HTTP address of a broker: health, metrics, and the console's pages.
///
/// # Errors
/// Threads cannot be made, or the settings of the schema registry cannot be used.
pub fn start(place: HttpPlace) -> Result<Box<dyn HttpServer>, HttpError> {
    let HttpPlace { listen, socket, token, door } = place;
    let schemas = console::schemas(&door.config())?;
    let (pages, console) = console::start(door.clone(), schemas).map_err(WebError::Thread)?;
    let alive = Router::new().route("/livez", routing::get(livez)).with_state(door.clone());
    let web =
        WebServer::start((listen.host.as_str(), socket), token, door.shared_source(), pages.merge(alive))?;
    Ok(Box::new(Served { web, console: Some(console) }))
}

/// The threads of an HTTP address.
struct Served {
    web: WebServer,
    /// Thread of the console; `None` once it has ended.
    console: Option<thread::JoinHandle<()>>,
}

impl HttpServer for Served {
    fn address(&self) -> SocketAddr {
        self.web.address()
    }

    fn join(&mut self) {
        if self.console.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the console ended with a panic");
        }
    }
}

async fn livez(State(door): State<Door>) -> Response {
    match door.wait_for_turns().await {
        Ok(()) => "ok\n".into_response(),
        Err(silent) => (StatusCode::SERVICE_UNAVAILABLE, format!("{silent}\n")).into_response(),
    }
}

/// The served HTTP address; stops and waits for its thread when dropped.
#[derive(Debug)]
pub struct WebServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Address of the client of a request, as an extension of the request.
#[derive(Clone, Copy, Debug)]
struct Peer(SocketAddr);

/// The reason why the HTTP address could not be served.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The socket has no address.
    #[error("the HTTP socket cannot be used: {0}")]
    Socket(io::Error),
    /// The system gives no thread or no event queue.
    #[error("cannot start the HTTP thread: {0}")]
    Thread(io::Error),
}

impl WebServer {
    /// Serves `source` and further pages on a socket from a new thread, only to clients with the
    /// token if there is one. `host` is the configured host of the address.
    pub fn start(
        (host, listener): (&str, TcpListener),
        token: Option<Secret>,
        source: Arc<dyn Source>,
        pages: Router,
    ) -> Result<Self, WebError> {
        let address = listener.local_addr().map_err(WebError::Socket)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(WebError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let router = router((source.clone(), pages), token, host);
        let serve = move || {
            keep_free();
            let work = || LocalSet::new().block_on(&runtime, serve(listener, (router, source), stopped));
            // A panic has its line of the log.
            if let Ok(Err(error)) = guarded("the HTTP thread", work) {
                tracing::error!(%error, "the HTTP server stopped");
            }
        };
        let thread = thread::Builder::new().name("http".to_owned()).spawn(serve).map_err(WebError::Thread)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            debug_assert!(ended.is_ok(), "the HTTP thread does not panic");
        }
    }
}

/// Serves until `stopped` resolves. Connections that are open then are closed, not awaited: a
/// scraper may keep one for as long as it likes.
async fn serve(
    listener: TcpListener,
    (router, source): (Router, Arc<dyn Source>),
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let listener = Rc::new(tokio::net::TcpListener::from_std(listener)?);
    let most = (descriptors::limit() / DESCRIPTORS_PART).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
    let places = Arc::new(Places::new(usize::try_from(most).expect("at most 64")));
    spawn_restarted("accepting of HTTP connections", move || {
        let site = Site { router: router.clone(), source: source.clone(), life: CONNECTION_TIME };
        accept((listener.clone(), places.clone()), site)
    });
    // The sender is dropped: the error is the signal.
    let _ = stopped.await;
    Ok(())
}

/// The response to a connection above the limit.
const NO_PLACE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
    content-type: text/plain; charset=utf-8\r\n\r\n\
    this address answers as many requests as it has connections; repeat the request later\n";

/// Everything that the response to a request needs.
#[derive(Clone)]
struct Site {
    router: Router,
    source: Arc<dyn Source>,
    /// Time for which a connection takes requests.
    life: Duration,
}

/// Accepts connections, and refuses those above the limit.
async fn accept((listener, places): (Rc<tokio::net::TcpListener>, Arc<Places>), site: Site) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (places, site) = (places.clone(), site.clone());
        let served = async move {
            match places.enter(peer.ip()).await {
                Some(place) => converse((stream, peer), place, site).await,
                // A client that has left needs no response.
                None => drop(stream.try_write(NO_PLACE)),
            }
        };
        tokio::task::spawn_local(async move {
            // A panic has its line of the log, and ends this connection alone.
            let _ = caught("an HTTP connection", served).await;
        });
    }
}

/// Responds to the requests of one connection.
async fn converse((stream, peer): (tokio::net::TcpStream, SocketAddr), mut place: Place, site: Site) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(BUFFER_BYTES);
    let (service, progress) = (TowerToHyperService::new(site.router), place.progress.clone());
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let progress = progress.clone();
        let mut request = request.map(|body| Tracked::request(body, progress.clone()));
        request.extensions_mut().insert(Peer(peer));
        let answered = service.call(request);
        async move { answered.await.map(|answer| answer.map(|body| Tracked::answer(body, progress))) }
    });
    let _counted = site.source.stats().http_connection();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(StallGuard::new(stream)), service));
    // A connection that fails or takes too long is closed, but not within a response: the client
    // would not know if its request was carried out.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = place.lost() => return,
        () = tokio::time::sleep(site.life) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(LAST_RESPONSE_TIME, connection).await;
}

fn router((source, pages): (Arc<dyn Source>, Router), token: Option<Secret>, host: &str) -> Router {
    let scrapes = Arc::new(Scrapes::new(source.clone()));
    let router = Router::new()
        .route("/healthz", routing::get(healthz))
        .route("/readyz", routing::get(readyz))
        .with_state(source)
        .merge(Router::new().route("/metrics", routing::get(metrics)).with_state(scrapes))
        .merge(pages)
        .layer(middleware::from_fn(origin::refuse_others));
    match token {
        Some(token) => router.layer(middleware::from_fn_with_state(Arc::new(token), guard)),
        None => router.layer(middleware::from_fn_with_state(Arc::<str>::from(host), own_machine)),
    }
}

/// Admits requests whose Host, if there is one, names this machine by an address, as localhost, or
/// by the configured name.
async fn own_machine(State(own): State<Arc<str>>, request: Request, next: Next) -> Response {
    let header = request.headers().get(header::HOST);
    let named = match (request.uri(), header) {
        (uri, _) if uri.authority().is_some() => uri.authority().cloned(),
        // Browsers always send the header.
        (_, None) => return next.run(request).await,
        (_, Some(host)) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
    };
    if named.is_some_and(|named| is_own(named.host(), &own)) {
        return next.run(request).await;
    }
    let text = "this Host is not allowed: use localhost, an IP address or the name in levada.http.listen, or set levada.http.token\n";
    (StatusCode::MISDIRECTED_REQUEST, [(header::CONNECTION, "close")], text).into_response()
}

fn is_own(host: &str, own: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || host.eq_ignore_ascii_case(own)
}

/// Admits requests with the token.
async fn guard(State(token): State<Arc<Secret>>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if shown.is_some_and(|shown| shows(shown, &token)) {
        return next.run(request).await;
    }
    // A stranger keeps no place.
    let ask = [(header::WWW_AUTHENTICATE, "Bearer, Basic realm=\"levada\""), (header::CONNECTION, "close")];
    (StatusCode::UNAUTHORIZED, ask, "this address requires levada.http.token\n").into_response()
}

fn shows(shown: &str, token: &Secret) -> bool {
    let Some((scheme, rest)) = shown.split_once(' ') else { return false };
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => token.is(rest.trim()),
        "basic" => {
            let decoded = BASE64.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            decoded.is_some_and(|pair| pair.split_once(':').is_some_and(|(_, password)| token.is(password)))
        }
        _ => false,
    }
}

async fn healthz(State(source): State<Arc<dyn Source>>) -> Response {
    match source.unhealthy() {
        None => "ok\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn readyz(State(source): State<Arc<dyn Source>>) -> Response {
    readiness::response(&source.readiness())
}

async fn metrics(
    State(scrapes): State<Arc<Scrapes>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let topics = match query.as_deref() {
        None | Some("" | "topics=true") => true,
        Some("topics=false") => false,
        Some(_) => {
            let text =
                "the only parameter is topics=true|false: with or without topics, partitions and groups\n";
            return (StatusCode::BAD_REQUEST, text).into_response();
        }
    };
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let form = Form::accepted(accept.unwrap_or_default());
    match scrapes.text((form, topics)).await {
        Ok(text) => ([(header::CONTENT_TYPE, form.content_type())], text).into_response(),
        Err(error @ ScrapeError::Busy) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response()
        }
        Err(error @ ScrapeError::Encoding(_)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
        }
    }
}

/// The response for a path without a page. The pages have it as their fallback.
async fn nothing_here() -> Response {
    (StatusCode::NOT_FOUND, "no such page; the paths are /, /livez, /healthz, /readyz and /metrics\n")
        .into_response()
}

#[cfg(test)]
mod tests;
