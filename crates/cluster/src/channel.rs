//! Requests to the active controller: a queue for each kind, in order, with retries until a
//! response or a deadline.
//!
//! The active controller is the leader of the quorum; the observer follows it, and the driver
//! passes each change on ([`ChannelEvent::Controller`]). After a failure of a node, requests are
//! retried after a pause, or immediately when another controller is known. Heartbeats are not among
//! the kinds: the lifecycle sends them over a separate connection, since a controller handles the
//! requests of one connection one after the other.
//!
//! The outcome of a request whose connection was lost is unknown. The request is sent again, as in
//! Kafka: registrations and ISR changes are idempotent by their epochs, a lost block of producer
//! ids is wasted, and a repeated CreateTopics may answer that the topic exists.

use std::collections::VecDeque;

use crate::quorum::Target;

#[cfg(test)]
mod tests;

/// Pause after a first failure, ms. It doubles with each further one, up to [`RETRY_MAX_MS`].
const RETRY_MS: i64 = 50;
const RETRY_MAX_MS: i64 = 1000;

/// Kinds of requests. Each has a separate queue and waits for no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// AlterPartition: one in flight, no deadline.
    Isr,
    /// AssignReplicasToDirs: one in flight, no deadline.
    Directories,
    /// AllocateProducerIds: one in flight, no deadline.
    ProducerIds,
    /// Clients' requests in Envelopes: several in flight, each with a deadline.
    Forwarded,
}

impl RequestClass {
    const ALL: [Self; 4] = [Self::Isr, Self::Directories, Self::ProducerIds, Self::Forwarded];

    /// Maximum number of requests of this kind that are in flight at one time.
    pub const fn in_flight_max(self) -> usize {
        match self {
            Self::Forwarded => 4,
            _ => 1,
        }
    }
}

/// Bounds of a channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelLimits {
    /// Time after which a forwarded request expires, ms.
    pub forward_ms: i64,
    /// Maximum number of forwarded requests that wait or are in flight.
    pub forwarded: usize,
}

/// Longest time of a forwarded request, ms. Kafka's brokers try for 60 s, and its clients wait 30 s
/// for a response: within this time, a client learns that no controller responds.
pub const FORWARD_MS: i32 = 20_000;

impl Default for ChannelLimits {
    fn default() -> Self {
        Self { forward_ms: FORWARD_MS.into(), forwarded: 1000 }
    }
}

/// Input of a channel. Tickets are the driver's and never used twice.
#[derive(Clone, Debug)]
pub enum ChannelEvent {
    /// The deadline has passed.
    Tick,
    /// The quorum has this leader, or none that is known.
    Controller(Option<Target>),
    /// The owner has a request to send, with this number.
    Submit(u64, RequestClass),
    /// The request has got its response.
    Answered(u64),
    /// The node responded that it is not the controller, at any depth of the response.
    NotController(u64),
    /// There was no connection, or the connection ended before the response.
    Lost(u64),
}

/// Task for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelAction {
    /// Send the request, which is of this kind, to the node.
    Send(u64, RequestClass, Target),
    /// The request is finished: its response counts.
    Finish(u64),
    /// The request is finished without a response: REQUEST_TIMED_OUT. A later response is dropped.
    Expire(u64),
    /// The request is refused, since too many wait.
    Refuse(u64),
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    deadline_ms: Option<i64>,
    in_flight: bool,
}

#[derive(Debug)]
struct Queue {
    class: RequestClass,
    /// Requests in the order of submission; those in flight stay until their response.
    requests: VecDeque<Waiting>,
    failures: u32,
    retry_ms: i64,
}

/// The queues of one broker.
#[derive(Debug)]
pub struct Channel {
    limits: ChannelLimits,
    controller: Option<Target>,
    queues: [Queue; RequestClass::ALL.len()],
}

impl Channel {
    /// A channel without requests, without a known controller.
    pub fn new(limits: ChannelLimits) -> Self {
        let queue = |class| Queue { class, requests: VecDeque::new(), failures: 0, retry_ms: i64::MIN };
        Self { limits, controller: None, queues: RequestClass::ALL.map(queue) }
    }

    /// The time of the next `Tick`; `None` if nothing waits for one.
    pub fn deadline(&self) -> Option<i64> {
        let retries = self.queues.iter().filter(|queue| self.controller.is_some() && queue.can_send());
        let retries = retries.map(|queue| queue.retry_ms);
        let requests = self.queues.iter().flat_map(|queue| &queue.requests);
        retries.chain(requests.filter_map(|request| request.deadline_ms)).min()
    }

    /// Processes an event. Ignores events about requests that are finished.
    pub fn step(&mut self, event: ChannelEvent, now_ms: i64) -> Vec<ChannelAction> {
        let mut actions = Vec::new();
        match event {
            ChannelEvent::Tick => {}
            ChannelEvent::Controller(controller) => {
                if controller.is_some() && controller != self.controller {
                    self.queues.iter_mut().for_each(|queue| (queue.failures, queue.retry_ms) = (0, i64::MIN));
                }
                self.controller = controller;
            }
            ChannelEvent::Submit(ticket, class) => actions.extend(self.submit(ticket, class, now_ms)),
            ChannelEvent::Answered(ticket) => {
                if let Some((queue, at)) = self.find(ticket) {
                    queue.requests.remove(at);
                    (queue.failures, queue.retry_ms) = (0, i64::MIN);
                    actions.push(ChannelAction::Finish(ticket));
                }
            }
            ChannelEvent::NotController(ticket) | ChannelEvent::Lost(ticket) => {
                if let Some((queue, at)) = self.find(ticket) {
                    queue.fail(at, now_ms);
                }
            }
        }
        self.expire(now_ms, &mut actions);
        self.send(now_ms, &mut actions);
        actions
    }

    fn submit(&mut self, ticket: u64, class: RequestClass, now_ms: i64) -> Option<ChannelAction> {
        let mut requests = self.queues.iter().flat_map(|queue| &queue.requests);
        debug_assert!(requests.all(|request| request.ticket != ticket), "ticket {ticket} is used twice");
        let queue = self.queues.iter_mut().find(|queue| queue.class == class)?;
        let is_forwarded = class == RequestClass::Forwarded;
        if is_forwarded && queue.requests.len() >= self.limits.forwarded {
            return Some(ChannelAction::Refuse(ticket));
        }
        let deadline_ms = is_forwarded.then(|| now_ms.saturating_add(self.limits.forward_ms));
        queue.requests.push_back(Waiting { ticket, deadline_ms, in_flight: false });
        None
    }

    /// The queue and index of a request in flight.
    fn find(&mut self, ticket: u64) -> Option<(&mut Queue, usize)> {
        self.queues.iter_mut().find_map(|queue| {
            let at =
                queue.requests.iter().position(|request| request.ticket == ticket && request.in_flight)?;
            Some((queue, at))
        })
    }

    fn expire(&mut self, now_ms: i64, actions: &mut Vec<ChannelAction>) {
        for queue in &mut self.queues {
            queue.requests.retain(|request| {
                let expired = request.deadline_ms.is_some_and(|deadline| deadline <= now_ms);
                if expired {
                    actions.push(ChannelAction::Expire(request.ticket));
                }
                !expired
            });
        }
    }

    fn send(&mut self, now_ms: i64, actions: &mut Vec<ChannelAction>) {
        let Some(controller) = &self.controller else { return };
        for queue in self.queues.iter_mut().filter(|queue| queue.retry_ms <= now_ms) {
            let in_flight = queue.in_flight();
            let free = queue.class.in_flight_max().saturating_sub(in_flight);
            for request in queue.requests.iter_mut().filter(|request| !request.in_flight).take(free) {
                request.in_flight = true;
                actions.push(ChannelAction::Send(request.ticket, queue.class, controller.clone()));
            }
        }
    }
}

impl Queue {
    fn in_flight(&self) -> usize {
        self.requests.iter().filter(|request| request.in_flight).count()
    }

    /// True if a request waits that may be sent after the pause.
    fn can_send(&self) -> bool {
        let in_flight = self.in_flight();
        in_flight < self.class.in_flight_max() && in_flight < self.requests.len()
    }

    fn fail(&mut self, at: usize, now_ms: i64) {
        self.requests[at].in_flight = false;
        let pause = (RETRY_MS << self.failures.min(16)).min(RETRY_MAX_MS);
        self.failures = self.failures.saturating_add(1);
        self.retry_ms = now_ms.saturating_add(pause);
    }
}
