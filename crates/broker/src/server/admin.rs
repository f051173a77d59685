//! The admin thread: accepts connections, drives the timers of coordinators, ends transactions, and
//! starts the housekeeping that must not run on a shard. It never waits for a disk, and detects
//! disks that do not respond.

use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use levada_config::Listener;
use levada_process::blocking::keep_free;
use levada_process::clock::{steady_ms, uptime_ms};
use levada_process::shutdown::Stop;
use levada_process::tasks::{guarded, spawn_restarted, spawn_vital};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

use crate::broker::Broker;
use crate::group_work;
use crate::replica::Lease;
use crate::server::StartError;
use crate::server::connection_limits::ConnectionLimits;
use crate::server::listener::Acceptor;
use crate::server::liveness::Liveness;
use crate::server::open_streams::{OpenStreams, close_stuck};
use crate::server::shard::{Accepted, Inbox};
use crate::share;
use crate::stats::SAMPLE_STEP;

/// Parameters of the admin thread.
pub(crate) struct Duties {
    pub(crate) broker: Arc<Broker>,
    pub(crate) stop: Stop,
    pub(crate) listeners: Vec<(Arc<Listener>, TcpListener)>,
    pub(crate) inboxes: Vec<Inbox>,
    /// The sockets of each shard.
    pub(crate) streams: Arc<[Arc<OpenStreams>]>,
    pub(crate) handshakes: Option<mpsc::Sender<Accepted>>,
    /// True when the listeners may accept connections and the logs are open.
    pub(crate) accept: watch::Receiver<bool>,
    /// Watchdog messages, if the service manager requires them.
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) connections: Arc<ConnectionLimits>,
}

/// Interval between flushes of sealed segments and writes of checkpoints.
const HOUSEKEEPING: Duration = Duration::from_secs(5);

/// The admin thread's runtime. Tasks that are added before the thread is started run once it is
/// started.
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
        .spawn(move || {
            keep_free();
            let broker = duties.broker.clone();
            let work = || LocalSet::new().block_on(&runtime, run(duties));
            if let Err(panicked) = guarded("the admin thread", work) {
                broker.give_up(panicked.to_string());
            }
        })
        .map_err(failed)
}

/// Notes several times in a session that the process runs; never returns.
async fn keep_lease(lease: Arc<Lease>) {
    loop {
        lease.tick(uptime_ms());
        tokio::time::sleep(lease.interval()).await;
    }
}

/// Samples the traffic of clients; never returns.
async fn sample_clients(broker: Arc<Broker>) {
    loop {
        broker.stats().sample_clients(steady_ms());
        tokio::time::sleep(SAMPLE_STEP).await;
    }
}

async fn run(duties: Duties) {
    let Duties { broker, stop, listeners, inboxes, streams, handshakes, mut accept, liveness, connections } =
        duties;
    // The shards are counted first.
    liveness.attend(inboxes.len());
    // A report that was taken is lost with the task.
    vital(&broker, "reports of failed directories", broker.clone().run_outages());
    lasting(&broker, "the watch of log directories", |broker| broker.run_storage_watch());
    lasting(&broker, "the watch of shards", move |broker| close_stuck(broker, streams.clone()));
    tokio::select! {
        accepts = accept.wait_for(|accepts| *accepts) => if accepts.is_err() { return },
        () = stop.signalled() => return,
    }
    let acceptor = Acceptor::new(broker.clone(), (inboxes, handshakes), stop.clone(), connections);
    tokio::select! {
        () = acceptor.look_up_hosts() => {}
        () = stop.signalled() => return,
    }
    let hosts = acceptor.clone();
    spawn_restarted("lookups of hosts", move || hosts.clone().follow_hosts());
    for (listener, socket) in listeners {
        match tokio::net::TcpListener::from_std(socket) {
            Ok(socket) => {
                let (acceptor, socket) = (acceptor.clone(), Rc::new(socket));
                spawn_restarted("accepting of connections", move || {
                    acceptor.clone().accept(listener.clone(), socket.clone())
                });
            }
            Err(error) => tracing::error!(listener = listener.name, %error, "cannot poll a listener"),
        }
    }
    drop(acceptor);
    start_clocks(&broker);
    start_upkeep(&broker);
    loop {
        tokio::select! {
            () = tokio::time::sleep(HOUSEKEEPING) => broker.clone().keep_house().await,
            () = stop.signalled() => return,
        }
    }
}

/// Starts the tasks that drive state machines. If one of them panics, its machine may be in the
/// middle of a step, so the broker stops, and its next start reads the state from the logs.
fn start_clocks(broker: &Arc<Broker>) {
    let groups = broker.coordinators().clone();
    vital(broker, "the clock of group coordinators", async move { groups.groups().run_clock().await });
    vital(broker, "work for group coordinators", group_work::run(broker.clone()));
    let txns = broker.coordinators().clone();
    vital(broker, "the clock of transaction coordinators", async move { txns.txns().run_clock().await });
    vital(broker, "work for transaction coordinators", broker.transactions().clone().run());
    let states = broker.coordinators().clone();
    vital(broker, "the clock of share coordinators", async move { states.share_states().run_clock().await });
    let prunes = broker.coordinators().clone().run_prunes(broker.replicas().clone());
    vital(broker, "deletion of old share states", prunes);
    vital(broker, "the clock of shared partitions", share::partitions::run_clock(broker.clone()));
    if let Some(membership) = broker.membership().cloned() {
        let changes = broker.replicas().clone().run_isr_changes(membership);
        vital(broker, "changes of replicas in sync", changes);
    }
}

/// Starts the periodic tasks without state between their rounds. A task that panics restarts.
fn start_upkeep(broker: &Arc<Broker>) {
    if let Some(lease) = broker.replicas().lease().cloned() {
        spawn_restarted("the lease of leadership", move || keep_lease(lease.clone()));
    }
    let replicas = broker.replicas();
    if broker.membership().is_some() {
        lasting(replicas, "checks of lagging replicas", |replicas| replicas.run_lag_checks());
    }
    lasting(broker, "rates of clients", sample_clients);
    lasting(replicas.housekeeping(), "retention", |logs| logs.run_retention());
    lasting(replicas.housekeeping(), "flushes", |logs| logs.run_flushes());
    lasting(replicas.housekeeping(), "expiry of producers", |logs| logs.run_producer_expiry());
    lasting(broker.tiers(), "tiered storage", |tiers| tiers.run());
    lasting(replicas.compaction(), "compaction", |compaction| compaction.run());
    lasting(replicas, "moves between directories", |replicas| replicas.run_moves());
    lasting(broker, "records of directories", |broker| broker.run_directory_records());
    lasting(broker.access().signing_keys(), "signing keys", |keys| keys.run());
}

fn vital(broker: &Arc<Broker>, name: &'static str, task: impl Future<Output = ()> + 'static) {
    let broker = broker.clone();
    spawn_vital(name, task, move |reason| broker.give_up(reason));
}

fn lasting<T: 'static, F>(owner: &Arc<T>, name: &'static str, task: impl Fn(Arc<T>) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let owner = owner.clone();
    spawn_restarted(name, move || task(owner.clone()));
}
