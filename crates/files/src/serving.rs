//! The threads of the shards. Each has its own runtime, accepts connections and serves them to
//! their end. Work that waits for the disk runs on other threads.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tokio::task::{JoinSet, LocalSet};

use crate::access_log::LogHandle;
use crate::connection;
use crate::connection_limits::{ConnectionPermit, Full};
use crate::listen::{Listener, Purpose, WatchedListener};
use crate::shard::{Shard, Shared};
use crate::socket::{Peer, Socket};

/// Interval between scans for unused files, and between deliveries of access log lines.
const TICK: Duration = Duration::from_secs(1);

/// Pause after an accept that failed for lack of descriptors or memory: other connections wait in
/// the backlog.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time between two warnings of failed accepts.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// Number of threads of one shard that wait for lookups; more lookups queue up.
const LOOKUP_THREADS: usize = 8;

/// Starts a shard with separate listeners.
pub(crate) fn start(
    index: usize,
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    access_log: Option<LogHandle>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(LOOKUP_THREADS)
        .thread_name("lookup")
        .build()?;
    std::thread::Builder::new().name(format!("files-{index}")).spawn(move || {
        let shard = Rc::new(Shard::new(shared, access_log));
        // The driver of a set of tasks is polled with every step of one of them: it only
        // waits.
        let work = async move { tokio::task::spawn_local(run(shard, listeners)).await };
        if let Err(error) = LocalSet::new().block_on(&runtime, work) {
            tracing::error!(%error, "a shard thread has ended unexpectedly; restart the server");
        }
        // The results of look-ups in progress are no longer needed.
        runtime.shutdown_background();
    })
}

async fn run(shard: Rc<Shard>, listeners: Vec<Listener>) {
    let mut doors = JoinSet::new();
    for listener in listeners {
        match listener.open() {
            Ok(door) => drop(doors.spawn_local(accept(shard.clone(), door))),
            Err(error) => tracing::error!(%error, "cannot poll a listener"),
        }
    }
    let mut tick = tokio::time::interval(TICK);
    let mut stopped = std::pin::pin!(shard.shared.stop.signalled());
    loop {
        tokio::select! {
            _ = tick.tick() => {
                shard.responder.cache.sweep(Instant::now());
                if let Some(access_log) = &shard.access_log {
                    access_log.pass_on();
                }
            }
            () = &mut stopped => break,
        }
    }
    shard.stopping.set(true);
    shard.stopped.notify_waiters();
    // Each door waits for the connections that came by it.
    let finished = async { while doors.join_next().await.is_some() {} };
    if tokio::time::timeout(shard.shared.grace, finished).await.is_err() {
        tracing::warn!("the server closes connections that are still busy after the grace period");
    }
}

/// Accepts from one listener until the stop signal, then waits for its connections.
async fn accept(shard: Rc<Shard>, door: WatchedListener) {
    let (mut connections, mut warned) = (JoinSet::new(), None);
    let mut stopped = std::pin::pin!(shard.stopped.notified());
    while !shard.stopping.get() {
        // One connection that cannot be served yet is held; the others stay in the backlog.
        tokio::select! {
            accepted = door.accept() => match accepted {
                Ok((socket, peer)) => {
                    let admitted = tokio::select! {
                        permit = admit(&shard, peer, door.purpose) => permit,
                        () = &mut stopped => break,
                    };
                    if let Some(permit) = admitted {
                        connections.spawn_local(serve(shard.clone(), (socket, peer), door.purpose, permit));
                    }
                }
                // This connection is lost, as of a client that has left; the next one is not.
                Err(error) if !is_shortage(&error) => tracing::debug!(%error, "accept failed"),
                Err(error) => {
                    if warned.is_none_or(|at: Instant| at.elapsed() >= WARNING_PAUSE) {
                        warned = Some(Instant::now());
                        tracing::warn!(%error, "accept failed; if the process is out of file descriptors, raise `ulimit -n`");
                    }
                    shard.responder.cache.clear();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut stopped => break,
        }
    }
    drop(door);
    while connections.join_next().await.is_some() {}
}

/// True for an accept that failed for lack of descriptors or memory.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

async fn serve(shard: Rc<Shard>, (socket, peer): (Socket, Peer), purpose: Purpose, permit: ConnectionPermit) {
    let shared = shard.shared.clone();
    let _counted = shared.stats.connection();
    connection::serve(shard, (socket, peer), purpose).await;
    drop(permit);
}

/// Waits for a permit; none if the address has too many connections already.
async fn admit(shard: &Shard, peer: Peer, purpose: Purpose) -> Option<ConnectionPermit> {
    let limits = match purpose {
        Purpose::Files | Purpose::SecureFiles => &shard.shared.connections,
        Purpose::Metrics => &shard.shared.operator_connections,
    };
    let address = match peer {
        Peer::Address(address, _) => Some(address),
        Peer::Local => None,
    };
    loop {
        match limits.take(address) {
            Ok(permit) => return Some(permit),
            Err(Full::Address) => {
                shard.shared.stats.rejected();
                return None;
            }
            Err(Full::All) => limits.freed().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aborted_accept_is_not_a_resource_shortage() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS] {
            assert!(is_shortage(&errno.into()), "{errno:?}");
        }
        let of_one_connection =
            [Errno::CONNABORTED, Errno::PERM, Errno::PROTO, Errno::NETDOWN, Errno::HOSTUNREACH];
        for errno in of_one_connection {
            assert!(!is_shortage(&errno.into()), "{errno:?}");
        }
        assert!(!is_shortage(&io::Error::other("no number")));
    }
}
