//! One connection: receives a request, responds to it, receives the next. Responses are sent in the
//! order of their requests, because each begins after the previous one is done; small responses to
//! a client that has already sent further requests are sent together.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use levada_io::{Piece, TransferError};
use tokio::sync::futures::Notified;

use crate::access_log::Draft;
use crate::answer::{self, Reply};
use crate::listen::Purpose;
use crate::metrics;
use crate::outgoing::{self, Outgoing};
use crate::request::{self, Method, Parsed};
use crate::responder::{Decision, Prepared, Work};
use crate::shard::Shard;
use crate::socket::{Peer, Socket};
use crate::timer::Timer;

mod receive;
mod send;

/// Time that a connection may wait for its next request.
const IDLE: Duration = Duration::from_secs(60);

/// Time that a head may take from its first byte on.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Time that a refused client has to read the reason, and number of bytes that it may send during
/// that time.
const FAREWELL_TIME: Duration = Duration::from_secs(2);
const FAREWELL_BYTES: usize = 256 << 10;

/// Maximum number of bytes of responses that are held back while further requests of the client are
/// available.
const KEPT_BACK_BYTES: u64 = 64 << 10;

/// Maximum number of bytes of request bodies that one connection may send; they are dropped.
const DROPPED_BYTES_MAX: u64 = 1 << 20;

/// The reason why a connection ends other than by the client's wish.
#[derive(Debug, thiserror::Error)]
enum CloseReason {
    #[error("connection lost: {0}")]
    Lost(#[from] io::Error),
    #[error("the client did not {action} within {} s", limit.as_secs_f32())]
    Slow { action: &'static str, limit: Duration },
    #[error("cannot send the whole response: {0}")]
    Send(#[from] TransferError),
    #[error("{} changed while it was sent", path.display())]
    Changed { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the connection did not begin with a PROXY protocol header")]
    NoHeader,
    #[error("TLS failed: {0}")]
    Tls(#[from] rustls::Error),
}

/// Serves one connection until it ends; its errors affect no other connection.
pub(crate) async fn serve(shard: Rc<Shard>, (socket, peer): (Socket, Peer), purpose: Purpose) {
    let outgoing = match purpose {
        Purpose::SecureFiles => match shard.shared.session() {
            Ok(session) => Outgoing::sealed(session),
            Err(error) => return tracing::error!(%error, "cannot use the TLS configuration"),
        },
        Purpose::Files | Purpose::Metrics => Outgoing::plain(),
    };
    let stopped = shard.clone();
    let stopped = std::pin::pin!(stopped.stopped.notified());
    let mut connection = Connection {
        shard,
        socket,
        peer,
        purpose,
        timer: Timer::new(IDLE),
        pending: Vec::new(),
        skip: 0,
        dropped: 0,
        head_since: None,
        outgoing,
        pushed: 0,
        notes: Vec::new(),
        prepared: Vec::new(),
    };
    let introduced = if connection.shard.shared.proxy_protocol && purpose != Purpose::Metrics {
        connection.introduce().await
    } else {
        Ok(())
    };
    let ended = match introduced {
        Ok(()) => connection.converse(stopped).await,
        Err(error) => Err(error),
    };
    connection.write_notes();
    connection.send_close_notify();
    match ended {
        Ok(Closing::None) => {}
        Ok(Closing::Long) => connection.part().await,
        Err(
            error @ (CloseReason::Changed { .. }
            | CloseReason::Read { .. }
            | CloseReason::Send(TransferError::Source { .. })),
        ) => {
            connection.shard.shared.stats.cut();
            tracing::info!(%peer, %error, "connection closed");
            // The client may not have read the responses before this one.
            connection.part().await;
        }
        Err(error) => tracing::debug!(%peer, %error, "connection closed"),
    }
}

/// Reason for the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// The connection is closed.
    None,
    /// Bytes that the client still sends are read for a while: an immediate close would reset the
    /// connection, and the client might never see the last response.
    Long,
}

/// Access log line that is written after the response has left.
#[derive(Debug)]
struct Note {
    draft: Option<Box<Draft>>,
    status: http::StatusCode,
    head_bytes: u64,
    body_bytes: u64,
    begun: Instant,
}

struct Connection {
    shard: Rc<Shard>,
    socket: Socket,
    peer: Peer,
    purpose: Purpose,
    timer: Timer,
    /// Received bytes without a response yet: a part of a head, or the requests after the present
    /// one.
    pending: Vec<u8>,
    /// Bytes of a request's body that are still to be dropped.
    skip: u64,
    /// Bytes of all bodies so far.
    dropped: u64,
    /// Time of the first byte of an unfinished head.
    head_since: Option<tokio::time::Instant>,
    outgoing: Outgoing,
    /// Bytes of responses given to it since it was last empty.
    pushed: u64,
    /// Access-log notes of the responses among these bytes.
    notes: Vec<Note>,
    /// Results of the waits of the request that is being processed.
    prepared: Vec<Prepared>,
}

/// Result of parsing the received bytes.
enum Taken {
    Answer(Reply, Option<Box<Draft>>),
    /// The last response: the request is refused.
    Refused(Reply, Option<Box<Draft>>),
    Wait(Work),
    /// A message of the TLS handshake has arrived.
    Handshake,
    /// Incomplete: more bytes are needed.
    More,
    /// The client sends no more data.
    End,
}

impl Connection {
    async fn converse(&mut self, mut stopped: Pin<&mut Notified<'_>>) -> Result<Closing, CloseReason> {
        loop {
            match self.take()? {
                Taken::Answer(reply, draft) => {
                    self.prepared.clear();
                    let last = reply.close;
                    self.send(reply, draft).await?;
                    if last {
                        self.flush().await?;
                        let more = self.skip > 0 || !self.pending.is_empty();
                        return Ok(if more { Closing::Long } else { Closing::None });
                    }
                }
                Taken::Refused(reply, draft) => {
                    debug_assert!(reply.close, "a refused request is the last one");
                    self.send(reply, draft).await?;
                    self.flush().await?;
                    return Ok(Closing::Long);
                }
                Taken::Wait(work) => {
                    self.flush().await?;
                    let shard = self.shard.clone();
                    self.prepared.push(shard.perform(work).await);
                }
                Taken::Handshake => self.handshake().await?,
                Taken::More => {
                    self.flush().await?;
                    if !self.more(stopped.as_mut()).await? {
                        return Ok(Closing::None);
                    }
                }
                Taken::End => {
                    self.flush().await?;
                    return Ok(Closing::None);
                }
            }
        }
    }

    /// Responds to received requests, as far as that requires no wait.
    fn take(&mut self) -> Result<Taken, CloseReason> {
        let shard = self.shard.clone();
        let mut inbox = shard.inbox.borrow_mut();
        if !self.pass_over(&mut inbox)? {
            return Ok(Taken::More);
        }
        loop {
            let pending = std::mem::take(&mut self.pending);
            let (taken, used) = if pending.is_empty() { (Taken::More, 0) } else { self.judge(&pending) };
            self.pending = pending;
            self.consume(used);
            if !matches!(taken, Taken::More) {
                self.head_since = None;
                return Ok(taken);
            }
            if let Outgoing::Sealed(_) = &self.outgoing {
                match self.decrypt()? {
                    Some(taken) => return Ok(taken),
                    None => continue,
                }
            }
            let count = match self.receive(&mut inbox) {
                Ok(None) => return Ok(Taken::End),
                Ok(Some(count)) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.pending.is_empty() {
                        self.head_since.get_or_insert_with(tokio::time::Instant::now);
                    }
                    return Ok(Taken::More);
                }
                Err(error) => return Err(error.into()),
            };
            if !self.pending.is_empty() {
                self.pending.extend_from_slice(&inbox[..count]);
                continue;
            }
            // The usual case: a whole request, answered from where it was read.
            let (taken, used) = self.judge(&inbox[..count]);
            self.pending.extend_from_slice(&inbox[used..count]);
            if !matches!(taken, Taken::More) {
                return Ok(taken);
            }
        }
    }

    /// Drops processed bytes, and the memory if none remain.
    fn consume(&mut self, used: usize) {
        if used == self.pending.len() {
            self.pending = Vec::new();
        } else {
            self.pending.drain(..used);
        }
    }

    /// Responds to the request at the start of `bytes`, and returns the number of processed bytes.
    fn judge(&mut self, bytes: &[u8]) -> (Taken, usize) {
        let shard = self.shard.clone();
        let now = SystemTime::now();
        shard.clock.with(now, |moment| {
            let mut room = request::room();
            let refused = |this: &Self, refusal, head: Option<&request::Head<'_, '_>>| {
                let head_only = match head {
                    Some(head) => head.method == Method::Head,
                    None => request::begins_with_head(bytes),
                };
                let reply = answer::refused(refusal, head_only, moment);
                (Taken::Refused(reply, this.draft(head)), bytes.len())
            };
            let (head, used) = match request::parse(bytes, &mut room) {
                Ok(Parsed::Whole(mut head, used)) => {
                    // The response announces the end of the connection when the server stops; a
                    // further request would be lost.
                    head.keep_alive &= !shard.stopping.get();
                    // The same for a client that sends bodies repeatedly.
                    head.keep_alive &= self.dropped.saturating_add(head.body_bytes) <= DROPPED_BYTES_MAX;
                    (head, used)
                }
                Ok(Parsed::Partial) => return (Taken::More, 0),
                Err(refusal) => return refused(self, refusal, None),
            };
            let decided = match self.purpose {
                Purpose::Files | Purpose::SecureFiles => {
                    shard.responder.decide(&head, &mut self.prepared, (moment, Instant::now()))
                }
                Purpose::Metrics => metrics::decide(&head, &shard.shared, moment).map(Decision::Reply),
            };
            match decided {
                Ok(Decision::Reply(reply)) => {
                    self.skip = head.body_bytes;
                    self.dropped += head.body_bytes;
                    (Taken::Answer(reply, self.draft(Some(&head))), used)
                }
                // Answered again from the same bytes when the work is done.
                Ok(Decision::Wait(work)) => (Taken::Wait(work), 0),
                Err(refusal) => refused(self, refusal, Some(&head)),
            }
        })
    }

    /// The log line of a request, of which only the refusal may be known.
    fn draft(&self, head: Option<&request::Head<'_, '_>>) -> Option<Box<Draft>> {
        let is_noted = self.shard.access_log.is_some() && self.purpose != Purpose::Metrics;
        is_noted.then(|| Box::new(head.map(Draft::of).unwrap_or_default()))
    }

    /// Waits for more of a request, or for one to begin; not if the server stops before that.
    async fn more(&mut self, mut stopped: Pin<&mut Notified<'_>>) -> Result<bool, CloseReason> {
        let is_open = self.outgoing.sealing().is_none_or(|sealed| sealed.is_open);
        let idle = is_open && self.pending.is_empty() && self.skip == 0;
        let now = tokio::time::Instant::now();
        let deadline = match self.head_since {
            _ if idle => now + IDLE,
            Some(since) => since + HEAD_TIME,
            None => now + HEAD_TIME,
        };
        self.timer.until(deadline);
        let stopping = &self.shard.stopping;
        let (socket, timer) = (&self.socket, &mut self.timer);
        let ready = std::future::poll_fn(|context| {
            if let Poll::Ready(ready) = socket.poll_readable(context) {
                return Poll::Ready(ready.map(|()| true).map_err(CloseReason::from));
            }
            if idle && (stopping.get() || stopped.as_mut().poll(context).is_ready()) {
                return Poll::Ready(Ok(false));
            }
            match timer.poll(context) {
                // A client that has sent no request gets no message.
                Poll::Ready(()) if idle => Poll::Ready(Ok(false)),
                Poll::Ready(()) => {
                    let action = "send the rest of its request";
                    Poll::Ready(Err(CloseReason::Slow { action, limit: HEAD_TIME }))
                }
                Poll::Pending => Poll::Pending,
            }
        });
        ready.await
    }

    /// Sends the end of the stream, and reads the client's bytes in flight.
    async fn part(&mut self) {
        self.socket.shut();
        let left = Cell::new(FAREWELL_BYTES);
        let drained = async {
            let mut some = [0; 1024];
            while left.get() > 0
                && std::future::poll_fn(|context| self.socket.poll_readable(context)).await.is_ok()
            {
                match self.socket.try_read(&mut some) {
                    Ok(0) => return,
                    Ok(count) => left.set(left.get().saturating_sub(count)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        };
        // The client had its time, however this ends.
        let _ = tokio::time::timeout(FAREWELL_TIME, drained).await;
    }

    fn send_close_notify(&mut self) {
        let mut engine = self.shard.engine.borrow_mut();
        // A peer that has disconnected, or reads nothing more, needs no message.
        let _ = outgoing::send_close_notify(&mut self.outgoing, &mut engine, self.socket.as_fd());
    }

    fn push(&mut self, piece: Piece) {
        self.pushed += piece.len();
        self.outgoing.push(piece);
    }
}
