//! One connection: takes a request, processes it, takes the next. Responses leave in the order of
//! their requests, because each request begins after the previous one is done.
//!
//! A client that sends its requests without waiting for the responses gets several responses with
//! one call: a response is kept back while the next request is there already, and leaves before
//! anything is waited for ([`Connection::send_or_keep`]).

use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use levada_base::log_pace::Shortened;
use levada_io::residency::{Trail, Warm};
use levada_io::{Piece, SourceFault, TransferError, Turn};
use levada_process::clock::steady_ms;
use levada_wire::RequestHeader;
use levada_wire::frame::FrameBuffer;
use tokio::io::Interest;
use tokio::sync::oneshot;
use tokio::time::Sleep;

use crate::api::connection_info::ConnectionInfo;
use crate::api::{self, Context, Reply, RequestError};
use crate::replay;
use crate::request_memory::{Held, NewcomerShare};
use crate::server::auth_gate::{AuthGate, AuthStep};
use crate::server::channel::{Channel, Received, Sending};
use crate::server::connection_limits::ConnectionPermit;
use crate::server::open_streams::OpenStream;
use crate::server::shard::{Accepted, Shard};
use crate::stats::Answered;

mod close_reason;
mod receive;

use self::close_reason::CloseReason;

/// Bytes that are read ahead from a slow disk.
const AHEAD_BYTES: u64 = 1 << 20;

/// Maximum size in bytes, and maximum number, of responses that are held back while further
/// requests of the same client are processed.
const KEPT_BACK_BYTES: u64 = 16 * 1024;
const KEPT_BACK_PIECES: usize = 16;
const _: () = assert!(KEPT_BACK_BYTES < AHEAD_BYTES, "answers that are kept back are small");

/// Maximum duration of a timer.
const SILENCE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Treatment of pages that were read from the disk, once they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CachePolicy {
    Keep,
    AskAdmission,
}

/// Serves one connection until it ends; its errors concern no other connection.
pub(crate) async fn serve(shard: Rc<Shard>, accepted: Accepted) {
    let peer = accepted.info.peer;
    let principal = accepted.info.certificate.as_ref().map(|name| name.principal.as_str());
    tracing::debug!(%peer, listener = accepted.info.listener.name, principal, "connection opened");
    let _counted = shard.broker().stats().connection(&accepted.info.listener.name);
    match run(&shard, accepted).await {
        Ok(()) => tracing::debug!(%peer, "connection closed"),
        Err(error @ CloseReason::Idle { .. }) => {
            tracing::debug!(%peer, %error, "connection closed by the broker")
        }
        Err(CloseReason::Lost(error)) => tracing::debug!(%peer, %error, "connection lost"),
        Err(CloseReason::Send(error @ TransferError::Peer { .. })) => {
            tracing::debug!(%peer, %error, "connection lost")
        }
        Err(error) => match shard.told.admit(steady_ms()) {
            Some(left_out) => {
                let error = Shortened(&error);
                tracing::info!(%peer, %error, left_out, "connection closed by the broker");
            }
            None => tracing::debug!(%peer, %error, "connection closed by the broker"),
        },
    }
}

async fn run(shard: &Rc<Shard>, accepted: Accepted) -> Result<(), CloseReason> {
    let stream = shard.streams.register(accepted.stream)?;
    let mut connection = Connection {
        shard: shard.clone(),
        gate: AuthGate::new(shard.broker(), &accepted.info),
        info: Rc::new(accepted.info),
        local: stream.local_addr()?,
        max_idle: shard.broker().config().connections_max_idle,
        silent: Box::pin(tokio::time::sleep(SILENCE_MAX)),
        _permit: accepted.permit,
        received: FrameBuffer::new(0),
        held: None,
        newcomer: None,
        kept_back: Vec::new(),
        kept_back_times: Vec::new(),
        trail: Trail::default(),
        channel: accepted.channel,
        stream,
    };
    connection.received.set_limit(connection.gate.frame_bytes_max(shard.broker()));
    let ended = connection.converse().await;
    match &ended {
        Ok(()) => connection.gate.close(shard.broker(), &connection.info, &"closed"),
        Err(error) => connection.gate.close(shard.broker(), &connection.info, error),
    }
    connection.leave_no_trace();
    connection.channel.send_close_notify(&connection.stream);
    ended
}

/// The result of `work` if it has nothing to wait for.
async fn at_once<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    std::future::poll_fn(|context| {
        Poll::Ready(match work.as_mut().poll(context) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    })
    .await
}

/// Runs `then` as soon as `waits` is true. It may become true only while the same task polls the
/// request, which happens before each poll of this future.
async fn once_it_waits(waits: &impl Fn() -> bool, then: impl Future<Output = ()>) {
    let mut then = std::pin::pin!(then);
    std::future::poll_fn(|context| if waits() { then.as_mut().poll(context) } else { Poll::Pending }).await
}

struct Connection {
    shard: Rc<Shard>,
    stream: OpenStream,
    info: Rc<ConnectionInfo>,
    gate: AuthGate,
    local: SocketAddr,
    received: FrameBuffer,
    /// The memory of the request that is coming in.
    held: Option<Held>,
    /// The memory of the requests of a client that has not authenticated yet.
    newcomer: Option<NewcomerShare>,
    /// Responses that are not yet sent; none while anything is waited for.
    kept_back: Vec<Piece>,
    /// Times of the requests whose responses are kept back.
    kept_back_times: Vec<Answered>,
    trail: Trail,
    channel: Channel,
    max_idle: Option<Duration>,
    /// Fires some time into a [silence](Connection::silence).
    silent: Pin<Box<Sleep>>,
    _permit: ConnectionPermit,
}

impl Connection {
    /// Processes one request after the other until the client has no more, or the broker stops.
    async fn converse(&mut self) -> Result<(), CloseReason> {
        let shard = self.shard.clone();
        // One for all requests: to begin listening takes a lock that all shards share.
        let mut stopped = std::pin::pin!(shard.stop().signalled());
        loop {
            let frame = tokio::select! {
                frame = self.next_in_time() => frame?,
                () = &mut stopped => return self.send_kept_back().await,
            };
            let Some(frame) = frame else { return Ok(()) };
            let taken = self.take(frame).await;
            if let Err(CloseReason::Request(_) | CloseReason::AuthError(_)) = taken {
                self.send_kept_back().await?;
            }
            taken?;
            self.held = None;
            if self.gate.is_open() {
                // An unfinished authentication may keep a message of the client.
                self.newcomer = None;
            }
        }
    }

    /// Waits for the socket, no longer than a connection may be idle.
    async fn unless_idle(&self, ready: impl Future<Output = std::io::Result<()>>) -> Result<(), CloseReason> {
        let ready = match self.max_idle {
            Some(limit) => {
                tokio::time::timeout(limit, ready).await.map_err(|_| CloseReason::Idle { limit })?
            }
            None => ready.await,
        };
        Ok(ready?)
    }

    /// Processes one frame: a request, or a step of the client's authentication.
    async fn take(&mut self, mut frame: BytesMut) -> Result<(), CloseReason> {
        let request_bytes = frame.len();
        match self.gate.pass(self.shard.broker(), &self.info, frame)? {
            AuthStep::Through(through) => frame = through,
            AuthStep::Versions(header, body) => return self.answer(header, body, request_bytes).await,
            AuthStep::Answer(bytes) => {
                self.send(vec![Piece::Bytes(bytes)], CachePolicy::Keep, None).await?;
                self.received.set_limit(self.gate.frame_bytes_max(self.shard.broker()));
                return Ok(());
            }
            AuthStep::Closed { answer, after, error } => {
                self.send_kept_back().await?;
                // The delay slows down a client that guesses passwords.
                tokio::select! {
                    () = tokio::time::sleep(after) => {}
                    () = self.shard.stop().signalled() => {}
                }
                if let Some(bytes) = answer {
                    self.send(vec![Piece::Bytes(bytes)], CachePolicy::Keep, None).await?;
                }
                return Err(error.into());
            }
        }
        let header = RequestHeader::decode(&mut frame).map_err(RequestError::from)?;
        self.answer(header, frame, request_bytes).await
    }

    async fn answer(
        &mut self,
        header: RequestHeader,
        frame: BytesMut,
        request_bytes: usize,
    ) -> Result<(), CloseReason> {
        let api = header.api;
        self.shard.service.requests.received(api, request_bytes);
        let who = (self.info.clone(), self.gate.session().clone(), self.local);
        let context = Context::new(self.shard.service.clone(), header, who).holding(self.held.take());
        // Clients that have yet to authenticate have no quota, as in Kafka.
        if !self.gate.is_open() {
            context.exempt_time();
        }
        let work = context.meter.measure(api::answer(&context, frame));
        let reply = self.replied(work, &|| context.waits_for_others()).await;
        // Before the response leaves: a client that does not wait for it has used the time as well.
        context.book_time();
        let reply = reply?;
        let answered = context.meter.answered(api, reply.bytes());
        match reply {
            Reply::Send(pieces) => self.send_or_keep(pieces, answered).await?,
            Reply::SendOld(pieces) => self.send(pieces, CachePolicy::AskAdmission, Some(answered)).await?,
            Reply::Silent => {
                self.shard.service.requests.sent(&answered, answered.there);
                if !self.received.has_frame() {
                    self.send_kept_back().await?;
                }
            }
        }
        let mute = context.meter.mute();
        drop(context);
        self.shard.service.requests.throttled(api, mute);
        if !mute.is_zero() {
            self.send_kept_back().await?;
            // The response has left: until the mute ends, the broker reads nothing (KIP-219).
            self.muted(mute).await?;
        }
        Ok(())
    }

    /// Delays a client that has exceeded its quota, for no longer than the idle limit of a
    /// connection, and only while the client is connected.
    async fn muted(&mut self, wait: Duration) -> Result<(), CloseReason> {
        let idle = self.max_idle.unwrap_or(Duration::MAX);
        let shard = self.shard.clone();
        tokio::select! {
            () = tokio::time::sleep(wait.min(idle)) => {
                if wait > idle { Err(CloseReason::Idle { limit: idle }) } else { Ok(()) }
            }
            () = self.gone() => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
            () = shard.stop().signalled() => Ok(()),
        }
    }

    /// The reply to a request. As soon as the request has to wait, responses that were held back
    /// are sent. A request that has begun runs to its end, also if its client is gone: the audit
    /// log gets a change after the change is done. Only a request that `waits` for other clients
    /// ends with its own.
    async fn replied(
        &mut self,
        work: impl Future<Output = Result<Reply, RequestError>>,
        waits: &impl Fn() -> bool,
    ) -> Result<Reply, CloseReason> {
        let mut work = std::pin::pin!(work);
        if let Some(done) = at_once(work.as_mut()).await {
            return Ok(done?);
        }
        if !self.kept_back.is_empty() {
            let mut send = std::pin::pin!(self.send_kept_back());
            let sent = tokio::select! {
                biased;
                done = &mut work => {
                    send.await?;
                    return Ok(done?);
                }
                sent = &mut send => sent,
            };
            if let Err(error) = sent {
                tokio::select! {
                    biased;
                    _ = work => {}
                    () = once_it_waits(waits, std::future::ready(())) => {}
                }
                return Err(error);
            }
        }
        tokio::select! {
            biased;
            done = work => Ok(done?),
            () = once_it_waits(waits, self.gone()) => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
        }
    }

    /// Completes when the client has disconnected, so that a request that may wait for long ends
    /// with it. A client with more requests in flight is not watched: its next read detects the
    /// end.
    async fn gone(&mut self) {
        let more = match self.channel {
            _ if self.received.pending() > 0 => true,
            Channel::Plain => self.stream.peek(&mut [0]).await.is_ok_and(|received| received > 0),
            // A close_notify is encrypted: only decryption distinguishes it from a request.
            _ => self.received_more().await,
        };
        if more {
            std::future::pending().await
        }
    }

    /// Reads the available bytes of the client once; true if the client is still connected.
    async fn received_more(&mut self) -> bool {
        while self.stream.readable().await.is_ok() {
            match self.channel.receive(&self.stream, self.received.spare()) {
                Ok(received) => return received == Received::Something,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Sends one response, or holds it back if the client has already sent its next request. This
    /// saves a system call and perhaps a wake-up of the client, while the next request keeps this
    /// thread busy.
    async fn send_or_keep(&mut self, mut pieces: Vec<Piece>, answered: Answered) -> Result<(), CloseReason> {
        let small = pieces.iter().all(|piece| matches!(piece, Piece::Bytes(_)));
        let bytes: u64 = self.kept_back.iter().chain(&pieces).map(Piece::len).sum();
        let count = self.kept_back.len() + pieces.len();
        if !small || bytes > KEPT_BACK_BYTES || count > KEPT_BACK_PIECES || !self.received.has_frame() {
            return self.send(pieces, CachePolicy::Keep, Some(answered)).await;
        }
        self.kept_back.append(&mut pieces);
        self.kept_back_times.push(answered);
        // Other connections of the shard have their turns also when nothing is waited for.
        tokio::task::consume_budget().await;
        Ok(())
    }

    async fn send_kept_back(&mut self) -> Result<(), CloseReason> {
        if self.kept_back.is_empty() {
            return Ok(());
        }
        self.send(Vec::new(), CachePolicy::Keep, None).await
    }

    /// Reports to the watch of a data directory that a file in it could not be read while it was
    /// sent.
    fn blame(&self, error: &TransferError) {
        if let TransferError::Source { path, cause: SourceFault::Read(error), .. } = error {
            self.shard.broker().replicas().dirs().report_read(path, error);
        }
    }

    /// Sends held-back responses and one further response, one turn at a time, whenever the socket
    /// accepts more.
    async fn send(
        &mut self,
        mut pieces: Vec<Piece>,
        policy: CachePolicy,
        answered: Option<Answered>,
    ) -> Result<(), CloseReason> {
        if !self.kept_back.is_empty() {
            self.kept_back.append(&mut pieces);
            pieces = std::mem::take(&mut self.kept_back);
        }
        let bytes = pieces.iter().map(Piece::len).sum();
        let mut sending = self.channel.sending(pieces);
        loop {
            self.unless_idle(self.stream.writable()).await?;
            let mut failed = None;
            let turn = self.stream.try_io(Interest::WRITABLE, || {
                let mut engine = self.shard.engine.borrow_mut();
                match self.channel.step((&mut sending, &self.stream), &mut engine) {
                    Ok(Turn::Blocked) => Err(std::io::ErrorKind::WouldBlock.into()),
                    Ok(turn) => Ok(Some(turn)),
                    Err(error) => {
                        failed = Some(error);
                        Ok(None)
                    }
                }
            });
            if let Some(error) = failed {
                self.blame(&error);
                return Err(error.into());
            }
            match turn {
                Ok(Some(Turn::Done)) => {
                    self.record(answered);
                    return Ok(self.channel.sent(&self.stream, bytes)?);
                }
                Ok(Some(Turn::Cold)) => self.warm(&mut sending, policy).await,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Counts the responses that the socket has just accepted.
    fn record(&mut self, answered: Option<Answered>) {
        if answered.is_none() && self.kept_back_times.is_empty() {
            return;
        }
        let now = Instant::now();
        for answered in self.kept_back_times.drain(..).chain(answered) {
            self.shard.service.requests.sent(&answered, now);
        }
    }

    /// Waits until the next bytes are in memory, in a buffer or in the page cache, while other
    /// connections continue. If the queue is full, the next turn waits for the disk itself; the
    /// next turn also reports errors of the disk.
    async fn warm(&mut self, sending: &mut Sending, policy: CachePolicy) {
        let Some(mut warm) = sending.cold(AHEAD_BYTES) else { return };
        if policy == CachePolicy::AskAdmission {
            if self.is_admitted(&warm).await {
                let Some(more) = sending.cold(replay::AHEAD_BYTES) else { return };
                warm = more;
            } else {
                if let Sending::Plain(transfer) = sending
                    && let Some(bytes) = self.shard.cold_lane.read(&warm.extent).await
                {
                    let count = bytes.iter().map(|bytes| bytes.len() as u64).sum();
                    self.shard.broker().transfers().replays().went_around(count);
                    return transfer.supply(bytes);
                }
                warm.ahead.iter().for_each(|extent| self.shard.broker().transfers().replays().note(extent));
                warm = warm.once(&mut self.trail);
            }
        }
        let (done, there) = oneshot::channel();
        let told = move |warmed| {
            // The connection may have closed.
            let _ = done.send(warmed);
        };
        if self.shard.broker().transfers().warmer().submit(warm, told).is_ok()
            && let Ok(Ok(warmed)) = there.await
        {
            self.trail.follow(warmed);
        }
    }

    /// True if old records may stay in the page cache. A range that the same connection has just
    /// requested does not count as a second read.
    async fn is_admitted(&self, warm: &Warm) -> bool {
        let broker = self.shard.broker();
        let policy = broker.config().replay_cache;
        !self.trail.is_under_way(&warm.extent)
            && broker.transfers().replays().admits(warm, policy).await == replay::Verdict::Admitted
    }

    /// Drops the pages that this connection has read into the page cache.
    fn leave_no_trace(&mut self) {
        if let Some(warm) = Warm::behind(self.trail.finish()) {
            // With a full queue there are others to push these pages out.
            let _ = self.shard.broker().transfers().warmer().submit(warm, |_| {});
        }
    }
}

#[cfg(test)]
mod tests;
