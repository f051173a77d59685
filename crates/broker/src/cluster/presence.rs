//! The thread that keeps this broker in the cluster: it drives a `Lifecycle` with a separate
//! connection, because a controller handles the requests of one connection one after the other.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use levada_cluster::Target;
use levada_cluster::lifecycle::{Lifecycle, LifecycleAction, LifecycleEvent};
use levada_process::clock::steady_ms;
use levada_wire::Uuid;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;

use super::ClusterEvent;
use super::connection::{Connection, Cutoff, Peers};
use super::events::{ConsumerGone, EventSender};
use super::identity::OwnRegistration;
use super::requests::RequestInput;
use super::status::Shared;

/// Longest wait for an active controller before a request counts as failed.
const CONTROLLER_WAIT: Duration = Duration::from_millis(500);

/// Sends registrations and heartbeats until the lifecycle has ended.
pub(super) struct Presence {
    shared: Arc<Shared>,
    lifecycle: Lifecycle,
    /// Directories of the broker, in the order of the configuration, and the ones last reported as
    /// cordoned.
    directories: Vec<(PathBuf, Uuid)>,
    cordoned: Option<Vec<Uuid>>,
    session_ms: i64,
    connection: Connection,
    events: EventSender,
    requests: Sender<RequestInput>,
}

impl Presence {
    pub(super) fn new(
        shared: Arc<Shared>,
        registration: OwnRegistration,
        cutoff: Cutoff,
        (events, requests): (EventSender, Sender<RequestInput>),
    ) -> Self {
        let OwnRegistration { identity, directories } = registration;
        let times = shared.config.load().cluster.as_ref().map(|cluster| cluster.times).unwrap_or_default();
        let timeout = Duration::from_millis(times.request_ms.unsigned_abs());
        let connection = Connection::new(
            shared.config.clone(),
            Peers::Controllers,
            "lifecycle".to_owned(),
            (timeout, cutoff),
        );
        let lifecycle = Lifecycle::new(identity, times, steady_ms());
        let session_ms = times.session_ms;
        Self { shared, lifecycle, directories, cordoned: None, session_ms, connection, events, requests }
    }

    /// Runs until the lifecycle has ended, or the other side of `inbox` is dropped.
    pub(super) fn run(mut self, inbox: &Receiver<LifecycleEvent>) {
        let mut due = VecDeque::from([LifecycleEvent::Tick]);
        while !self.shared.is_stopping() {
            while let Some(event) = due.pop_front() {
                let applied = LifecycleEvent::Applied(self.shared.applied.load(Ordering::Acquire));
                let now_ms = steady_ms();
                let mut actions = self.lifecycle.step(applied, now_ms);
                if let Some(cordoned) = self.cordons(&event) {
                    actions.extend(self.lifecycle.step(cordoned, now_ms));
                }
                actions.extend(self.lifecycle.step(event, now_ms));
                self.shared.lives(self.lifecycle.phase(), self.lifecycle.is_fenced(), self.lifecycle.epoch());
                for action in actions {
                    match self.act(action) {
                        Ok(answer) => due.extend(answer),
                        // No receiver is left.
                        Err(_) => return,
                    }
                }
            }
            let Some(deadline) = self.lifecycle.deadline() else { return };
            let wait = deadline.saturating_sub(steady_ms()).max(0).unsigned_abs();
            match inbox.recv_timeout(Duration::from_millis(wait)) {
                Ok(event) => due.push_back(event),
                Err(RecvTimeoutError::Timeout) => due.push_back(LifecycleEvent::Tick),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            due.extend(inbox.try_iter());
        }
    }

    /// The cordoned directories of the configuration in force, if the controller does not have them
    /// yet. The controller keeps its present list until the dynamic configuration is loaded and the
    /// broker is ready. A directory that the file cordons is cordoned from the first heartbeat on,
    /// because a fenced broker can be given replicas.
    fn cordons(&mut self, event: &LifecycleEvent) -> Option<LifecycleEvent> {
        let config = self.shared.config.load();
        let cordons = &config.cluster.as_ref()?.cordoned;
        let cordoned = self.directories.iter().filter(|(path, _)| cordons.has(path)).map(|(_, id)| *id);
        let cordoned: Vec<Uuid> = cordoned.collect();
        let is_known =
            !cordoned.is_empty() || self.cordoned.is_some() || matches!(event, LifecycleEvent::Ready);
        if !is_known || self.cordoned.as_ref() == Some(&cordoned) {
            return None;
        }
        self.cordoned = Some(cordoned.clone());
        Some(LifecycleEvent::Cordoned(cordoned))
    }

    /// Performs an action of the lifecycle. The response to a request is the next event.
    fn act(&mut self, action: LifecycleAction) -> Result<Option<LifecycleEvent>, Gone> {
        match action {
            LifecycleAction::Register(request, body) => {
                let answer =
                    self.ask(|connection, to| connection.request(to, controller::BROKER_REGISTRATION, &body));
                self.lifecycle.set_finalized(self.connection.finalized().to_vec());
                return Ok(Some(match answer {
                    Some(answer) => LifecycleEvent::Registered(request, answer),
                    None => LifecycleEvent::Failed(request),
                }));
            }
            LifecycleAction::Heartbeat(request, body) => {
                let answer = self.ask(|connection, to| connection.heartbeat(to, &body));
                if answer.as_ref().is_some_and(|answer| answer.error_code == ErrorCode::None.code()) {
                    self.shared.refused(None);
                }
                return Ok(Some(match answer {
                    Some(answer) => LifecycleEvent::Heartbeat(request, answer),
                    None => LifecycleEvent::Failed(request),
                }));
            }
            LifecycleAction::Registered(epoch) => {
                tracing::info!(epoch, "registered with the controllers");
                self.shared.refused(None);
                self.requests.send(RequestInput::Registered(epoch))?;
            }
            LifecycleAction::CaughtUp => self.events.send(ClusterEvent::CaughtUp)?,
            LifecycleAction::Unfenced => {
                tracing::info!("the controller has unfenced this broker: it may lead partitions");
                self.events.send(ClusterEvent::Unfenced)?;
            }
            LifecycleAction::Fenced => {
                tracing::warn!(
                    "the controller has fenced this broker, because heartbeats did not arrive in time"
                );
                self.events.send(ClusterEvent::Fenced)?;
            }
            LifecycleAction::Refused { api, code } => self.refused(api, code),
            LifecycleAction::StopWriting => {
                self.requests.send(RequestInput::Replaced)?;
                self.events.send(ClusterEvent::StopWriting)?;
            }
            LifecycleAction::Shutdown(moved) => self.events.send(ClusterEvent::Shutdown { moved })?,
            LifecycleAction::Exit(reason) => self.events.send(ClusterEvent::Exit(reason))?,
        }
        Ok(None)
    }

    fn ask<T>(&mut self, call: impl FnOnce(&mut Connection, &Target) -> Option<T>) -> Option<T> {
        let to = self.shared.await_controller(CONTROLLER_WAIT)?;
        let answer = call(&mut self.connection, &to);
        if answer.is_some() {
            self.shared.heard();
            self.shared.offers(self.connection.versions());
        }
        answer
    }

    /// Logs a refusal, once until another one or a success.
    fn refused(&self, api: &str, code: i16) {
        if !self.shared.refused(Some(code)) {
            return;
        }
        match ErrorCode::of_code(code) {
            Some(ErrorCode::DuplicateBrokerRegistration) => tracing::info!(
                limit_ms = self.session_ms,
                "waiting for the old session to end: the controllers still count an earlier process as this broker"
            ),
            Some(ErrorCode::StaleBrokerEpoch) => tracing::error!(
                "the controllers no longer have this broker's registration (error 77): the broker accepts no writes \
                 and stops"
            ),
            Some(ErrorCode::NotController) => {
                tracing::debug!(api, "the node is no longer the active controller")
            }
            _ => {
                tracing::warn!(api, code, "{}; the broker repeats the request", self.lifecycle.cause(code));
            }
        }
    }
}

/// The other side of the membership has ended.
struct Gone;

impl From<ConsumerGone> for Gone {
    fn from(_: ConsumerGone) -> Self {
        Self
    }
}

impl<T> From<std::sync::mpsc::SendError<T>> for Gone {
    fn from(_: std::sync::mpsc::SendError<T>) -> Self {
        Self
    }
}
