//! Streams of server-sent events: a body that is fed by a task for as long as a page listens.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use levada_process::tasks::caught;
use levada_process::turns::Turn;
use maud::{Markup, html};
use tokio::sync::mpsc;

use super::visitor::Visitor;
use super::{Console, STREAMS_MAX};

/// Maximum number of events that a page has not read yet; the feed waits while the channel is full.
const EVENTS_MAX: usize = 4;

/// Receiving end of a stream of events: the body of the response.
struct Events {
    inbox: mpsc::Receiver<Bytes>,
    _place: Turn,
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.get_mut().inbox.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

/// Sending end of a stream of events.
pub(super) struct Feed {
    events: mpsc::Sender<Bytes>,
    console: Arc<Console>,
    visitor: Visitor,
}

impl Feed {
    /// Sends an event, with an id from which the page can continue; false if the page no longer
    /// listens or its session has ended.
    pub(super) async fn send(&self, id: Option<&str>, data: &serde_json::Value) -> bool {
        if !self.console.admits(&self.visitor) {
            return false;
        }
        let id = id.map_or(String::new(), |id| format!("id: {id}\n"));
        self.events.send(format!("{id}data: {data}\n\n").into()).await.is_ok()
    }

    /// Completes when the page no longer listens.
    pub(super) async fn closed(&self) {
        self.events.closed().await;
    }
}

/// The element in which the script of a page shows that the stream is interrupted or refused.
pub(super) fn state() -> Markup {
    html! { p.notice.warn data-stream-state role="status" hidden {} }
}

/// A stream of the events that `feed` sends to this visitor, if the limit of streams permits it.
pub(super) fn stream<F>(console: &Arc<Console>, visitor: &Visitor, feed: impl FnOnce(Feed) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(place) = console.streams.try_take(visitor.caller.session().requester()) else {
        let text = format!(
            "{STREAMS_MAX} pages with a live connection are open, or half of them are yours, the maximum; close one of them\n"
        );
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let feed = feed(Feed { events, console: console.clone(), visitor: visitor.clone() });
    // A panic interrupts the stream, as its page shows.
    tokio::spawn(async move { drop(caught("a stream of the console", feed).await) });
    let body = Body::new(Events { inbox, _place: place });
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
