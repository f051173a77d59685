//! TLS handshakes, on a separate thread: their cryptography takes up to a millisecond, and an
//! incomplete handshake must not delay other connections. Finished connections go to the shards.
//!
//! A handshake has a time limit, and their number is limited; beyond it the oldest ends. A
//! connection that does not begin with TLS is closed immediately, without an alert: a client of
//! another protocol would read an alert as the length of a response.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::BytesMut;
use levada_base::log_pace::LogPace;
use levada_process::clock::steady_ms;
use levada_process::descriptors;
use levada_process::shutdown::Stop;
use levada_process::tasks::guarded;
use levada_tls::{Next, Offload, TlsSession};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, LocalSet};

use super::Channel;
use crate::broker::Broker;
use crate::server::StartError;
use crate::server::connection_limits::ConnectionPermit;
use crate::server::shard::{Accepted, Inbox};
use crate::tls::names::CertifiedName;
use crate::tls::{Tls, TlsContext};

/// Longest duration of a handshake, the network included.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum number of simultaneous handshakes, and the share of the process's descriptors that they
/// may use.
const UNDER_WAY_MAX: u64 = 8192;
const DESCRIPTORS_PART: u64 = 4;

/// Maximum number of reads of a handshake. The largest messages of a handshake are certificates,
/// and arrive in a few records; each read costs a system call, however short the record is.
const READS_MAX: usize = 4096;

/// Nice value of the handshake threads: a tenth of the processor time next to a busy shard, and all
/// idle time.
const HANDSHAKES_NICE: i32 = 10;

/// Time for which a refused client may read the reason, and bytes that it may send during that
/// time.
const FAREWELL: Duration = Duration::from_secs(2);
const FAREWELL_BYTES: usize = 256 << 10;

/// The thread that performs TLS handshakes.
pub(crate) struct Handshakes {
    pub(crate) inbox: mpsc::Sender<Accepted>,
    pub(crate) thread: JoinHandle<()>,
}

/// Number of connections that have not been picked up yet; more wait in the listener's backlog.
const INBOX_CONNECTIONS: usize = 128;

/// The reason why a handshake did not succeed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the client does not speak TLS")]
    NoTls,
    #[error("the client closed the connection after {reads} reads of the handshake")]
    HungUp { reads: usize },
    #[error("the handshake took more than {READS_MAX} reads")]
    Scattered,
    #[error("{0}")]
    Refused(rustls::Error),
    #[error("{0}")]
    Nobody(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// State that the handshakes of the thread share.
struct Shared {
    broker: Arc<Broker>,
    shards: Vec<Inbox>,
    turn: RefCell<usize>,
    /// Limits the log entries about failures; every failure is counted.
    told: LogPace,
    /// Handshakes in progress, oldest first; some may have ended.
    under_way: RefCell<VecDeque<AbortHandle>>,
}

/// Starts the thread. Connections after the handshake go to the shards in turn.
pub(crate) fn start(broker: Arc<Broker>, shards: Vec<Inbox>, stop: Stop) -> Result<Handshakes, StartError> {
    let failed = |source| StartError::Runtime { source };
    let (inbox, accepted) = mpsc::channel(INBOX_CONNECTIONS);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
    let thread = std::thread::Builder::new()
        .name("handshakes".to_owned())
        .spawn(move || {
            step_back();
            let own = broker.clone();
            let shared = Shared {
                broker,
                shards,
                turn: RefCell::default(),
                told: LogPace::default(),
                under_way: RefCell::default(),
            };
            let work = || LocalSet::new().block_on(&runtime, run(Rc::new(shared), accepted, stop));
            if let Err(panicked) = guarded("the thread of TLS handshakes", work) {
                own.give_up(panicked.to_string());
            }
        })
        .map_err(failed)?;
    Ok(Handshakes { inbox, thread })
}

/// The calling thread yields the processor to busy shards.
fn step_back() {
    // On Linux it is the thread that is meant, not its process. A sandbox that forbids it costs
    // nothing but the precedence.
    let _ = rustix::process::setpriority_process(None, HANDSHAKES_NICE);
}

fn under_way_max() -> usize {
    let part = descriptors::limit() / DESCRIPTORS_PART;
    usize::try_from(part.clamp(1, UNDER_WAY_MAX)).expect("at most 8192")
}

async fn run(shared: Rc<Shared>, mut accepted: mpsc::Receiver<Accepted>, stop: Stop) {
    let under_way_max = under_way_max();
    loop {
        let next = tokio::select! {
            next = accepted.recv() => next,
            () = stop.signalled() => return,
        };
        let Some(next) = next else { return };
        let task = tokio::task::spawn_local(bring_up(shared.clone(), next)).abort_handle();
        let mut under_way = shared.under_way.borrow_mut();
        under_way.push_back(task);
        while under_way.front().is_some_and(AbortHandle::is_finished) {
            under_way.pop_front();
        }
        if under_way.len() > under_way_max {
            under_way.retain(|task| !task.is_finished());
        }
        if under_way.len() > under_way_max
            && let Some(oldest) = under_way.pop_front()
        {
            oldest.abort();
            shared.broker.stats().handshake_failed();
        }
    }
}

async fn bring_up(shared: Rc<Shared>, accepted: Accepted) {
    let (peer, listener) = (accepted.info.peer, accepted.info.listener.clone());
    let through = tokio::time::timeout(TIME_MAX, handshake(&shared, accepted)).await;
    let error = match through {
        Ok(Ok(accepted)) => {
            let shard = {
                let mut turn = shared.turn.borrow_mut();
                *turn = (*turn + 1) % shared.shards.len();
                &shared.shards[*turn]
            };
            // The broker stops.
            let _ = shard.send(accepted).await;
            return;
        }
        Ok(Err(error @ (Failed::HungUp { .. } | Failed::Io(_)))) => error.to_string(),
        Ok(Err(error)) => {
            shared.broker.access().audit().refused(None, peer.ip(), &listener.name, &error);
            error.to_string()
        }
        Err(_) => format!("it took longer than {} s", TIME_MAX.as_secs()),
    };
    shared.broker.stats().handshake_failed();
    // A client that tries again and again must not fill the log.
    match shared.told.admit(steady_ms()) {
        Some(left_out) => tracing::info!(%peer, error, left_out, "TLS handshake failed"),
        None => tracing::debug!(%peer, error, "TLS handshake failed"),
    }
}

async fn handshake(shared: &Rc<Shared>, mut accepted: Accepted) -> Result<Accepted, Failed> {
    let stream = Arc::into_inner(accepted.stream).ok_or(std::io::ErrorKind::ConnectionAborted);
    let stream = TcpStream::from_std(stream.map_err(std::io::Error::from)?)?;
    let tls: &Tls = shared.broker.tls();
    let context =
        tls.context(&accepted.info.listener).expect("every TLS listener has its setup from the start");
    let mut session = TlsSession::new(context.config().clone()).map_err(Failed::Refused)?;
    match agree(&stream, &mut session, &context).await {
        Ok(name) => accepted.info.certificate = name.map(Arc::new),
        Err(error @ (Failed::Refused(_) | Failed::Nobody(_))) => {
            // In a separate task: the reason must arrive before the connection is reset because of
            // further bytes of the client.
            tokio::task::spawn_local(tokio::time::timeout(FAREWELL, farewell(stream, accepted.permit)));
            return Err(error);
        }
        Err(error) => return Err(error),
    }
    let offload = context.config().enable_secret_extraction;
    accepted.channel = if offload {
        match levada_tls::offer(Box::new(session), &stream, shared.broker.transfers().caps().tls_suites)? {
            Offload::Done(session) => Channel::Kernel(session),
            Offload::Declined(session) => Channel::Sealed(session),
        }
    } else {
        Channel::Sealed(Box::new(session))
    };
    accepted.stream = Arc::new(stream.into_std()?);
    Ok(accepted)
}

async fn agree(
    stream: &TcpStream,
    session: &mut TlsSession,
    context: &TlsContext,
) -> Result<Option<CertifiedName>, Failed> {
    let (mut early, mut reads) = (BytesMut::new(), 0);
    loop {
        let next = session.process(&mut early);
        send_all(stream, &session.take_outgoing()).await?;
        match next.map_err(Failed::Refused)? {
            Next::Done => break,
            Next::Read if session.closed => return Err(Failed::HungUp { reads }),
            Next::Read => {}
        }
        loop {
            stream.readable().await?;
            match session.read_within_record(|room| stream.try_read(room)) {
                Ok(0) => return Err(Failed::HungUp { reads }),
                Ok(_) if reads == READS_MAX => return Err(Failed::Scattered),
                Ok(_) => break,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        reads += 1;
        if session.is_no_tls() {
            return Err(Failed::NoTls);
        }
    }
    let verified = if session.is_resumed() { context.verify(session.peer_certificates()) } else { Ok(()) };
    let named = verified.map_err(Failed::Refused);
    let named = named.and_then(|()| context.peer(session.peer_certificates()).map_err(Failed::Nobody));
    if named.is_err() {
        session.send_close_notify();
        send_all(stream, &session.take_outgoing()).await?;
    }
    named
}

async fn send_all(stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends the end of the stream, and reads the client's bytes in flight: closing before would reset
/// the connection, and the client might never get the reason. The connection still counts against
/// the limits.
async fn farewell(stream: TcpStream, _permit: ConnectionPermit) {
    let _ = socket2::SockRef::from(&stream).shutdown(std::net::Shutdown::Write);
    let mut left = FAREWELL_BYTES;
    let mut some = [0; 4096];
    while left > 0 && stream.readable().await.is_ok() {
        match stream.try_read(&mut some) {
            Ok(0) => return,
            Ok(count) => left = left.saturating_sub(count),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
