//! A shard: one thread, one current-thread runtime, one transfer engine, and the connections that
//! were handed to it. Long blocking operations must not run here.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use levada_base::log_pace::LogPace;
use levada_io::Engine;
use levada_process::shutdown::Stop;
use levada_process::tasks::finished;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::api::Service;
use crate::api::connection_info::ConnectionInfo;
use crate::api::large::LargeRequest;
use crate::broker::Broker;
use crate::server::StartError;
use crate::server::channel::Channel;
use crate::server::cold_lane::ColdLane;
use crate::server::connection;
use crate::server::connection_limits::ConnectionPermit;
use crate::server::liveness::Liveness;
use crate::server::open_streams::OpenStreams;

/// State that the connections of one shard share; never leaves its thread.
pub(crate) struct Shard {
    pub(crate) service: Rc<Service>,
    pub(crate) engine: RefCell<Engine>,
    /// None if no ring is allowed.
    pub(crate) cold_lane: ColdLane,
    /// Limits the log entries about connections that the broker closes.
    pub(crate) told: LogPace,
    pub(crate) streams: Arc<OpenStreams>,
}

impl Shard {
    pub(crate) fn broker(&self) -> &Arc<Broker> {
        &self.service.broker
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.service.stop
    }
}

/// A connection that is being passed from the listener to its shard.
pub(crate) struct Accepted {
    pub(crate) stream: Arc<std::net::TcpStream>,
    pub(crate) info: ConnectionInfo,
    pub(crate) permit: ConnectionPermit,
    /// The channel over the socket; on a TLS listener, after the handshake.
    pub(crate) channel: Channel,
}

/// The way of connections to a shard.
#[derive(Clone)]
pub(crate) struct Inbox {
    sender: mpsc::Sender<Accepted>,
    streams: Arc<OpenStreams>,
}

impl Inbox {
    /// Passes a connection to the shard; false if the shard has ended. Waits while too many
    /// connections are queued.
    pub(crate) async fn send(&self, accepted: Accepted) -> bool {
        self.streams.expect(&accepted.stream);
        self.sender.send(accepted).await.is_ok()
    }

    /// Number of connections that the shard has not picked up yet.
    pub(crate) fn waiting(&self) -> usize {
        self.sender.max_capacity() - self.sender.capacity()
    }
}

/// The listener's end of a shard.
pub(crate) struct ShardHandle {
    pub(crate) inbox: Inbox,
    /// Connections that it serves.
    pub(crate) connections: Arc<AtomicUsize>,
    /// Sockets of these connections.
    pub(crate) streams: Arc<OpenStreams>,
    pub(crate) thread: JoinHandle<()>,
}

/// Number of connections that a shard has not picked up yet; more wait in the listener's backlog.
const INBOX_CONNECTIONS: usize = 128;

/// Starts the thread of shard `index`.
pub(crate) fn start(
    index: usize,
    (broker, stop): (Arc<Broker>, Stop),
    large: mpsc::Sender<LargeRequest>,
    liveness: Arc<Liveness>,
) -> Result<ShardHandle, StartError> {
    let (sender, accepted) = mpsc::channel(INBOX_CONNECTIONS);
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let streams = Arc::<OpenStreams>::default();
    let own_streams = streams.clone();
    let inbox = Inbox { sender, streams: streams.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|source| StartError::Runtime { source })?;
    let thread = std::thread::Builder::new()
        .name(format!("shard-{index}"))
        .spawn(move || {
            let (caps, counters) = (broker.transfers().caps(), broker.transfers().counters().clone());
            let mut engine = Engine::with_thresholds(caps, counters, broker.transfers().thresholds());
            engine.report_cold(true);
            let engine = RefCell::new(engine);
            let own = broker.clone();
            let cold_lane = ColdLane::new(broker.transfers().caps(), broker.transfers().counters().clone());
            let requests = broker.stats().recorder();
            let service = Rc::new(Service { broker, stop, large: Some(large), requests });
            let (told, streams) = (LogPace::default(), own_streams);
            let shard = Rc::new(Shard { service, engine, cold_lane, told, streams });
            // A `LocalSet` polls its main future with every step of one of its tasks, so the main
            // future only waits.
            let work = async move {
                liveness.attend(index);
                let streams = shard.streams.clone();
                tokio::task::spawn_local(async move { streams.answer().await });
                run(shard, accepted, count).await;
            };
            let work = finished("a shard thread", work);
            if let Err(panicked) = LocalSet::new().block_on(&runtime, work) {
                own.give_up(panicked.to_string());
            }
        })
        .map_err(|source| StartError::Runtime { source })?;
    Ok(ShardHandle { inbox, connections, streams, thread })
}

/// Serves connections until the stop signal, then until the last of them has closed or the grace
/// period is over. `count` has the number of connections.
async fn run(shard: Rc<Shard>, mut accepted: mpsc::Receiver<Accepted>, count: Arc<AtomicUsize>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            next = accepted.recv() => match next {
                Some(connection) => {
                    connections.spawn_local(connection::serve(shard.clone(), connection));
                }
                None => break,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = shard.stop().signalled() => break,
        }
        count.store(connections.len(), Ordering::Relaxed);
    }
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(shard.stop().grace(), finished).await.is_err() {
        tracing::warn!("the broker closes connections that are still busy after the grace period");
    }
}
