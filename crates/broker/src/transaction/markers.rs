//! Markers in partitions that other brokers lead: drives [`Destinations`] with requests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use levada_base::log_pace::LogPace;
use levada_coordination::group::request::EndTxnRequest;
use levada_coordination::txn::TopicPartition;
use levada_coordination::txn::destinations::{Destinations, MarkerAction, MarkerEvent, MarkerTicket, Place};
use levada_coordination::txn::event::MarkerResult;
use levada_metadata::Metadata;
use levada_process::clock::steady_ms;
use levada_wire::StrBytes;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use levada_wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::live_config::LiveConfig;
use crate::peers::{Peer, PeerRequests, Subject};

/// The first version with the transaction version of a marker.
const TRANSACTION_VERSION: i16 = 2;

/// A marker for a partition that another broker leads.
pub(super) struct RemoteMarker {
    pub(super) target: TopicPartition,
    pub(super) end: EndTxnRequest,
    /// True once the coordinator no longer needs the marker.
    pub(super) is_over: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// Markers on their way to other brokers.
pub(super) struct RemoteMarkers {
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    peers: Arc<PeerRequests>,
    state: Mutex<State>,
    alarm: Notify,
    /// Pace of log lines about refused markers.
    refusals: LogPace,
}

#[derive(Default)]
struct State {
    destinations: Destinations,
    waiting: HashMap<MarkerTicket, (RemoteMarker, oneshot::Sender<MarkerResult>)>,
    last_ticket: u64,
}

/// The producer, and the partitions with their markers, of a marker in a request.
type Group = (EndTxnRequest, Vec<(MarkerTicket, TopicPartition)>);

impl RemoteMarkers {
    pub(super) fn new(config: Arc<LiveConfig>, metadata: Arc<Metadata>, peers: Arc<PeerRequests>) -> Self {
        let (state, alarm, refusals) = Default::default();
        Self { config, metadata, peers, state, alarm, refusals }
    }

    /// Sends a marker to the leader of its partition, and to the next leader if it changes, until
    /// it is written. The result is [`MarkerResult::Failed`] if this broker has become the leader.
    pub(super) async fn write(self: &Arc<Self>, marker: RemoteMarker) -> MarkerResult {
        let (sender, result) = oneshot::channel();
        let target = marker.target.clone();
        let ticket = {
            let mut state = self.state.lock();
            state.last_ticket += 1;
            let ticket = MarkerTicket(state.last_ticket);
            state.waiting.insert(ticket, (marker, sender));
            ticket
        };
        self.step(MarkerEvent::Add(ticket, target));
        result.await.unwrap_or(MarkerResult::Failed)
    }

    /// Sends markers again when it is time. Never returns.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let deadline = self.state.lock().destinations.deadline();
            match deadline.map(|due_ms| due_ms - steady_ms()) {
                None => self.alarm.notified().await,
                Some(wait_ms) if wait_ms > 0 => {
                    let wait = Duration::from_millis(wait_ms.unsigned_abs());
                    // After an early wake-up too, the deadline is checked again.
                    let _ = tokio::time::timeout(wait, self.alarm.notified()).await;
                }
                Some(_) => {
                    self.step(MarkerEvent::Tick);
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn step(self: &Arc<Self>, event: MarkerEvent) {
        // Requests are made without the lock: a node that cannot be reached is a step.
        for (node, groups) in self.plan(event) {
            self.send(node, groups);
        }
        self.alarm.notify_one();
    }

    /// Steps the machine, and returns the requests to be made.
    fn plan(&self, event: MarkerEvent) -> Vec<(i32, Vec<Group>)> {
        let mut state = self.state.lock();
        let State { destinations, waiting, .. } = &mut *state;
        let actions = destinations.step(event, steady_ms(), |ticket, target| {
            if waiting.get(&ticket).is_some_and(|(marker, _)| !(marker.is_over)()) {
                self.place(target)
            } else {
                Place::Here
            }
        });
        let mut requests = Vec::new();
        for action in actions {
            match action {
                MarkerAction::Send(node, tickets) => {
                    let wanted = tickets.into_iter().filter_map(|ticket| {
                        let (marker, _) = waiting.get(&ticket)?;
                        (!(marker.is_over)()).then(|| (ticket, marker.end, marker.target.clone()))
                    });
                    requests.push((node, grouped(wanted)));
                }
                MarkerAction::Finish(ticket, result) => {
                    if let Some((_, sender)) = waiting.remove(&ticket) {
                        // The broker may be stopping.
                        let _ = sender.send(result);
                    }
                }
            }
        }
        requests
    }

    fn place(&self, target: &TopicPartition) -> Place {
        let image = self.metadata.image();
        let found = image.topic(&target.topic).and_then(|topic| topic.partition(target.partition));
        match found {
            None => Place::Gone,
            Some(partition) if !partition.has_leader() => Place::Leaderless,
            Some(partition) if partition.leader == self.config.load().node_id => Place::Here,
            Some(partition) => Place::Node(partition.leader),
        }
    }

    fn send(self: &Arc<Self>, node: i32, groups: Vec<Group>) {
        let this = self.clone();
        let call = move |peer: Option<Peer<'_>>| {
            let _lost = LostOnPanic(&this, node);
            let answer = peer
                .and_then(|peer| peer.ask(controller::WRITE_TXN_MARKERS, |version| encode(&groups, version)));
            this.step(match answer {
                None => MarkerEvent::Lost(node),
                Some(answer) => {
                    this.warn(node, &answer);
                    MarkerEvent::Answered(node, codes(&groups, &answer))
                }
            });
        };
        self.peers.call(node, Subject::Markers, Box::new(call));
    }

    /// Logs the first error of a response, and the number of others.
    fn warn(&self, node: i32, answer: &WriteTxnMarkersResponse) {
        let topics = answer.markers.iter().flat_map(|marker| &marker.topics);
        let mut partitions =
            topics.flat_map(|topic| topic.partitions.iter().map(move |partition| (&topic.name, partition)));
        let Some((topic, refused)) = partitions.find(|(_, partition)| partition.error_code != 0) else {
            return;
        };
        let error = ErrorCode::of_code(refused.error_code).map_or("unknown", ErrorCode::name);
        let (topic, partition) = (topic.as_str(), refused.partition_index);
        if let Some(left_out) = self.refusals.admit(steady_ms()) {
            tracing::warn!(
                node,
                topic,
                partition,
                error,
                left_out,
                "a partition leader refused a transaction marker; the broker resends it unless the error says that the producer or the coordinator is fenced"
            );
        }
    }
}

/// A request that panics counts as lost: its markers are sent again.
struct LostOnPanic<'a>(&'a Arc<RemoteMarkers>, i32);

impl Drop for LostOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.step(MarkerEvent::Lost(self.1));
        }
    }
}

/// Markers by producer. A request has one decision per producer, because the response names only
/// the producer; others wait for the next request.
fn grouped(markers: impl Iterator<Item = (MarkerTicket, EndTxnRequest, TopicPartition)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places = BTreeMap::new();
    for (ticket, end, target) in markers {
        let place = *places.entry(end.producer.id).or_insert_with(|| {
            groups.push((end, Vec::new()));
            groups.len() - 1
        });
        let (decision, partitions) = &mut groups[place];
        if *decision == end {
            partitions.push((ticket, target));
        }
    }
    groups
}

fn encode(groups: &[Group], version: i16) -> WriteTxnMarkersRequest {
    let markers = groups.iter().map(|(end, partitions)| {
        let mut topics = BTreeMap::<&str, Vec<i32>>::new();
        for (_, target) in partitions {
            topics.entry(&target.topic).or_default().push(target.partition);
        }
        let topics = topics.into_iter().map(|(name, partition_indexes)| {
            let mut topic = WritableTxnMarkerTopic::default();
            (topic.name, topic.partition_indexes) = (StrBytes::from(name), partition_indexes);
            topic
        });
        let mut marker = WritableTxnMarker::default();
        (marker.producer_id, marker.producer_epoch) = (end.producer.id, end.producer.epoch);
        (marker.transaction_result, marker.coordinator_epoch) = (end.commit, end.coordinator_epoch);
        marker.topics = topics.collect();
        if version >= TRANSACTION_VERSION {
            marker.transaction_version = i8::try_from(end.transaction_version).unwrap_or(0);
        }
        marker
    });
    let mut request = WriteTxnMarkersRequest::default();
    request.markers = markers.collect();
    request
}

/// The code of each marker in the response.
fn codes(groups: &[Group], answer: &WriteTxnMarkersResponse) -> Vec<(MarkerTicket, i16)> {
    let mut found = HashMap::new();
    for marker in &answer.markers {
        for topic in &marker.topics {
            for partition in &topic.partitions {
                let key = (marker.producer_id, topic.name.as_str(), partition.partition_index);
                found.insert(key, partition.error_code);
            }
        }
    }
    let markers = groups.iter().flat_map(|(end, partitions)| partitions.iter().map(move |one| (end, one)));
    let code = |(end, (ticket, target)): (&EndTxnRequest, &(MarkerTicket, TopicPartition))| {
        let code = found.get(&(end.producer.id, target.topic.as_str(), target.partition))?;
        Some((*ticket, *code))
    };
    markers.filter_map(code).collect()
}

#[cfg(test)]
mod tests;
