//! The life of a broker in its cluster: registration, heartbeats, fencing, controlled shutdown.
//!
//! As Kafka's, with two deliberate differences. Listeners are bound before the heartbeat that
//! unfences the broker, so `Ready` must follow that; they accept connections once the broker is
//! unfenced in the metadata. And a broker whose registration has been replaced
//! (`STALE_BROKER_EPOCH`) stops writing immediately and exits after a session timeout, where
//! Kafka's continues without effect.

mod identity;
mod phase;
#[cfg(test)]
mod tests;
mod times;

use std::borrow::Cow;
use std::collections::BTreeMap;

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse,
    Uuid,
};

pub use self::identity::{BrokerIdentity, BrokerListener, FeatureRange, FinalizedFeature, IdentityFault};
pub use self::phase::BrokerPhase;
pub use self::times::LifecycleTimes;
use crate::errors;

/// Pause after a first failure, ms. It doubles with each further one, up to the heartbeat interval.
const RETRY_MS: i64 = 100;

/// Pause until the next heartbeat while catching up, ms.
const CATCH_UP_MS: i64 = 10;

/// Pause until the second heartbeat of a controlled shutdown, ms.
const SHUTDOWN_RETRY_MS: i64 = 50;

/// Input of a lifecycle. Responses carry the number of their request.
#[derive(Clone, Debug)]
pub enum LifecycleEvent {
    /// The driver starts the machine, or the deadline has passed.
    Tick,
    /// Response to a registration.
    Registered(u64, BrokerRegistrationResponse),
    /// Response to a heartbeat.
    Heartbeat(u64, BrokerHeartbeatResponse),
    /// A request got no response.
    Failed(u64),
    /// The metadata is applied up to the record at this offset.
    Applied(i64),
    /// Logs are open, the first state of the cluster is in force, listeners accept connections.
    Ready,
    /// A log directory has failed.
    DirectoryFailed(Uuid),
    /// Ids of the cordoned directories, in which the controller may place nothing. Before the first
    /// of these events the controller keeps those that it has.
    Cordoned(Vec<Uuid>),
    /// The registration in the metadata is incomplete: it is sent again, by the same incarnation.
    RegistrationOutdated,
    /// Begin a controlled shutdown.
    Stop,
}

/// Task for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum LifecycleAction {
    /// Send a registration to the active controller.
    Register(u64, BrokerRegistrationRequest),
    /// Send a heartbeat to the active controller.
    Heartbeat(u64, BrokerHeartbeatRequest),
    /// The broker is registered under this epoch.
    Registered(i64),
    /// The controller counts the broker as caught up: recover logs, open listeners, then report
    /// `Ready`.
    CaughtUp,
    /// The broker may be given leaderships.
    Unfenced,
    /// The controller has removed the broker's leaderships, because its heartbeats did not arrive.
    Fenced,
    /// Log that a request was refused, by this error code.
    Refused {
        /// Name of the API.
        api: &'static str,
        /// Kafka's error code.
        code: i16,
    },
    /// Refuse all writes from now on: another process has this broker's registration.
    StopWriting,
    /// Close logs and listeners. True if the controller has moved the leaderships away.
    Shutdown(bool),
    /// End the process immediately, with this reason.
    Exit(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Registration,
    Heartbeat,
}

#[derive(Clone, Debug)]
struct InFlight {
    request: u64,
    kind: RequestKind,
    sent_ms: i64,
    /// Failed directories that a heartbeat reports.
    reported: Vec<Uuid>,
}

/// State of a failed directory.
#[derive(Clone, Copy, Debug)]
struct Offline {
    acknowledged: bool,
    deadline_ms: i64,
}

/// The state of a broker's membership.
#[derive(Debug)]
pub struct Lifecycle {
    identity: BrokerIdentity,
    /// The feature levels of the cluster, as last received from a controller.
    finalized: Vec<FinalizedFeature>,
    times: LifecycleTimes,
    phase: BrokerPhase,
    epoch: Option<i64>,
    /// True if the next request is a heartbeat.
    registered: bool,
    ready: bool,
    /// True if a heartbeat has requested the end of fencing.
    asked: bool,
    fenced: bool,
    applied: i64,
    offline: BTreeMap<[u8; 16], Offline>,
    cordoned: Option<Vec<Uuid>>,
    in_flight: Option<InFlight>,
    last_request: u64,
    last_refusal: Option<i16>,
    failures: u32,
    next_ms: i64,
    /// True if an event needs the next request immediately after the response to the one in flight.
    urgent: bool,
    /// End of the registration's time, of the controlled shutdown's, or of the grace of a replaced
    /// broker.
    limit_ms: Option<i64>,
    /// Number of responses to heartbeats of a controlled shutdown.
    shutdown_answers: u32,
    actions: Vec<LifecycleAction>,
}

impl Lifecycle {
    /// A broker that is not registered yet. It sends its registration with the first `Tick`.
    pub fn new(identity: BrokerIdentity, times: LifecycleTimes, now_ms: i64) -> Self {
        Self {
            identity,
            finalized: Vec::new(),
            times,
            phase: BrokerPhase::Starting,
            epoch: None,
            registered: false,
            ready: false,
            asked: false,
            fenced: true,
            applied: -1,
            offline: BTreeMap::new(),
            cordoned: None,
            in_flight: None,
            last_request: 0,
            last_refusal: None,
            failures: 0,
            next_ms: now_ms,
            urgent: false,
            limit_ms: Some(now_ms.saturating_add(times.registration_ms)),
            shutdown_answers: 0,
            actions: Vec::new(),
        }
    }

    /// The phase of the broker's life.
    pub fn phase(&self) -> BrokerPhase {
        self.phase
    }

    /// The epoch of the registration.
    pub fn epoch(&self) -> Option<i64> {
        self.epoch
    }

    /// True unless the last heartbeat response has unfenced the broker.
    pub fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// Records the feature levels that the cluster has finalized, as received from a controller.
    pub fn set_finalized(&mut self, finalized: Vec<FinalizedFeature>) {
        self.finalized = finalized;
    }

    /// Cause and next step of a refusal, for a message.
    pub fn cause(&self, code: i16) -> Cow<'static, str> {
        let unsupported = (code == ErrorCode::UnsupportedVersion.code())
            .then(|| self.identity.unsupported(&self.finalized))
            .flatten();
        unsupported.map_or(Cow::Borrowed(errors::remedy(code)), Cow::Owned)
    }

    /// The time of the next `Tick`; `None` when stopped.
    pub fn deadline(&self) -> Option<i64> {
        if self.phase == BrokerPhase::Stopped {
            return None;
        }
        let request = match &self.in_flight {
            Some(in_flight) => Some(in_flight.sent_ms.saturating_add(self.times.request_ms)),
            None if self.phase == BrokerPhase::Replaced => None,
            None => Some(self.next_ms),
        };
        let directories = self.offline.values().filter(|directory| !directory.acknowledged);
        let directories = directories.map(|directory| directory.deadline_ms);
        directories.chain(request).chain(self.limit_ms).min()
    }

    /// Processes an event. Ignores responses to requests that are not in flight.
    pub fn step(&mut self, event: LifecycleEvent, now_ms: i64) -> Vec<LifecycleAction> {
        if self.phase == BrokerPhase::Stopped {
            return Vec::new();
        }
        match event {
            LifecycleEvent::Tick => {}
            LifecycleEvent::Registered(request, response) => {
                if self.answered(request, RequestKind::Registration).is_some() {
                    self.on_registered(&response, now_ms);
                }
            }
            LifecycleEvent::Heartbeat(request, response) => {
                if let Some(in_flight) = self.answered(request, RequestKind::Heartbeat) {
                    self.on_heartbeat(&response, &in_flight.reported, now_ms);
                }
            }
            LifecycleEvent::Failed(request) => {
                if self.in_flight.take_if(|in_flight| in_flight.request == request).is_some() {
                    self.retry(now_ms);
                }
            }
            LifecycleEvent::Applied(offset) => self.applied = self.applied.max(offset),
            LifecycleEvent::Ready => {
                self.ready = true;
                self.hurry(now_ms);
            }
            LifecycleEvent::DirectoryFailed(id) => self.on_directory_failed(id, now_ms),
            LifecycleEvent::Cordoned(directories) => {
                self.cordoned = Some(directories);
                self.hurry(now_ms);
            }
            LifecycleEvent::RegistrationOutdated => {
                self.registered = false;
                self.hurry(now_ms);
            }
            LifecycleEvent::Stop => self.on_stop(now_ms),
        }
        self.on_time(now_ms);
        std::mem::take(&mut self.actions)
    }

    fn answered(&mut self, request: u64, kind: RequestKind) -> Option<InFlight> {
        self.in_flight.take_if(|in_flight| in_flight.request == request && in_flight.kind == kind)
    }

    fn on_registered(&mut self, response: &BrokerRegistrationResponse, now_ms: i64) {
        let code = response.error_code;
        match ErrorCode::of_code(code) {
            Some(ErrorCode::None) => {
                if self.phase == BrokerPhase::Starting {
                    self.limit_ms = None;
                }
                self.failures = 0;
                self.registered = true;
                self.next_ms = now_ms;
                if self.epoch != Some(response.broker_epoch) {
                    self.epoch = Some(response.broker_epoch);
                    self.actions.push(LifecycleAction::Registered(response.broker_epoch));
                }
            }
            Some(ErrorCode::InconsistentClusterId | ErrorCode::ClusterAuthorizationFailed) => {
                self.exit(errors::remedy(code).into());
            }
            known => {
                self.refused("BrokerRegistration", code);
                match known {
                    Some(ErrorCode::DuplicateBrokerRegistration) => {
                        self.next_ms = now_ms.saturating_add(self.times.duplicate_ms);
                    }
                    _ => self.retry(now_ms),
                }
            }
        }
    }

    fn on_heartbeat(&mut self, response: &BrokerHeartbeatResponse, reported: &[Uuid], now_ms: i64) {
        let code = response.error_code;
        match ErrorCode::of_code(code) {
            Some(ErrorCode::None) => {}
            Some(ErrorCode::ClusterAuthorizationFailed) => return self.exit(errors::remedy(code).into()),
            Some(ErrorCode::StaleBrokerEpoch) => return self.on_replaced(now_ms),
            _ => {
                self.refused("BrokerHeartbeat", code);
                return self.retry(now_ms);
            }
        }
        self.failures = 0;
        for id in reported {
            if let Some(directory) = self.offline.get_mut(&id.to_bytes()) {
                directory.acknowledged = true;
            }
        }
        let pause = match self.phase {
            BrokerPhase::Starting => {
                if response.is_caught_up {
                    self.enter(BrokerPhase::Recovery);
                    self.actions.push(LifecycleAction::CaughtUp);
                }
                CATCH_UP_MS
            }
            BrokerPhase::ShuttingDown if response.should_shut_down => return self.shut_down(true),
            BrokerPhase::ShuttingDown => {
                self.shutdown_answers += 1;
                if self.shutdown_answers == 1 { SHUTDOWN_RETRY_MS } else { self.times.heartbeat_ms }
            }
            _ => self.times.heartbeat_ms,
        };
        self.on_fencing(response.is_fenced);
        self.next_ms = now_ms.saturating_add(if self.urgent { 0 } else { pause });
        self.urgent = false;
    }

    /// Applies the fencing in the controller's response. Before `Ready` the broker itself requests
    /// to be fenced.
    fn on_fencing(&mut self, is_fenced: bool) {
        if !self.ready || !matches!(self.phase, BrokerPhase::Recovery | BrokerPhase::Running) {
            return;
        }
        match (self.fenced, is_fenced) {
            (true, false) => {
                self.enter(BrokerPhase::Running);
                self.actions.push(LifecycleAction::Unfenced);
            }
            (false, true) => self.actions.push(LifecycleAction::Fenced),
            _ => {}
        }
        self.fenced = is_fenced;
    }

    fn on_replaced(&mut self, now_ms: i64) {
        self.refused("BrokerHeartbeat", ErrorCode::StaleBrokerEpoch.code());
        if self.phase == BrokerPhase::ShuttingDown {
            return self.shut_down(false);
        }
        self.enter(BrokerPhase::Replaced);
        self.fenced = true;
        self.limit_ms = Some(now_ms.saturating_add(self.times.session_ms));
        self.actions.push(LifecycleAction::StopWriting);
    }

    fn on_directory_failed(&mut self, id: Uuid, now_ms: i64) {
        let deadline_ms = now_ms.saturating_add(self.times.directory_ms);
        self.offline.entry(id.to_bytes()).or_insert(Offline { acknowledged: false, deadline_ms });
        if self.identity.directories.iter().all(|id| self.offline.contains_key(&id.to_bytes())) {
            return self.exit("every log directory has failed: check the disks of log.dirs".into());
        }
        if self.registered {
            self.hurry(now_ms);
        }
    }

    fn on_stop(&mut self, now_ms: i64) {
        match self.phase {
            BrokerPhase::ShuttingDown | BrokerPhase::Stopped => {}
            // The controller may have unfenced the broker though the response is not here yet.
            BrokerPhase::Running | BrokerPhase::Recovery if self.asked => {
                self.enter(BrokerPhase::ShuttingDown);
                self.limit_ms = Some(now_ms.saturating_add(self.times.shutdown_ms));
                self.hurry(now_ms);
            }
            _ => self.shut_down(false),
        }
    }

    /// Ends expired waits, and sends the next request if it is due.
    fn on_time(&mut self, now_ms: i64) {
        if self.phase == BrokerPhase::Stopped {
            return;
        }
        if self.limit_ms.is_some_and(|limit| limit <= now_ms) {
            return self.on_limit();
        }
        let unreported = |directory: &Offline| !directory.acknowledged && directory.deadline_ms <= now_ms;
        if let Some((id, _)) = self.offline.iter().find(|(_, directory)| unreported(directory)) {
            let id = Uuid::from_bytes(*id);
            return self.exit(format!(
                "the controllers did not acknowledge within {} ms that log directory {id:?} has failed",
                self.times.directory_ms
            ));
        }
        let request_ms = self.times.request_ms;
        let expired = |in_flight: &mut InFlight| in_flight.sent_ms.saturating_add(request_ms) <= now_ms;
        if self.in_flight.take_if(expired).is_some() {
            self.retry(now_ms);
        }
        let is_due = self.next_ms <= now_ms && self.in_flight.is_none();
        if is_due && self.phase != BrokerPhase::Replaced {
            self.send(now_ms);
        }
    }

    fn on_limit(&mut self) {
        match self.phase {
            BrokerPhase::ShuttingDown => self.shut_down(false),
            BrokerPhase::Replaced => self.exit(
                "another process has registered with this broker's id, or the broker was unregistered (error 77): give \
                 each broker its own node.id, then start this one again"
                    .into(),
            ),
            _ => {
                let cause = match self.last_refusal {
                    Some(code) => format!("error code {code}, {}", self.cause(code)),
                    None => "no controller responded; check controller.quorum.bootstrap.servers".into(),
                };
                let limit = self.times.registration_ms;
                self.exit(format!("the broker could not register within {limit} ms: {cause}"));
            }
        }
    }

    fn send(&mut self, now_ms: i64) {
        self.last_request += 1;
        let request = self.last_request;
        let mut reported = Vec::new();
        let kind = match (self.registered, self.epoch) {
            (true, Some(epoch)) => {
                reported = self.offline.keys().map(|id| Uuid::from_bytes(*id)).collect();
                let body = self.heartbeat(epoch, &reported);
                self.asked |= !body.want_fence;
                self.actions.push(LifecycleAction::Heartbeat(request, body));
                RequestKind::Heartbeat
            }
            _ => {
                let body = self.identity.request(|id| !self.offline.contains_key(&id.to_bytes()));
                self.actions.push(LifecycleAction::Register(request, body));
                RequestKind::Registration
            }
        };
        self.in_flight = Some(InFlight { request, kind, sent_ms: now_ms, reported });
    }

    fn heartbeat(&self, epoch: i64, offline: &[Uuid]) -> BrokerHeartbeatRequest {
        let mut request = BrokerHeartbeatRequest::default();
        request.broker_id = self.identity.node_id;
        request.broker_epoch = epoch;
        request.current_metadata_offset = self.applied;
        request.want_fence = !self.ready || self.phase == BrokerPhase::Starting;
        request.want_shut_down = self.phase == BrokerPhase::ShuttingDown;
        request.offline_log_dirs = offline.to_vec();
        request.cordoned_log_dirs = self.cordoned.clone();
        request
    }

    /// Sends the next request immediately, or right after the response to the one in flight.
    fn hurry(&mut self, now_ms: i64) {
        match self.in_flight {
            Some(_) => self.urgent = true,
            None => self.next_ms = now_ms,
        }
    }

    fn retry(&mut self, now_ms: i64) {
        let pause = (RETRY_MS << self.failures.min(16)).min(self.times.heartbeat_ms);
        self.failures = self.failures.saturating_add(1);
        self.urgent = false;
        self.next_ms = now_ms.saturating_add(pause);
    }

    fn refused(&mut self, api: &'static str, code: i16) {
        self.last_refusal = Some(code);
        self.actions.push(LifecycleAction::Refused { api, code });
    }

    fn enter(&mut self, next: BrokerPhase) {
        assert!(self.phase.may_become(next), "a broker cannot go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }

    fn shut_down(&mut self, granted: bool) {
        self.enter(BrokerPhase::Stopped);
        self.actions.push(LifecycleAction::Shutdown(granted));
    }

    fn exit(&mut self, reason: String) {
        self.enter(BrokerPhase::Stopped);
        self.actions.push(LifecycleAction::Exit(reason));
    }
}
