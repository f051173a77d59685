//! HTTP of object stores: connections over rustls with the system's certificates, with time limits
//! for each step of a request.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::Method;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Time limit of a new connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Slowest rate at which the body of a request may be sent.
const BYTES_PER_SECOND: u64 = 1024 * 1024;
/// Idle connections end before the usual limit of load balancers (60 s).
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// Largest body of an error that is read, in bytes. A larger one is reported as a separate error.
const ERROR_BODY_LIMIT: u64 = 256 * 1024;
/// Largest document that is read, such as a page of a list. Only objects are larger: they have no
/// query in their address, and are passed on piece by piece.
const DOCUMENT_LIMIT: u64 = 256 * 1024 * 1024;

/// Creates the client of a store.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    tls: Arc<ClientConfig>,
    request_timeout: Duration,
}

impl Connector {
    /// Reads the system's certificates. `request_timeout` limits the wait for the head of a
    /// response, in addition to the time to send the request, and the wait for each further piece
    /// of its body.
    pub(crate) fn new(request_timeout: Duration) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        // Certificates that are not readable are left out; without a valid one, connections fail.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Arc::new(tls), request_timeout })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = Tcp::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(ClientConfig::clone(&self.tls))
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(https);
        Ok(HttpClient::new(Service { client, request_timeout: self.request_timeout }))
    }
}

#[derive(Debug)]
struct Service {
    client: Client<HttpsConnector<Tcp>, HttpRequestBody>,
    request_timeout: Duration,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_object = request.method() == Method::GET && request.uri().query().is_none();
        let to_send = Duration::from_secs(request.body().content_length() as u64 / BYTES_PER_SECOND);
        let answer = timeout(self.request_timeout + to_send, self.client.request(request)).await;
        let response = answer.map_err(|_| timed_out())?.map_err(failed)?;
        let (parts, body) = response.into_parts();
        let limit = match (parts.status.is_success(), is_object) {
            (true, true) => u64::MAX,
            (true, false) => DOCUMENT_LIMIT,
            (false, _) => ERROR_BODY_LIMIT,
        };
        let body = TimedBody {
            body,
            wait: Box::pin(sleep(self.request_timeout)),
            limit: self.request_timeout,
            bytes_left: limit,
        };
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Body of a response with a time limit for each piece, and a limit of bytes.
struct TimedBody<B> {
    body: B,
    wait: Pin<Box<Sleep>>,
    limit: Duration,
    bytes_left: u64,
}

impl<B: Body<Data = Bytes, Error = hyper::Error> + Unpin> Body for TimedBody<B> {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            return match self.wait.as_mut().poll_deadline(context) {
                Poll::Ready(()) => Poll::Ready(Some(Err(timed_out()))),
                Poll::Pending => Poll::Pending,
            };
        };
        let next = Instant::now() + self.limit;
        self.wait.as_mut().reset(next);
        let Some(frame) = frame else { return Poll::Ready(None) };
        let frame = frame.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        if let Some(bytes) = frame.as_ref().ok().and_then(Frame::data_ref) {
            match self.bytes_left.checked_sub(bytes.len() as u64) {
                Some(left) => self.bytes_left = left,
                None => {
                    let cause = io::Error::other("the document of the store is too long");
                    return Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Decode, cause))));
                }
            }
        }
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A name for polling a timer, which is a future too.
trait PollDeadline {
    fn poll_deadline(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()>;
}

impl PollDeadline for Sleep {
    fn poll_deadline(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, context)
    }
}

fn timed_out() -> HttpError {
    let cause = io::Error::new(io::ErrorKind::TimedOut, "the store did not respond in time");
    HttpError::new(HttpErrorKind::Timeout, cause)
}

fn failed(error: hyper_util::client::legacy::Error) -> HttpError {
    let kind = if error.is_connect() { HttpErrorKind::Connect } else { kind_of(&error) };
    HttpError::new(kind, Failed(chain(&error)))
}

/// Requests that the server may have received are `Interrupted`, so that only repeatable ones are
/// repeated.
fn kind_of(error: &hyper_util::client::legacy::Error) -> HttpErrorKind {
    let inner = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    match inner {
        Some(inner) if inner.is_canceled() || inner.is_user() => HttpErrorKind::Request,
        _ => HttpErrorKind::Interrupted,
    }
}

/// Text of an error and its causes.
#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for Failed {}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
