//! The in-process client of a broker: a thread has the handlers of the Kafka APIs answer the
//! requests of the console, as a shard does for a connection.
//!
//! A request is encoded, processed and decoded as on the wire, so that access control, validation,
//! quotas and the audit log are those of any client. Records of a response are read on a thread
//! that may block. The thread sleeps while no page asks.
//!
//! A request that has begun runs to its end, also if its page is closed: the audit log gets a
//! change after the change is done. Only a request that waits for records ends with its page.
//!
//! Users take turns, and a response that is held back for a quota has no turn.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use levada_config::Listener;
use levada_io::Piece;
use levada_log::disk::{ReadFiles, RealDisk};
use levada_process::blocking::off_shard;
use levada_process::shutdown::Stop;
use levada_process::tasks::{RESTART_PAUSE, caught, guarded};
use levada_process::turns::{Turn, Turns};
use levada_security::Session;
use levada_wire::messages::RequestResponsePair;
use levada_wire::{ApiKey, DecodeError, EncodeError, RequestHeader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use crate::api::connection_info::ConnectionInfo;
use crate::api::{self, Context, Reply, RequestError, Service};
use crate::broker::Broker;

/// Name of the console as a client, for quotas and logs.
const CLIENT_ID: &str = "levada-console";

/// Maximum number of requests that are processed at the same time; one user gets at most half of
/// them. Further requests wait.
const AT_ONCE: usize = 32;

/// Maximum number of bytes of a response, its records included.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Longest time that a response is delayed for a client that exceeds its quota.
const MUTE_MAX: Duration = Duration::from_secs(30);

/// A handle on the console's thread; clones share it.
#[derive(Clone)]
pub struct Desk {
    inbox: mpsc::Sender<Ask>,
    turns: Turns,
}

/// A principal at an address, on whose behalf requests are processed.
#[derive(Clone)]
pub struct Caller {
    session: Session,
    info: ConnectionInfo,
    /// Address that responses name as the broker's.
    local: SocketAddr,
}

impl Caller {
    /// The user of a session, with `peer` as the client's address. Responses name `local` as the
    /// broker's address.
    #[must_use]
    pub fn new(session: Session, listener: Arc<Listener>, peer: SocketAddr, local: SocketAddr) -> Self {
        Self { session, info: ConnectionInfo::new(listener, peer), local }
    }

    /// Identity of the user.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }
}

/// A request on its way to the thread.
struct Ask {
    header: RequestHeader,
    body: BytesMut,
    caller: Caller,
    turn: Turn,
    answer: oneshot::Sender<Result<Bytes, AskError>>,
}

/// Reason for which a request of the console got no response.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The API handler refused the request as a whole.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The response exceeds the limit.
    #[error(
        "the response has {bytes} bytes, and the console reads at most {ANSWER_BYTES_MAX}; use a narrower filter, or the command line"
    )]
    TooLarge {
        /// Size of the response, bytes.
        bytes: u64,
    },
    /// Records could not be read from the log.
    #[error("records cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The request cannot be expressed in Kafka's protocol.
    #[error("the request cannot be encoded: {0}")]
    Encode(#[from] EncodeError),
    /// The response does not follow Kafka's protocol.
    #[error("the response cannot be decoded: {0}")]
    Decode(#[from] DecodeError),
    /// The broker panicked while it processed the request.
    #[error("the request {api} has failed: report the panic, which the broker's log shows")]
    Panicked {
        /// API of the request.
        api: ApiKey,
    },
    /// The broker stops.
    #[error("the broker is stopping")]
    Stopping,
}

impl Desk {
    /// Starts the thread. It ends with the stop signal, or when the last handle is dropped.
    ///
    /// # Errors
    /// The thread or its runtime cannot be made.
    pub(crate) fn start(broker: Arc<Broker>, stop: Stop) -> io::Result<(Self, JoinHandle<()>)> {
        let (inbox, mut asks) = mpsc::channel(AT_ONCE);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let thread = std::thread::Builder::new().name("console".to_owned()).spawn(move || {
            let requests = broker.stats().recorder();
            let service = Rc::new(Service { broker, stop, large: None, requests });
            let mut work = || LocalSet::new().block_on(&runtime, run(service.clone(), &mut asks));
            while guarded("the thread of the console", &mut work).is_err() {
                std::thread::sleep(RESTART_PAUSE);
            }
        })?;
        Ok((Self { inbox, turns: Turns::halved(AT_ONCE) }, thread))
    }

    /// The response to a request, in the newest version that the broker serves.
    pub async fn ask<R: RequestResponsePair>(
        &self,
        caller: &Caller,
        request: &R,
    ) -> Result<R::Response, AskError> {
        self.ask_at(caller, i16::MAX, request).await
    }

    /// The response to a request, in the newest version that the broker serves and that is not
    /// above `newest`.
    pub async fn ask_at<R: RequestResponsePair>(
        &self,
        caller: &Caller,
        newest: i16,
        request: &R,
    ) -> Result<R::Response, AskError> {
        let api = ApiKey::from_wire(R::API_KEY.value())
            .expect("the console sends only requests that clients may send");
        let version = api.api().max.min(newest);
        let frame = levada_wire::encode_request(1, Some(CLIENT_ID), version, request)?;
        let mut body = BytesMut::from(&frame[4..]);
        let header = RequestHeader::decode(&mut body)?;
        let turn = self.turns.take(caller.session.requester()).await;
        let (answer, answered) = oneshot::channel();
        let ask = Ask { header, body, caller: caller.clone(), turn, answer };
        self.inbox.send(ask).await.map_err(|_| AskError::Stopping)?;
        let frame = answered.await.map_err(|_| AskError::Stopping)??;
        let (_, response) = levada_wire::decode_response(frame, version)?;
        Ok(response)
    }
}

async fn run(service: Rc<Service>, asks: &mut mpsc::Receiver<Ask>) {
    let stop = service.stop.clone();
    let mut stopped = std::pin::pin!(stop.signalled());
    loop {
        let ask = tokio::select! {
            ask = asks.recv() => ask,
            () = &mut stopped => return,
        };
        let Some(mut ask) = ask else { return };
        let service = service.clone();
        tokio::task::spawn_local(async move {
            let api = ask.header.api;
            let waits = api == ApiKey::Fetch;
            let work = answer(service, (ask.header, std::mem::take(&mut ask.body)), ask.caller);
            let answer = tokio::select! {
                answer = caught("a request of the console", work) => answer,
                // The page was closed.
                () = ask.answer.closed(), if waits => return,
            };
            drop(ask.turn);
            let (answer, mute) = match answer.unwrap_or(Err(AskError::Panicked { api })) {
                Ok((frame, mute)) => (Ok(frame), mute),
                Err(error) => (Err(error), Duration::ZERO),
            };
            tokio::select! {
                () = tokio::time::sleep(mute.min(MUTE_MAX)) => {}
                () = ask.answer.closed() => return,
            }
            // The page may have been closed meanwhile.
            let _ = ask.answer.send(answer);
        });
    }
}

/// Processes one request; returns the response and the time for which a connection would be muted.
async fn answer(
    service: Rc<Service>,
    (header, body): (RequestHeader, BytesMut),
    caller: Caller,
) -> Result<(Bytes, Duration), AskError> {
    let who = (Rc::new(caller.info), Rc::new(caller.session), caller.local);
    service.requests.received(header.api, body.len());
    let context = Context::new(service.clone(), header, who);
    let api = context.header.api;
    let reply = context.meter.measure(api::answer(&context, body)).await?;
    context.book_time();
    let (mute, answered) = (context.meter.mute(), context.meter.answered(api, reply.bytes()));
    let frame = match reply {
        Reply::Send(pieces) | Reply::SendOld(pieces) => collect(pieces).await?,
        // The console never produces without an acknowledgement.
        Reply::Silent => Bytes::new(),
    };
    service.requests.sent(&answered, Instant::now());
    Ok((frame, mute))
}

/// The frame of a response without its size, in one buffer.
async fn collect(mut pieces: Vec<Piece>) -> Result<Bytes, AskError> {
    let bytes = pieces.iter().map(Piece::len).sum();
    if bytes > ANSWER_BYTES_MAX {
        return Err(AskError::TooLarge { bytes });
    }
    if let [Piece::Bytes(_)] = pieces[..]
        && let Some(Piece::Bytes(mut frame)) = pieces.pop()
    {
        return Ok(frame.split_off(4.min(frame.len())));
    }
    off_shard(move || {
        let mut frame = BytesMut::new();
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => frame.extend_from_slice(&bytes),
                Piece::Extent(extent) | Piece::Volatile(extent) => {
                    let (start, len) = (frame.len(), usize::try_from(extent.len).unwrap_or(usize::MAX));
                    frame.resize(start + len, 0);
                    let read =
                        RealDisk.read_at(&extent.file, Path::new(""), &mut frame[start..], extent.offset)?;
                    if read < len {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                }
            }
        }
        Ok(frame.split_off(4.min(frame.len())).freeze())
    })
    .await
}

#[cfg(test)]
mod tests;
