//! Requests of this broker to others, besides fetches: each node has a thread for each subject,
//! with a blocking connection. A thread waits for responses, which no shard does for it. It ends
//! when it has had nothing to ask for a while: nodes leave the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use levada_cluster::Target;
use levada_metadata::Metadata;
use levada_process::tasks::guarded;
use levada_wire::api::controller::ControllerApi;
use levada_wire::messages::RequestResponsePair;
use parking_lot::Mutex;

use crate::cluster::connection::{Connection, Cutoff, Peers, broker_target};
use crate::live_config::LiveConfig;

/// Longest wait for a response, as Kafka's `request.timeout.ms`.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Time without a request after which a thread ends, with its connection.
const IDLE: Duration = Duration::from_secs(600);

/// Subject of a connection. A slow response of one subject does not delay the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    EndOffsets,
    Markers,
    Verification,
    ShareStates,
    DeadLetters,
    RemoteSegments,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::EndOffsets => "end-offsets",
            Self::Markers => "transaction-markers",
            Self::Verification => "transaction-verification",
            Self::ShareStates => "share-states",
            Self::DeadLetters => "dead-letters",
            Self::RemoteSegments => "remote-segments",
        }
    }
}

/// A request that a node's thread sends. It is called once, without a node if there is none.
type Call = Box<dyn FnOnce(Option<Peer<'_>>) + Send>;

/// A node that can receive requests.
pub(crate) struct Peer<'a> {
    connection: &'a mut Connection,
    target: Target,
}

impl Peer<'_> {
    /// Sends a request in the newest version that both sides support, and waits for its response.
    /// Logs a failure. Blocks.
    pub(crate) fn ask<R: RequestResponsePair>(
        self,
        api: ControllerApi,
        request: impl FnOnce(i16) -> R,
    ) -> Option<R::Response> {
        self.connection.request_in(&self.target, api, request)
    }
}

/// The threads, and the connections that they have.
pub(crate) struct PeerRequests {
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    state: Arc<Mutex<State>>,
    idle: Duration,
}

#[derive(Default)]
struct State {
    threads: BTreeMap<(i32, Subject), Thread>,
    is_stopped: bool,
}

struct Thread {
    calls: Sender<Call>,
    cutoff: Cutoff,
}

impl PeerRequests {
    /// Requests to other brokers, without a thread yet.
    pub(crate) fn new(config: Arc<LiveConfig>, metadata: Arc<Metadata>) -> Self {
        Self { config, metadata, state: Arc::default(), idle: IDLE }
    }

    /// Queues a call for the node's thread, after earlier calls. Does not block.
    pub(crate) fn call(&self, node: i32, subject: Subject, call: Call) {
        if let Err(call) = self.hand_over(node, subject, call) {
            call(None);
        }
    }

    fn hand_over(&self, node: i32, subject: Subject, call: Call) -> Result<(), Call> {
        let mut state = self.state.lock();
        if state.is_stopped {
            return Err(call);
        }
        if let Some(thread) = state.threads.get(&(node, subject)) {
            return thread.calls.send(call).map_err(|unsent| unsent.0);
        }
        match self.start(node, subject) {
            Ok(thread) => {
                let sent = thread.calls.send(call).map_err(|unsent| unsent.0);
                state.threads.insert((node, subject), thread);
                sent
            }
            Err(error) => {
                tracing::error!(%error, node, "cannot start a thread for requests to another broker");
                Err(call)
            }
        }
    }

    fn start(&self, node: i32, subject: Subject) -> std::io::Result<Thread> {
        let (calls, inbox) = channel();
        let (config, metadata, cutoff) = (self.config.clone(), self.metadata.clone(), Cutoff::default());
        let (own, end) = (config.clone(), cutoff.clone());
        let connect = move || {
            Connection::new(own.clone(), Peers::Brokers, subject.name().to_owned(), (TIMEOUT, end.clone()))
        };
        let find = move || broker_target(&config.load(), &metadata.image(), node);
        let name = format!("peer-{node}");
        let (state, idle) = (self.state.clone(), self.idle);
        let work = move || {
            let next = || match inbox.recv_timeout(idle) {
                Ok(call) => Some(call),
                Err(RecvTimeoutError::Disconnected) => None,
                Err(RecvTimeoutError::Timeout) => {
                    // Calls are handed over under the lock: none comes before the removal.
                    let mut state = state.lock();
                    let late = inbox.try_recv().ok();
                    if late.is_none() {
                        state.threads.remove(&(node, subject));
                    }
                    late
                }
            };
            serve(&name, next, connect, find);
        };
        thread::Builder::new().name(format!("peer-{node}")).spawn(work)?;
        Ok(Thread { calls, cutoff })
    }

    /// True if another broker has received the request, and may receive another one.
    pub(crate) fn is_in_use(&self) -> bool {
        let state = self.state.lock();
        !state.threads.is_empty() && !state.is_stopped
    }

    /// Ends all threads without waiting for responses. Later calls find no node.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        std::mem::take(&mut state.threads).into_values().for_each(|thread| thread.cutoff.close());
    }
}

impl Drop for PeerRequests {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Performs calls until there is no next one. A call that panics gets no response; later calls use
/// another connection, because the response may still arrive on the old one.
fn serve(
    name: &str,
    next: impl Fn() -> Option<Call>,
    connect: impl Fn() -> Connection,
    find: impl Fn() -> Option<Target>,
) {
    let mut connection = connect();
    while let Some(call) = next() {
        let made = guarded(name, || call(find().map(|target| Peer { connection: &mut connection, target })));
        if made.is_err() {
            connection = connect();
        }
    }
}

#[cfg(test)]
mod tests;
