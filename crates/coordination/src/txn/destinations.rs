//! Requests to other brokers about transactions: a queue for each node, with one request in flight,
//! and the destinations of markers.
//!
//! [`Destinations`] has the markers for other brokers. It sends each to the leader that its
//! partition has at that time, and again after a failure, until the marker is written or no longer
//! needed. Like the coordinator it has no clock and no connection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use levada_wire::error_code::ErrorCode;

use super::event::{MarkerResult, TopicPartition};

/// Number of items of one request.
const BATCH: usize = 500;

/// Pause before a marker is sent again, as after a failure in a partition of this broker.
const BACKOFF_MS: i64 = 100;

/// Items that wait for requests, by node. A node has one request in flight.
#[derive(Debug)]
pub struct Queues<T> {
    nodes: BTreeMap<i32, Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    items: VecDeque<T>,
    is_in_flight: bool,
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self { nodes: BTreeMap::new() }
    }
}

impl<T> Queues<T> {
    /// Adds an item for a node.
    pub fn push(&mut self, node: i32, item: T) {
        let empty = || Queue { items: VecDeque::new(), is_in_flight: false };
        self.nodes.entry(node).or_insert_with(empty).items.push_back(item);
    }

    /// The items of the next request, and its node; none while each node with items has a request
    /// in flight. The request is in flight until [`Queues::done`].
    pub fn take_next(&mut self) -> Option<(i32, Vec<T>)> {
        let idle = |(_, queue): &(&i32, &mut Queue<T>)| !queue.is_in_flight && !queue.items.is_empty();
        let (node, queue) = self.nodes.iter_mut().find(idle)?;
        queue.is_in_flight = true;
        Some((*node, queue.items.drain(..queue.items.len().min(BATCH)).collect()))
    }

    /// Records that the request to this node has ended. Removes a node without items.
    pub fn done(&mut self, node: i32) {
        if let Some(queue) = self.nodes.get_mut(&node) {
            queue.is_in_flight = false;
            if queue.items.is_empty() {
                self.nodes.remove(&node);
            }
        }
    }

    /// Removes and returns the queue of this node.
    fn take(&mut self, node: i32) -> VecDeque<T> {
        self.nodes.get_mut(&node).map(|queue| std::mem::take(&mut queue.items)).unwrap_or_default()
    }
}

/// The location of a partition in the metadata in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This other broker leads the partition.
    Node(i32),
    /// This broker leads the partition, or the marker is no longer needed.
    Here,
    /// The partition has no leader now.
    Leaderless,
    /// The partition does not exist.
    Gone,
}

/// The driver's name for one marker; opaque to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MarkerTicket(pub u64);

/// An event for [`Destinations::step`].
#[derive(Debug)]
pub enum MarkerEvent {
    /// A marker is to be written to this partition.
    Add(MarkerTicket, TopicPartition),
    /// The response of this node has these codes. A marker without a code is sent again.
    Answered(i32, Vec<(MarkerTicket, i16)>),
    /// The request to this node got no response.
    Lost(i32),
    /// [`Destinations::deadline`] has passed.
    Tick,
}

/// An action for the driver.
#[derive(Debug, PartialEq, Eq)]
pub enum MarkerAction {
    /// Send these markers to the node in one request, and report its end.
    Send(i32, Vec<MarkerTicket>),
    /// The marker is no longer needed.
    Finish(MarkerTicket, MarkerResult),
}

/// Markers on their way to other brokers.
#[derive(Debug, Default)]
pub struct Destinations {
    targets: BTreeMap<MarkerTicket, TopicPartition>,
    queues: Queues<MarkerTicket>,
    in_flight: BTreeMap<i32, Vec<MarkerTicket>>,
    /// Times at which markers are sent again.
    delayed: BTreeSet<(i64, MarkerTicket)>,
    actions: Vec<MarkerAction>,
}

impl Destinations {
    /// Applies an event. `place` returns the leader of each marker that is about to be queued.
    pub fn step(
        &mut self,
        event: MarkerEvent,
        now_ms: i64,
        place: impl Fn(MarkerTicket, &TopicPartition) -> Place,
    ) -> Vec<MarkerAction> {
        match event {
            MarkerEvent::Add(ticket, target) => {
                let before = self.targets.insert(ticket, target);
                assert!(before.is_none(), "a ticket belongs to one marker");
                self.direct(ticket, now_ms, &place);
            }
            MarkerEvent::Answered(node, codes) => self.answered(node, &codes.into_iter().collect(), now_ms),
            MarkerEvent::Lost(node) => {
                let queued = self.queues.take(node);
                queued.into_iter().for_each(|ticket| self.delay(ticket, now_ms));
                self.answered(node, &BTreeMap::new(), now_ms);
            }
            MarkerEvent::Tick => {}
        }
        while let Some((_, ticket)) = self.delayed.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms) {
            self.delayed.pop_first();
            self.direct(ticket, now_ms, &place);
        }
        while let Some((node, tickets)) = self.queues.take_next() {
            let before = self.in_flight.insert(node, tickets.clone());
            assert!(before.is_none(), "a node has one request in flight");
            self.actions.push(MarkerAction::Send(node, tickets));
        }
        std::mem::take(&mut self.actions)
    }

    /// Time of the next [`MarkerEvent::Tick`]; none if no marker waits for one.
    pub fn deadline(&self) -> Option<i64> {
        self.delayed.first().map(|(due_ms, _)| *due_ms)
    }

    /// Puts a marker into the queue of the leader that its partition has now.
    fn direct(
        &mut self,
        ticket: MarkerTicket,
        now_ms: i64,
        place: &impl Fn(MarkerTicket, &TopicPartition) -> Place,
    ) {
        let Some(target) = self.targets.get(&ticket) else { return };
        match place(ticket, target) {
            Place::Node(node) => self.queues.push(node, ticket),
            Place::Leaderless => self.delay(ticket, now_ms),
            Place::Here => self.finish(ticket, MarkerResult::Failed),
            Place::Gone => self.finish(ticket, MarkerResult::Gone),
        }
    }

    fn answered(&mut self, node: i32, codes: &BTreeMap<MarkerTicket, i16>, now_ms: i64) {
        self.queues.done(node);
        for ticket in self.in_flight.remove(&node).unwrap_or_default() {
            match codes.get(&ticket).and_then(|code| verdict(*code)) {
                Some(result) => self.finish(ticket, result),
                None => self.delay(ticket, now_ms),
            }
        }
    }

    fn delay(&mut self, ticket: MarkerTicket, now_ms: i64) {
        self.delayed.insert((now_ms.saturating_add(BACKOFF_MS), ticket));
    }

    fn finish(&mut self, ticket: MarkerTicket, result: MarkerResult) {
        let target = self.targets.remove(&ticket);
        assert!(target.is_some(), "a marker ends once");
        self.actions.push(MarkerAction::Finish(ticket, result));
    }
}

/// The result of a leader's response; none if the marker must be sent again. As in Kafka, a leader
/// that does not have the partition counts as one with older metadata.
fn verdict(code: i16) -> Option<MarkerResult> {
    match ErrorCode::of_code(code)? {
        ErrorCode::None => Some(MarkerResult::Written),
        ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced => {
            Some(MarkerResult::Fenced)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
