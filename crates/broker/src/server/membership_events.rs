//! The thread that makes the broker follow its cluster: it processes the events of the membership
//! one after the other, and signals the rest of the process when to accept connections and when to
//! stop.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use levada_process::tasks::guarded;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::broker::Following;
use crate::cluster::events::EventSender;
use crate::cluster::{ClusterEvent, ClusterMembership};
use crate::server::StartError;
use crate::server::signals::Order;

/// Longest interval between two checks of the state of this process. While a controller is active,
/// an image arrives twice a second, and each causes a check.
const TICK: Duration = Duration::from_secs(2);

/// Like [`TICK`], until connections are accepted.
const FIRST_TICK: Duration = Duration::from_millis(100);

/// Longest wait at the stop for the controllers to move leaderships away. The whole stop has two
/// minutes.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(60);

const THREAD: &str = "cluster-follow";

/// The thread, as the rest of the process sees it.
pub(super) struct MembershipThread {
    membership: Arc<ClusterMembership>,
    shared: Arc<Shared>,
    waker: EventSender,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// True once the controlled shutdown has ended.
    has_ended: bool,
    /// The broker cannot continue, for this reason.
    reason: Option<String>,
    /// True if the thread must end.
    is_stopping: bool,
    orders: Option<Sender<Order>>,
}

impl Shared {
    /// Runs the thread's work. A panic ends the broker: its metadata would stay as it is.
    fn guard(&self, run: impl FnOnce()) {
        if let Err(panicked) = guarded(&format!("thread {THREAD}"), run) {
            self.leave(panicked.to_string());
        }
    }

    fn leave(&self, reason: String) {
        tracing::error!(reason, "the broker leaves its cluster and stops");
        let mut state = self.state.lock();
        state.reason.get_or_insert(reason);
        state.has_ended = true;
        state.announce();
        self.changed.notify_all();
    }

    fn end(&self) {
        self.state.lock().has_ended = true;
        self.changed.notify_all();
    }
}

impl State {
    fn announce(&self) {
        if let (Some(orders), Some(_)) = (&self.orders, &self.reason) {
            // A process that stops already takes no orders.
            let _ = orders.send(Order::Leave);
        }
    }
}

/// Starts the thread. The background work of coordinators runs in `runtime`; `accepting` becomes
/// true when the listeners are to accept connections.
pub(super) fn start(
    following: Following,
    (runtime, accepting): (Handle, watch::Sender<bool>),
) -> Result<MembershipThread, StartError> {
    let (membership, waker) = (following.membership.clone(), following.waker.clone());
    let shared = Arc::<Shared>::default();
    let (own, guarded) = (shared.clone(), shared.clone());
    let follow =
        Follow { following, membership: membership.clone(), accepting, shared: own, is_ready: false };
    let run = move || {
        let _entered = runtime.enter();
        guarded.guard(|| follow.run());
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run);
    let thread = thread.map_err(|source| StartError::Runtime { source })?;
    Ok(MembershipThread { membership, shared, waker, thread })
}

impl MembershipThread {
    /// Makes the process stop when there is a reason to leave the cluster.
    pub(super) fn order_by(&self, orders: Sender<Order>) {
        let mut state = self.shared.state.lock();
        state.orders = Some(orders);
        state.announce();
    }

    /// The reason for which the broker has left its cluster.
    pub(super) fn reason(&self) -> Option<String> {
        self.shared.state.lock().reason.clone()
    }

    /// Requests the controllers to move the leaderships to other brokers. Client requests are still
    /// served during this time. Blocks for at most a minute.
    pub(super) fn shut_down(&self) {
        self.membership.begin_stop();
        let mut state = self.shared.state.lock();
        let is_waiting = |state: &mut State| !state.has_ended;
        if self.shared.changed.wait_while_for(&mut state, is_waiting, SHUTDOWN_LIMIT).timed_out() {
            tracing::warn!("the controllers have not moved all leaderships away in time; the broker stops");
        }
    }

    /// Ends the thread. Blocks.
    pub(super) fn join(self) {
        self.shared.state.lock().is_stopping = true;
        self.waker.wake();
        if self.thread.join().is_err() {
            tracing::error!("the thread that follows the cluster has panicked");
        }
    }
}

/// State of the thread.
struct Follow {
    following: Following,
    membership: Arc<ClusterMembership>,
    accepting: watch::Sender<bool>,
    shared: Arc<Shared>,
    /// True if the controllers may give leaderships to this broker.
    is_ready: bool,
}

impl Follow {
    fn run(mut self) {
        while !self.shared.state.lock().is_stopping {
            let tick = if *self.accepting.borrow() { TICK } else { FIRST_TICK };
            match self.following.events.recv_timeout(tick) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.following.tick();
            if !self.is_ready && self.following.is_open() {
                self.membership.ready();
                self.is_ready = true;
            }
            // Connections that come earlier wait in the listeners' backlogs: metadata in which this
            // broker is fenced may name no broker at all, and some clients give up on that.
            if self.is_ready && !*self.accepting.borrow() && self.following.is_unfenced() {
                self.accepting.send_replace(true);
            }
        }
    }

    fn take(&mut self, event: ClusterEvent) {
        match event {
            ClusterEvent::Image(image) => self.following.follow(image),
            ClusterEvent::CaughtUp => {
                if let Err(error) = self.following.begin() {
                    self.shared.leave(error.to_string());
                }
            }
            // The membership has a line of the log for them. Leaderships come with images.
            ClusterEvent::Unfenced | ClusterEvent::Fenced => {}
            ClusterEvent::StopWriting => {
                self.following.revoke();
                tracing::error!(
                    "registration lost: another process has registered with this node.id, or the broker was unregistered; \
                     partitions are no longer served"
                );
            }
            ClusterEvent::Shutdown { moved } => {
                tracing::info!(moved, "controlled shutdown ended");
                self.shared.end();
            }
            ClusterEvent::Exit(reason) => self.shared.leave(reason),
        }
    }
}

#[cfg(test)]
mod tests;
