//! The thread that keeps requests to the active controller in order: it drives a `Channel`, the
//! blocks of producer ids and the reports of directories. Workers send the requests, each over its
//! own connection: one for those of the broker, several for those of clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use levada_cluster::channel::{ChannelAction, ChannelEvent, ChannelLimits, RequestClass};
use levada_cluster::directories::ReplicaKey;
use levada_cluster::lifecycle::LifecycleEvent;
use levada_cluster::{Channel, Directories, ProducerIds, Target};
use levada_process::clock::steady_ms;
use levada_wire::Uuid;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{AllocateProducerIdsResponse, AssignReplicasToDirsResponse};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::connection::Connection;
use super::job::{Called, Job, TypedJob};
use super::status::Shared;

/// Longest time for which unacknowledged reports of directories delay the end of fencing, ms.
const REPORTS_MS: i64 = 10_000;

/// Input of the thread.
pub(super) enum RequestInput {
    /// The quorum has this leader, or none that is known.
    Controller(Option<Target>),
    /// The broker is registered under this epoch.
    Registered(i64),
    /// Another process has the broker's registration: requests of the old epoch have no effect.
    Replaced,
    /// Sends this request.
    Submit(RequestClass, Arc<dyn Job>),
    /// A worker has sent a request.
    Called(u64, Called),
    /// The directory of a replica that the metadata lacks.
    Assign(ReplicaKey, Uuid),
    /// The replica is deleted, or the metadata has its directory.
    Forget(ReplicaKey),
    /// A producer needs an id.
    ProducerId(oneshot::Sender<i64>),
    /// A request for a block of producer ids has ended.
    Block(u64, Option<AllocateProducerIdsResponse>),
    /// A report of directories has ended.
    Reported(u64, Option<AssignReplicasToDirsResponse>),
    /// The broker may be unfenced as soon as its directories are reported.
    Ready,
    /// Ends the membership.
    Stop,
}

/// A request for a worker.
type Work = (u64, Arc<dyn Job>, Target);

/// The queues of requests.
pub(super) struct Requests {
    shared: Arc<Shared>,
    channel: Channel,
    jobs: HashMap<u64, Arc<dyn Job>>,
    last_ticket: u64,
    producer_ids: ProducerIds,
    /// Producers that wait for an id, in order.
    producers: Vec<oneshot::Sender<i64>>,
    directories: Directories,
    broker_epoch: Option<i64>,
    /// The time at which the broker is ready, even without acknowledgements.
    ready_ms: Option<i64>,
    lifecycle: Sender<LifecycleEvent>,
    inputs: Sender<RequestInput>,
    own: Sender<Work>,
    forwarded: Sender<Work>,
}

impl Requests {
    /// The queues, and the inboxes of the workers: one for own requests, one for requests of
    /// clients.
    pub(super) fn new(
        shared: Arc<Shared>,
        lifecycle: Sender<LifecycleEvent>,
        inputs: Sender<RequestInput>,
    ) -> (Self, [Receiver<Work>; 2]) {
        let ((own, own_inbox), (forwarded, forwarded_inbox)) = (channel(), channel());
        let queues = Self {
            shared,
            channel: Channel::new(ChannelLimits::default()),
            jobs: HashMap::new(),
            last_ticket: 0,
            producer_ids: ProducerIds::new(),
            producers: Vec::new(),
            directories: Directories::new(),
            broker_epoch: None,
            ready_ms: None,
            lifecycle,
            inputs,
            own,
            forwarded,
        };
        (queues, [own_inbox, forwarded_inbox])
    }

    /// Runs until `Stop`.
    pub(super) fn run(mut self, inbox: &Receiver<RequestInput>) {
        loop {
            let deadlines = [
                self.channel.deadline(),
                self.producer_ids.deadline().filter(|_| self.needs_ids()),
                self.directories.deadline(),
                self.ready_ms,
            ];
            let wait = deadlines.into_iter().flatten().min().map(|deadline| deadline - steady_ms());
            let input = match wait {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(ms) => inbox.recv_timeout(Duration::from_millis(ms.max(0).unsigned_abs())),
            };
            match input {
                Ok(RequestInput::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => self.step(ChannelEvent::Tick),
            }
            self.poll();
        }
        for job in self.jobs.values() {
            job.finish(Err(ErrorCode::RequestTimedOut));
        }
    }

    fn take(&mut self, input: RequestInput) {
        let now_ms = steady_ms();
        match input {
            RequestInput::Controller(controller) => self.step(ChannelEvent::Controller(controller)),
            RequestInput::Registered(epoch) => self.broker_epoch = Some(epoch),
            RequestInput::Replaced => self.broker_epoch = None,
            RequestInput::Submit(class, job) => self.submit(class, job),
            RequestInput::Called(ticket, called) => self.step(match called {
                Called::Answered => ChannelEvent::Answered(ticket),
                Called::NotController => ChannelEvent::NotController(ticket),
                Called::Lost => ChannelEvent::Lost(ticket),
            }),
            RequestInput::Assign(replica, directory) => self.directories.assign(replica, directory),
            RequestInput::Forget(replica) => self.directories.forget(replica),
            RequestInput::ProducerId(producer) => {
                self.producers.retain(|waiting| !waiting.is_closed());
                self.producers.push(producer);
            }
            RequestInput::Block(request, answer) => {
                self.producer_ids.answered(request, answer.as_ref(), now_ms);
            }
            RequestInput::Reported(request, answer) => {
                self.directories.answered(request, answer.as_ref(), now_ms);
            }
            RequestInput::Ready => self.ready_ms = Some(now_ms.saturating_add(REPORTS_MS)),
            RequestInput::Stop => {}
        }
    }

    fn submit(&mut self, class: RequestClass, job: Arc<dyn Job>) {
        self.last_ticket += 1;
        self.jobs.insert(self.last_ticket, job);
        self.step(ChannelEvent::Submit(self.last_ticket, class));
    }

    fn step(&mut self, event: ChannelEvent) {
        for action in self.channel.step(event, steady_ms()) {
            match action {
                ChannelAction::Send(ticket, class, to) => {
                    let Some(job) = self.jobs.get(&ticket).cloned() else { continue };
                    let workers = if class == RequestClass::Forwarded { &self.forwarded } else { &self.own };
                    // Workers end only after this thread has requested it.
                    let _ = workers.send((ticket, job, to));
                }
                ChannelAction::Finish(ticket) => self.finish(ticket, Ok(())),
                ChannelAction::Expire(ticket) | ChannelAction::Refuse(ticket) => {
                    self.finish(ticket, Err(ErrorCode::RequestTimedOut));
                }
            }
        }
    }

    fn finish(&mut self, ticket: u64, outcome: Result<(), ErrorCode>) {
        if let Some(job) = self.jobs.remove(&ticket) {
            job.finish(outcome);
        }
    }

    /// Sends the due requests that no other thread has submitted, and serves producers.
    fn poll(&mut self) {
        self.serve_producers();
        if let Some(epoch) = self.broker_epoch {
            self.ask_for_ids(epoch);
            self.report_directories(epoch);
        }
        let is_late = self.ready_ms.is_some_and(|ready_ms| ready_ms <= steady_ms());
        if self.ready_ms.is_some() && (is_late || self.directories.is_settled()) {
            if is_late {
                tracing::warn!(
                    "the controller has not acknowledged the directories of all replicas; the broker continues"
                );
            }
            self.ready_ms = None;
            // The lifecycle may have ended.
            let _ = self.lifecycle.send(LifecycleEvent::Ready);
        }
    }

    fn serve_producers(&mut self) {
        while let Some(producer) = self.producers.first() {
            if !producer.is_closed() {
                let Some(id) = self.producer_ids.take() else { return };
                // The broker does not reuse an id whose producer has disconnected.
                let _ = self.producers.remove(0).send(id);
            } else {
                self.producers.remove(0);
            }
        }
    }

    /// True if there was a producer so far; without any, a block would be wasted.
    fn needs_ids(&self) -> bool {
        !self.producers.is_empty() || self.producer_ids.is_in_use()
    }

    fn ask_for_ids(&mut self, epoch: i64) {
        if !self.needs_ids() {
            return;
        }
        let due = self.producer_ids.poll(self.shared.node_id, epoch, steady_ms());
        if let Some((request, body)) = due {
            let inputs = self.inputs.clone();
            let reply = move |answer: Result<_, _>| {
                let _ = inputs.send(RequestInput::Block(request, answer.ok()));
            };
            let job = TypedJob::new(controller::ALLOCATE_PRODUCER_IDS, body, reply);
            self.submit(RequestClass::ProducerIds, Arc::new(job));
        }
    }

    fn report_directories(&mut self, epoch: i64) {
        let due = self.directories.poll(self.shared.node_id, epoch, steady_ms());
        if let Some((request, body)) = due {
            let inputs = self.inputs.clone();
            let reply = move |answer: Result<_, _>| {
                let _ = inputs.send(RequestInput::Reported(request, answer.ok()));
            };
            let job = TypedJob::new(controller::ASSIGN_REPLICAS_TO_DIRS, body, reply);
            self.submit(RequestClass::Directories, Arc::new(job));
        }
    }
}

/// Sends requests one after the other until the queues are dropped. Several workers may share an
/// inbox.
pub(super) fn work(inbox: &Mutex<Receiver<Work>>, mut connection: Connection, done: &Sender<RequestInput>) {
    loop {
        let work = inbox.lock().recv();
        let Ok((ticket, job, to)) = work else { return };
        let called = job.call(&mut connection, &to);
        if done.send(RequestInput::Called(ticket, called)).is_err() {
            return;
        }
    }
}
