//! Membership in a cluster of Apache Kafka's controllers: the threads that drive the state machines
//! of `levada_cluster` with blocking connections. They share no runtime with the shards, so neither
//! can stall the other.
//!
//! `observing` follows the metadata log, `presence` registers the broker and sends heartbeats,
//! `requests` sends everything else to the active controller. One consumer gets what they report
//! ([`ClusterEvent`]). `events` is their queue, `connection` the way to a controller, `identity`
//! the registration, and `status` the state for operators.

use std::convert::Infallible;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use bytes::Bytes;
use levada_cluster::channel::RequestClass;
use levada_cluster::directories::ReplicaKey;
use levada_cluster::envelope::{self, ForwardedPrincipal, Unwrapped};
use levada_cluster::lifecycle::{IdentityFault, LifecycleEvent};
use levada_metadata::image::Image;
use levada_process::tasks::guarded;
use levada_security::keystore::TlsError;
use levada_wire::Uuid;
use levada_wire::api::ApiKey;
use levada_wire::api::controller::{self, ControllerApi};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::RequestResponsePair;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::live_config::LiveConfig;

pub(crate) mod connection;
pub(crate) mod events;
pub(crate) mod identity;
mod job;
mod observing;
mod presence;
mod requests;
mod setbacks;
mod status;
#[cfg(test)]
mod tests;

use self::connection::{Connection, Cutoff, Peers};
use self::events::EventSender;
use self::identity::OwnRegistration;
pub(crate) use self::job::ControllerAnswer;
use self::job::TypedJob;
use self::observing::Observation;
use self::presence::Presence;
use self::requests::{RequestInput, Requests, work};
pub(crate) use self::status::MembershipStatus;
use self::status::Shared;

/// Number of connections for clients' requests. Kafka has one; a slow request delays those after it
/// on the same connection.
const FORWARDERS: usize = RequestClass::Forwarded.in_flight_max();

/// Connections of the observer, of the lifecycle, and for requests of the broker's own.
const OWN_CONNECTIONS: usize = 3;

/// Longest duration of a request to the controller, except for the requests of the membership
/// itself.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest wait of a producer for an id.
const PRODUCER_ID_WAIT: Duration = Duration::from_secs(5);

/// News of the membership, for one consumer.
#[derive(Debug)]
pub(crate) enum ClusterEvent {
    /// A committed state of the metadata. Offsets never fall; states in between may be left out.
    Image(Image),
    /// The controller counts the broker as caught up: open logs and listeners, then call
    /// [`ClusterMembership::ready`].
    CaughtUp,
    /// The broker may be given leaderships.
    Unfenced,
    /// The broker has lost its leaderships, since its heartbeats did not arrive.
    Fenced,
    /// Refuse all writes from now on: another process has this broker's registration.
    StopWriting,
    /// The controlled shutdown has ended.
    Shutdown {
        /// True if the controller has moved the leaderships away.
        moved: bool,
    },
    /// The process must end, for this reason.
    Exit(String),
}

/// Fate of a client's request that was forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Forwarded {
    /// Send this response to the client: header and body, without a size.
    Answer(Bytes),
    /// The controller cannot read the request: close the client's connection, as Kafka does.
    CloseConnection,
    /// Respond to the request with this error.
    Failed(ErrorCode),
}

/// Reason for which a membership cannot begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MembershipError {
    #[error(transparent)]
    Identity(#[from] IdentityFault),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// This broker's membership in the cluster. Its threads end when it is dropped, which blocks for
/// them.
pub(crate) struct ClusterMembership {
    shared: Arc<Shared>,
    lifecycle: Sender<LifecycleEvent>,
    requests: Sender<RequestInput>,
    cutoffs: Vec<Cutoff>,
    /// Dropped to end the observation.
    alive: Option<Sender<Infallible>>,
    threads: Vec<JoinHandle<()>>,
}

impl ClusterMembership {
    /// Starts to follow the metadata log and to register the broker, with the data directories as
    /// the configuration names them and their ids. News go to `events`. The configuration must be
    /// that of cluster mode.
    ///
    /// # Errors
    /// The identity must not be registered, or a TLS setting cannot be used.
    pub(crate) fn start(
        config: &Arc<LiveConfig>,
        registration: OwnRegistration,
        events: EventSender,
    ) -> Result<Arc<Self>, MembershipError> {
        let identity = registration.identity.clone();
        let loaded = config.load();
        let cluster = loaded.cluster.as_ref().expect("the configuration is that of cluster mode");
        identity.check(&cluster.quorum)?;
        cluster.controllers.tls()?;
        cluster.brokers.tls()?;
        let shared = Arc::new(Shared::new(config.clone(), identity.node_id));
        let (lifecycle, lifecycle_inbox) = channel();
        let (requests, requests_inbox) = channel();
        let (alive, observation_inbox) = channel();
        let mut membership = Self {
            shared: shared.clone(),
            lifecycle: lifecycle.clone(),
            requests: requests.clone(),
            cutoffs: (0..OWN_CONNECTIONS + FORWARDERS).map(|_| Cutoff::default()).collect(),
            alive: Some(alive),
            threads: Vec::new(),
        };
        let cutoffs = membership.cutoffs.clone();
        let mut others = cutoffs.iter().skip(1).cloned();
        let mut cutoff = || others.next().unwrap_or_default();
        let (failures, outputs) = (events.clone(), (events, requests.clone()));
        let observation = Observation::new(shared.clone(), &identity, &cutoffs, outputs.clone());
        let presence = Presence::new(shared.clone(), registration, cutoff(), outputs);
        let (queues, [own, forwarded]) = Requests::new(shared, lifecycle, requests.clone());
        let (own, forwarded) = (Arc::new(Mutex::new(own)), Arc::new(Mutex::new(forwarded)));
        let workers = std::iter::once(("own", own));
        let workers = workers.chain((0..FORWARDERS).map(|_| ("forwarding", forwarded.clone())));
        for (purpose, inbox) in workers {
            let connection = Connection::new(
                config.clone(),
                Peers::Controllers,
                purpose.to_owned(),
                (REQUEST_TIMEOUT, cutoff()),
            );
            let done = requests.clone();
            membership.spawn("cluster-send", &failures, move || work(&inbox, connection, &done))?;
        }
        membership.spawn("cluster-queue", &failures, move || queues.run(&requests_inbox))?;
        membership.spawn("cluster-log", &failures, move || observation.run(&observation_inbox))?;
        membership.spawn("cluster-life", &failures, move || presence.run(&lifecycle_inbox))?;
        Ok(Arc::new(membership))
    }

    fn spawn(
        &mut self,
        name: &'static str,
        events: &EventSender,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let events = events.clone();
        self.threads
            .push(thread::Builder::new().name(name.to_owned()).spawn(move || guard(name, &events, run))?);
        Ok(())
    }

    /// Notes that the metadata is in force up to the last record of this image.
    pub(crate) fn applied(&self, image: &Image) {
        self.shared.applied(image);
    }

    /// Counts the publication of an image and its duration; `is_whole` is false if a part of the
    /// image is not in force.
    pub(crate) fn published(&self, took: Duration, is_whole: bool) {
        self.shared.publications.add(took);
        self.shared.publication_errors.fetch_add(u64::from(!is_whole), Ordering::Relaxed);
    }

    /// Notes that logs are open and listeners accept connections: the controller may unfence the
    /// broker, as soon as it has acknowledged the directories of all replicas.
    pub(crate) fn ready(&self) {
        self.tell(RequestInput::Ready);
    }

    /// Begins a controlled shutdown, which ends with [`ClusterEvent::Shutdown`].
    pub(crate) fn begin_stop(&self) {
        self.live(LifecycleEvent::Stop);
    }

    /// Reports that a data directory has failed: the controllers move the leaderships of its
    /// replicas away.
    pub(crate) fn directory_failed(&self, id: Uuid) {
        self.live(LifecycleEvent::DirectoryFailed(id));
    }

    /// Reports the directory of a replica that the metadata lacks.
    pub(crate) fn assign(&self, replica: ReplicaKey, directory: Uuid) {
        self.tell(RequestInput::Assign(replica, directory));
    }

    /// Ends the reports of a replica: the replica is deleted, or the metadata has its directory.
    pub(crate) fn forget(&self, replica: ReplicaKey) {
        self.tell(RequestInput::Forget(replica));
    }

    /// The epoch of the registration; `None` before it.
    pub(crate) fn broker_epoch(&self) -> Option<i64> {
        self.shared.broker_epoch()
    }

    /// The membership as operators see it.
    pub(crate) fn status(&self) -> MembershipStatus {
        self.shared.status()
    }

    /// Forwards a client's request, which begins with its header, to the active controller.
    pub(crate) async fn forward(
        &self,
        request: Bytes,
        correlation_id: i32,
        principal: &ForwardedPrincipal,
        client: IpAddr,
    ) -> Forwarded {
        let api = request.first_chunk().map(|key| i16::from_be_bytes(*key)).and_then(ApiKey::from_wire);
        let envelope = envelope::wrap(request, principal, client);
        let answer = self.request(RequestClass::Forwarded, controller::ENVELOPE, envelope).await;
        let fate = match answer.map(|answer| envelope::unwrap(&answer, correlation_id)) {
            Ok(Unwrapped::Answer(response)) => Forwarded::Answer(response),
            Ok(Unwrapped::CloseConnection) => Forwarded::CloseConnection,
            Ok(Unwrapped::NotController) => Forwarded::Failed(ErrorCode::NotController),
            Ok(Unwrapped::Failed(code)) => {
                let api = api.map_or("unknown", ApiKey::name);
                let error = ErrorCode::of_code(code).map_or("unknown", ErrorCode::name);
                tracing::warn!(
                    api,
                    code,
                    error,
                    "the active controller refused the envelope of a forwarded request"
                );
                Forwarded::Failed(ErrorCode::UnknownServerError)
            }
            Err(code) => Forwarded::Failed(code),
        };
        let count = match &fate {
            Forwarded::Answer(_) => &self.shared.forwarded,
            Forwarded::CloseConnection | Forwarded::Failed(_) => &self.shared.forwarding_failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        fate
    }

    /// Sends a request of this broker to the active controller, repeatedly until there is a
    /// response. Requests of the clients' class fail after `levada_cluster::channel::FORWARD_MS`.
    pub(crate) async fn request<R>(
        &self,
        class: RequestClass,
        api: ControllerApi,
        request: R,
    ) -> Result<R::Response, ErrorCode>
    where
        R: RequestResponsePair + Send + Sync + 'static,
        R::Response: ControllerAnswer + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        // A client that has left needs no response.
        let reply = move |answer| drop(sender.send(answer));
        self.tell(RequestInput::Submit(class, Arc::new(TypedJob::new(api, request, reply))));
        receiver.await.unwrap_or(Err(ErrorCode::RequestTimedOut))
    }

    /// The versions of an API that the active controller offers: `None` before the first response
    /// of a controller, an empty range if it does not have the API.
    pub(crate) fn versions(&self, key: i16) -> Option<RangeInclusive<i16>> {
        self.shared.offered(key)
    }

    /// A producer id that no other producer of the cluster has.
    ///
    /// # Errors
    /// No block of producer ids arrived in time; the client may retry.
    pub(crate) async fn producer_id(&self) -> Result<i64, ErrorCode> {
        let (sender, receiver) = oneshot::channel();
        self.tell(RequestInput::ProducerId(sender));
        match tokio::time::timeout(PRODUCER_ID_WAIT, receiver).await {
            Ok(Ok(id)) => Ok(id),
            Ok(Err(_)) | Err(_) => Err(ErrorCode::CoordinatorLoadInProgress),
        }
    }

    fn tell(&self, input: RequestInput) {
        // The thread ends only when the membership is dropped.
        let _ = self.requests.send(input);
    }

    fn live(&self, event: LifecycleEvent) {
        // A lifecycle that has ended has reported this to the consumer.
        let _ = self.lifecycle.send(event);
    }
}

/// Runs the work of a thread. A panic ends the broker: without the thread, its metadata or its
/// registration would no longer be true.
fn guard(name: &str, events: &EventSender, run: impl FnOnce()) {
    if let Err(panicked) = guarded(&format!("thread {name}"), run) {
        // A closed consumer needs no events.
        let _ = events.send(ClusterEvent::Exit(panicked.to_string()));
    }
}

impl Drop for ClusterMembership {
    fn drop(&mut self) {
        self.shared.stop();
        self.alive = None;
        self.tell(RequestInput::Stop);
        self.live(LifecycleEvent::Tick);
        self.cutoffs.iter().for_each(Cutoff::close);
        for thread in self.threads.drain(..) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::error!(thread = name, "a thread of the cluster membership has panicked");
            }
        }
    }
}
