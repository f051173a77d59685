//! Scripted leaders and answers.

use std::collections::BTreeMap;

use levada_wire::error_code::ErrorCode;

use super::{BACKOFF_MS, BATCH, Destinations, MarkerAction, MarkerEvent, MarkerTicket, Place};
use crate::txn::event::{MarkerResult, TopicPartition};

/// Destinations, and the places of partitions of topic `t`, which the test changes.
#[derive(Default)]
struct Stage {
    destinations: Destinations,
    places: BTreeMap<i32, Place>,
    now_ms: i64,
}

impl Stage {
    fn new(places: &[(i32, Place)]) -> Self {
        Self { places: places.iter().copied().collect(), ..Self::default() }
    }

    fn step(&mut self, event: MarkerEvent) -> Vec<MarkerAction> {
        let places = &self.places;
        let place =
            |_, target: &TopicPartition| places.get(&target.partition).copied().unwrap_or(Place::Gone);
        self.destinations.step(event, self.now_ms, place)
    }

    /// A marker for the partition of the same number.
    fn add(&mut self, ticket: u64) -> Vec<MarkerAction> {
        let partition = i32::try_from(ticket).unwrap();
        let target = TopicPartition { topic: "t".to_owned(), partition };
        self.step(MarkerEvent::Add(MarkerTicket(ticket), target))
    }

    fn answer(&mut self, node: i32, codes: &[(u64, ErrorCode)]) -> Vec<MarkerAction> {
        let codes = codes.iter().map(|(ticket, code)| (MarkerTicket(*ticket), code.code()));
        self.step(MarkerEvent::Answered(node, codes.collect()))
    }

    /// The next deadline comes.
    fn wait(&mut self) -> Vec<MarkerAction> {
        self.now_ms = self.destinations.deadline().expect("a marker waits");
        self.step(MarkerEvent::Tick)
    }

    fn is_empty(&self) -> bool {
        let Destinations { targets, in_flight, delayed, queues, .. } = &self.destinations;
        targets.is_empty() && in_flight.is_empty() && delayed.is_empty() && queues.nodes.is_empty()
    }
}

fn send(node: i32, tickets: &[u64]) -> MarkerAction {
    MarkerAction::Send(node, tickets.iter().copied().map(MarkerTicket).collect())
}

fn finish(ticket: u64, result: MarkerResult) -> MarkerAction {
    MarkerAction::Finish(MarkerTicket(ticket), result)
}

#[test]
fn node_has_one_marker_request_in_flight() {
    let mut stage =
        Stage::new(&[(1, Place::Node(7)), (2, Place::Node(7)), (3, Place::Node(7)), (4, Place::Node(8))]);
    assert_eq!(stage.add(1), [send(7, &[1])]);
    assert_eq!(stage.add(2), []);
    assert_eq!(stage.add(3), []);
    assert_eq!(stage.add(4), [send(8, &[4])]);
    let actions = stage.answer(7, &[(1, ErrorCode::None)]);
    assert_eq!(actions, [finish(1, MarkerResult::Written), send(7, &[2, 3])]);
    assert_eq!(stage.answer(8, &[(4, ErrorCode::None)]), [finish(4, MarkerResult::Written)]);
    let actions = stage.answer(7, &[(2, ErrorCode::None), (3, ErrorCode::None)]);
    assert_eq!(actions, [finish(2, MarkerResult::Written), finish(3, MarkerResult::Written)]);
    assert!(stage.is_empty());
}

#[test]
fn a_request_has_a_limited_number_of_markers() {
    let count = u64::try_from(BATCH).unwrap() + 2;
    let places: Vec<_> = (0..=i32::try_from(count).unwrap()).map(|index| (index, Place::Node(7))).collect();
    let mut stage = Stage::new(&places);
    stage.add(0);
    (1..=count).for_each(|ticket| assert_eq!(stage.add(ticket), []));
    let actions = stage.answer(7, &[(0, ErrorCode::None)]);
    assert!(matches!(&actions[1], MarkerAction::Send(7, tickets) if tickets.len() == BATCH));
}

#[test]
fn marker_response_determines_retry_or_completion() {
    let retried = [
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::NotEnoughReplicas,
        ErrorCode::NotEnoughReplicasAfterAppend,
        ErrorCode::RequestTimedOut,
        ErrorCode::KafkaStorageError,
        ErrorCode::ClusterAuthorizationFailed,
    ];
    for (code, result) in [
        (ErrorCode::None, Some(MarkerResult::Written)),
        (ErrorCode::InvalidProducerEpoch, Some(MarkerResult::Fenced)),
        (ErrorCode::TransactionCoordinatorFenced, Some(MarkerResult::Fenced)),
    ]
    .into_iter()
    .chain(retried.map(|code| (code, None)))
    {
        let mut stage = Stage::new(&[(1, Place::Node(7))]);
        stage.add(1);
        let actions = stage.answer(7, &[(1, code)]);
        match result {
            Some(result) => assert_eq!(actions, [finish(1, result)], "{code:?}"),
            None => {
                assert_eq!(actions, [], "{code:?}");
                assert_eq!(stage.destinations.deadline(), Some(BACKOFF_MS));
                assert_eq!(stage.wait(), [send(7, &[1])], "{code:?}");
            }
        }
    }
}

#[test]
fn marker_is_resent_to_the_current_leader() {
    let mut stage = Stage::new(&[(1, Place::Node(7)), (2, Place::Node(7))]);
    stage.add(1);
    stage.add(2);
    stage.places.insert(1, Place::Node(8));
    // Nothing is sent immediately to a node that does not answer.
    assert_eq!(stage.step(MarkerEvent::Lost(7)), []);
    stage.places.insert(2, Place::Leaderless);
    assert_eq!(stage.wait(), [send(8, &[1])]);
    stage.places.insert(2, Place::Node(9));
    assert_eq!(stage.wait(), [send(9, &[2])]);
    // A response without the marker.
    assert_eq!(stage.answer(9, &[]), []);
    assert_eq!(stage.wait(), [send(9, &[2])]);
    assert_eq!(stage.answer(8, &[(1, ErrorCode::None)]), [finish(1, MarkerResult::Written)]);
    assert_eq!(stage.answer(9, &[(2, ErrorCode::None)]), [finish(2, MarkerResult::Written)]);
    assert!(stage.is_empty());
}

#[test]
fn markers_skip_deleted_and_locally_led_partitions() {
    let mut stage = Stage::new(&[(1, Place::Node(7)), (2, Place::Node(7))]);
    stage.add(1);
    stage.add(2);
    stage.answer(7, &[(1, ErrorCode::UnknownTopicOrPartition)]);
    stage.places.remove(&1);
    stage.places.insert(2, Place::Here);
    assert_eq!(stage.wait(), [finish(1, MarkerResult::Gone)]);
    // The request was sent before the leadership came here.
    assert_eq!(stage.answer(7, &[(2, ErrorCode::NotLeaderOrFollower)]), []);
    assert_eq!(stage.wait(), [finish(2, MarkerResult::Failed)]);
    assert!(stage.is_empty());
    assert_eq!(stage.add(3), [finish(3, MarkerResult::Gone)]);
}
