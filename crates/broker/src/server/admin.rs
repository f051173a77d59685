//! The admin thread: accepts connections, drives the timers of coordinators, ends transactions, and
//! does the housekeeping that must not run on a shard.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

use crate::broker::Broker;
use crate::clock::uptime_ms;
use crate::config::Listener;
use crate::replica::Lease;
use crate::server::StartError;
use crate::server::listener::Acceptor;
use crate::server::shard::Accepted;
use crate::server::supervisor::Pulse;
use crate::shutdown::Stop;

/// Parameters of the admin thread.
pub(crate) struct Duties {
    pub(crate) broker: Arc<Broker>,
    pub(crate) stop: Stop,
    pub(crate) listeners: Vec<(Arc<Listener>, TcpListener)>,
    pub(crate) inboxes: Vec<mpsc::Sender<Accepted>>,
    pub(crate) handshakes: Option<mpsc::Sender<Accepted>>,
    /// True when the listeners may accept connections and the logs are open.
    pub(crate) accept: watch::Receiver<bool>,
    /// Signs of life, if the service manager asks for them.
    pub(crate) pulse: Option<Arc<Pulse>>,
}

/// Interval at which the process confirms the lease of leadership.
const LEASE_TICK: Duration = Duration::from_millis(500);

/// Interval between flushes of sealed segments and writes of checkpoints.
const HOUSEKEEPING: Duration = Duration::from_secs(5);

/// The admin thread's runtime. It may be given tasks before the thread is started, which then does
/// them.
pub(crate) fn runtime() -> Result<Runtime, StartError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let builder = builder.enable_io().enable_time().thread_name("admin-blocking");
    builder.build().map_err(|source| StartError::Runtime { source })
}

/// Starts the admin thread.
pub(crate) fn start(runtime: Runtime, duties: Duties) -> Result<JoinHandle<()>, StartError> {
    let failed = |source| StartError::Runtime { source };
    std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || LocalSet::new().block_on(&runtime, run(duties)))
        .map_err(failed)
}

/// Notes several times in a session that the process runs; never returns. No task of this thread
/// waits for a disk.
async fn keep_lease(lease: Arc<Lease>) {
    loop {
        lease.tick(uptime_ms());
        tokio::time::sleep(LEASE_TICK).await;
    }
}

async fn run(duties: Duties) {
    let Duties { broker, stop, listeners, inboxes, handshakes, mut accept, pulse } = duties;
    if let Some(pulse) = pulse {
        // The shards are counted first.
        tokio::task::spawn_local(pulse.beat(inboxes.len()));
    }
    tokio::task::spawn_local(broker.clone().run_outages());
    tokio::select! {
        accepts = accept.wait_for(|accepts| *accepts) => if accepts.is_err() { return },
        () = stop.signalled() => return,
    }
    let acceptor = Acceptor::new(broker.clone(), (inboxes, handshakes), stop.clone());
    for (listener, socket) in listeners {
        match tokio::net::TcpListener::from_std(socket) {
            Ok(socket) => {
                tokio::task::spawn_local(acceptor.clone().accept(listener, socket));
            }
            Err(error) => tracing::error!(listener = listener.name, %error, "cannot poll a listener"),
        }
    }
    drop(acceptor);
    if let Some(lease) = broker.replicas().lease().cloned() {
        tokio::task::spawn_local(keep_lease(lease));
    }
    let groups = broker.coordinators().clone();
    tokio::task::spawn_local(async move { groups.groups().run_clock().await });
    tokio::task::spawn_local(broker.replicas().clone().run_retention());
    if let Some(membership) = broker.membership().cloned() {
        tokio::task::spawn_local(broker.replicas().clone().run_isr_changes(membership));
        tokio::task::spawn_local(broker.replicas().clone().run_lag_checks());
    }
    tokio::task::spawn_local(broker.replicas().clone().run_flushes());
    tokio::task::spawn_local(broker.replicas().clone().run_producer_expiry());
    tokio::task::spawn_local(broker.replicas().clone().run_cleaner());
    tokio::task::spawn_local(broker.replicas().clone().run_moves());
    tokio::task::spawn_local(broker.clone().run_directory_records());
    tokio::task::spawn_local(broker.access().signing_keys().clone().run());
    let txns = broker.coordinators().clone();
    tokio::task::spawn_local(async move { txns.txns().run_clock().await });
    tokio::task::spawn_local(broker.transactions().clone().run());
    loop {
        tokio::select! {
            () = tokio::time::sleep(HOUSEKEEPING) => broker.clone().keep_house().await,
            () = stop.signalled() => return,
        }
    }
}
