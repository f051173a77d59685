//! The thread that processes large requests other than those for records. Decoding, processing and
//! encoding a request of a megabyte takes tens of milliseconds, for which the other connections of
//! a shard would wait.
//!
//! Only a few of them are processed at the same time, in turns of the clients, which bounds the
//! memory that their decoded forms and responses take. A request that waits for other clients by
//! its nature (JoinGroup, SyncGroup) never comes here. A request that the controller of a cluster
//! decides comes here when it has: its response has as many entries. A request that waits for other
//! brokers gives its turn back before ([`Context::give_turn_back`]): the other large requests do
//! not wait for them.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::BytesMut;
use levada_process::shutdown::Stop;
use levada_process::tasks::guarded;
use levada_process::turns::Turn;
use levada_security::Session;
use levada_wire::{ApiKey, RequestHeader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use crate::api::connection_info::ConnectionInfo;
use crate::api::forwarding::{self, Decided};
use crate::api::meter::Meter;

use crate::api::{self, Context, Reply, RequestError, Service};
use crate::broker::Broker;
use crate::request_memory::Held;
use crate::turns::LARGE_REQUESTS_AT_ONCE;

/// Maximum number of large requests that the thread has not yet accepted: each is already counted
/// as in progress.
const INBOX_REQUESTS: usize = LARGE_REQUESTS_AT_ONCE;

/// A request with everything that its response depends on.
pub(crate) struct LargeRequest {
    pub(crate) header: RequestHeader,
    pub(crate) info: ConnectionInfo,
    pub(crate) session: Session,
    pub(crate) local: SocketAddr,
    /// True if its time counts against no quota.
    pub(crate) is_exempt: bool,
    /// The request's share of the memory of requests.
    pub(crate) held: Option<Held>,
    pub(crate) work: LargeWork,
    pub(crate) turn: Turn,
    /// Channel to the connection that waits for the response.
    pub(crate) asker: oneshot::Sender<LargeAnswer>,
}

/// Work that a large request is.
pub(crate) enum LargeWork {
    /// Process the request, whose header has been removed.
    Answer(BytesMut),
    /// Returns the decision of the cluster's controller.
    Pass(Decided),
}

/// The response to a large request.
pub(crate) struct LargeAnswer {
    pub(crate) reply: Result<Reply, RequestError>,
    /// The time that the thread was busy with it.
    pub(crate) meter: Meter,
}

/// Starts the thread. The thread ends after its last sender.
///
/// # Errors
/// The thread or its runtime cannot be made.
pub(crate) fn start(
    broker: Arc<Broker>,
    stop: Stop,
) -> std::io::Result<(mpsc::Sender<LargeRequest>, JoinHandle<()>)> {
    let (handover, inbox) = mpsc::channel(INBOX_REQUESTS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let thread = std::thread::Builder::new().name("large-requests".to_owned()).spawn(move || {
        let (own, requests) = (broker.clone(), broker.stats().recorder());
        let service = Rc::new(Service { broker, stop, large: None, requests });
        let work = || LocalSet::new().block_on(&runtime, run(service, inbox));
        if let Err(panicked) = guarded("the thread of large requests", work) {
            own.give_up(panicked.to_string());
        }
    })?;
    Ok((handover, thread))
}

/// Passes a request to the thread for large requests, and returns the response.
pub(super) async fn answer_elsewhere(
    context: &Context,
    work: LargeWork,
    large: &mpsc::Sender<LargeRequest>,
) -> Result<Reply, RequestError> {
    let turn = context.broker().turns().large_requests.take(context.session().requester()).await;
    let (asker, answered) = oneshot::channel();
    let request = LargeRequest {
        header: context.header.clone(),
        info: ConnectionInfo::clone(&context.info),
        session: Session::clone(&context.session),
        local: context.local,
        is_exempt: context.meter.is_exempt(),
        held: context.held.take(),
        work,
        turn,
        asker,
    };
    assert!(large.send(request).await.is_ok(), "the thread is there as long as a shard is");
    let answered = answered.await.expect("a large request is answered");
    context.meter.add(&answered.meter);
    answered.reply
}

/// Requests for records yield to others by themselves; those that wait for other members of a group
/// would keep further large requests waiting. Of the latter, decoding and encoding leave the shard.
/// Requests for telemetry change the state of their connection, of which the other thread has a
/// copy.
pub(super) fn stays(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::Produce
            | ApiKey::Fetch
            | ApiKey::ShareFetch
            | ApiKey::JoinGroup
            | ApiKey::SyncGroup
            | ApiKey::GetTelemetrySubscriptions
            | ApiKey::PushTelemetry
    )
}

async fn run(service: Rc<Service>, mut inbox: mpsc::Receiver<LargeRequest>) {
    while let Some(request) = inbox.recv().await {
        tokio::task::spawn_local(request.answer(service.clone()));
    }
}

impl Context {
    /// Releases the place of a large request that is about to wait for other brokers. Does nothing
    /// for other requests.
    pub(super) fn give_turn_back(&self) {
        self.turn.take();
    }
}

impl LargeRequest {
    async fn answer(mut self, service: Rc<Service>) {
        let who = (Rc::new(self.info), Rc::new(self.session), self.local);
        // Kept until the response is sent, also if nothing of its body is: a request without a turn
        // has no other bound.
        let _held = self.held;
        let context = Context::new(service, self.header, who);
        context.turn.set(Some(self.turn));
        if self.is_exempt {
            context.exempt_time();
        }
        let work = async {
            match self.work {
                LargeWork::Answer(body) => api::dispatch(&context, body).await,
                LargeWork::Pass(decided) => forwarding::reply(&context, decided).await,
            }
        };
        let reply = tokio::select! {
            reply = context.meter.measure(work) => reply,
            // A shard that stops does not wait longer than its grace period.
            () = self.asker.closed() => return,
        };
        // The connection may have closed.
        let _ = self.asker.send(LargeAnswer { reply, meter: context.meter });
    }
}
