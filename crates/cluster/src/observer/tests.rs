//! Tests of `observer`: published state is a committed prefix, whatever the quorum and the network
//! do.

mod model;
mod tables;

use std::collections::HashSet;

use levada_testing::scaled;
use proptest::prelude::*;

use self::model::{Model, visible};
use super::*;
use crate::quorum::Quorum;

/// State that a replayer builds from an observer's actions.
#[derive(Default)]
struct Replayer {
    values: Vec<u32>,
    through: i64,
    fresh: Option<Vec<u32>>,
    seen: HashSet<i64>,
}

impl Replayer {
    fn publish(&mut self, committed: Committed) {
        assert!(self.fresh.is_none(), "records during a snapshot");
        assert!(committed.through.offset > self.through, "nothing new at {}", self.through);
        for record in committed.records {
            assert!(self.seen.insert(record.offset), "offset {} twice", record.offset);
            self.values.push(number(&record.value));
        }
        self.through = committed.through.offset;
    }

    fn take(&mut self, action: &ObserverAction) {
        match action {
            ObserverAction::Publish(committed) => self.publish(committed.clone()),
            ObserverAction::SnapshotBegins(_) => assert!(self.fresh.replace(Vec::new()).is_none()),
            ObserverAction::SnapshotRecords(records) => {
                let fresh = self.fresh.as_mut().expect("a snapshot has begun");
                fresh.extend(records.iter().map(|record| number(&record.value)));
            }
            ObserverAction::SnapshotEnds(id) => {
                assert!(id.end_offset > self.through, "the snapshot goes back");
                self.values = self.fresh.take().expect("a snapshot has begun");
                self.through = id.end_offset;
            }
            ObserverAction::SnapshotDropped(_) => assert!(self.fresh.take().is_some()),
            ObserverAction::Stop(reason) => panic!("{reason}"),
            _ => {}
        }
    }
}

fn number(value: &[u8]) -> u32 {
    u32::from_be_bytes(value[3..7].try_into().unwrap())
}

/// An observer, a quorum, and a network between them.
struct Rig {
    model: Model,
    observer: Observer,
    replayer: Replayer,
    now_ms: i64,
    /// The request in flight and the time at which it was sent.
    in_flight: Option<(u64, i64)>,
    /// Requests that no node has seen.
    sent: Vec<ObserverAction>,
    /// Answers on their way.
    answers: Vec<ObserverEvent>,
}

impl Rig {
    fn new() -> Self {
        let quorum = Quorum::from_voters("0@c:10,1@c:11,2@c:12").unwrap();
        let mut config = ObserverConfig::new(9, Uuid::ZERO);
        config.tail_bytes = 400;
        Self {
            model: Model::new(),
            observer: Observer::new(config, quorum),
            replayer: Replayer::default(),
            now_ms: 0,
            in_flight: None,
            sent: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn step(&mut self, event: ObserverEvent) {
        let (ObserverEvent::Fetched(answered, _)
        | ObserverEvent::SnapshotFetched(answered, _)
        | ObserverEvent::Failed(answered)) = event
        else {
            return self.step_with(event, None);
        };
        self.step_with(event, Some(answered));
    }

    fn step_with(&mut self, event: ObserverEvent, answered: Option<u64>) {
        let now_ms = self.now_ms;
        self.in_flight.take_if(|(request, sent)| Some(*request) == answered || now_ms - *sent >= 2000);
        for action in self.observer.step(event, self.now_ms) {
            self.replayer.take(&action);
            if let ObserverAction::Fetch(request, ..) | ObserverAction::FetchSnapshot(request, ..) = action {
                let other = self.in_flight.replace((request, now_ms));
                assert_eq!(other, None, "more than one request in flight");
                self.sent.push(action);
            }
        }
        let (expected, through) = visible(&self.model.history, self.replayer.through);
        assert_eq!(self.replayer.values, expected, "through {}", self.replayer.through);
        assert_eq!(self.replayer.through, through, "inside a transaction");
        assert_eq!(self.observer.published().offset, self.replayer.through);
        let deadline = self.observer.deadline().expect("not stopped");
        assert!(deadline > self.now_ms, "busy at {}", self.now_ms);
    }

    /// Answers a request that is under way, by the node that it was sent to.
    fn serve(&mut self, which: usize, argument: usize) {
        if self.sent.is_empty() {
            return;
        }
        let request = self.sent.remove(which % self.sent.len());
        let node = |to: &Target| to.node.expect("voters have ids") as usize;
        self.answers.push(match &request {
            ObserverAction::Fetch(id, to, body) => {
                let cut = if argument.is_multiple_of(3) { argument / 3 } else { 0 };
                ObserverEvent::Fetched(*id, self.model.fetch(node(to), body, 1 + argument % 4, cut))
            }
            ObserverAction::FetchSnapshot(id, to, body) => {
                ObserverEvent::SnapshotFetched(*id, self.model.fetch_snapshot(node(to), body, argument))
            }
            other => panic!("not a request: {other:?}"),
        });
    }

    fn deliver(&mut self, which: usize, again: bool) {
        if self.answers.is_empty() {
            return;
        }
        let at = which % self.answers.len();
        let answer = if again { self.answers[at].clone() } else { self.answers.remove(at) };
        self.step(answer);
    }

    fn tick(&mut self, ms: i64) {
        self.now_ms += ms;
        self.step(ObserverEvent::Tick);
    }

    /// Waits until a request is under way.
    fn wake(&mut self) {
        while self.sent.is_empty() {
            self.now_ms = self.now_ms.max(self.observer.deadline().expect("not stopped"));
            self.step(ObserverEvent::Tick);
        }
    }

    fn fail(&mut self, which: usize) {
        if self.sent.is_empty() {
            return;
        }
        let request = self.sent.remove(which % self.sent.len());
        let (ObserverAction::Fetch(id, ..) | ObserverAction::FetchSnapshot(id, ..)) = request else {
            panic!("not a request")
        };
        self.step(ObserverEvent::Failed(id));
    }

    fn operate(&mut self, (operation, a, b): (u8, u8, u8)) {
        let (a, b) = (usize::from(a), usize::from(b));
        match operation {
            0..4 => self.model.append(a % 3, b % 4, b % 11),
            4..9 => self.model.replicate(a % 3, b % 3),
            9 => self.model.elect(a % 3, b % 3),
            10 => self.model.snapshot(a % 3),
            11..16 => {
                self.tick(30);
                self.serve(a, b);
                self.deliver(a, false);
            }
            16 => self.serve(a, b),
            17 => self.deliver(a, b % 4 == 0),
            18 => drop((!self.answers.is_empty()).then(|| self.answers.remove(a % self.answers.len()))),
            19 => self.fail(a),
            _ => self.tick(a as i64 * 10),
        }
    }

    /// Ends all faults and waits until everything committed has been published.
    fn quiesce(&mut self) {
        for (candidate, voter) in [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)] {
            self.model.elect(candidate, voter);
        }
        let leader = self.model.leader().expect("an election has succeeded");
        for _ in 0..self.model.voters[leader].log.len() + 1 {
            self.model.replicate(leader, (leader + 1) % 3);
            self.model.replicate(leader, (leader + 2) % 3);
        }
        let end = self.model.voters[leader].end();
        assert_eq!(self.model.voters[leader].high_watermark, end);
        let (_, through) = visible(&self.model.history, end);
        self.sent.clear();
        self.answers.clear();
        for _ in 0..20 + 4 * self.model.history.len() {
            self.wake();
            self.serve(0, 1000);
            self.deliver(0, false);
            if self.replayer.through == through {
                return;
            }
        }
        panic!("published through {} of {through}", self.replayer.through);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn published_states_are_the_committed_prefixes(
        operations in prop::collection::vec((0..21u8, any::<u8>(), any::<u8>()), 0..300),
    ) {
        let mut rig = Rig::new();
        for operation in operations {
            rig.operate(operation);
        }
        rig.quiesce();
    }

    #[test]
    fn observer_survives_any_response(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        high_watermark in any::<i64>(),
        diverging in any::<Option<(i32, i64)>>(),
        snapshot in any::<Option<(i64, i32)>>(),
        codes in (0..120i16, 0..120i16),
    ) {
        let quorum = Quorum::from_voters("0@c:10").unwrap();
        let mut observer = Observer::new(ObserverConfig::new(9, Uuid::ZERO), quorum);
        let mut model = Model::new();
        model.replicate(0, 1);
        for (now_ms, request) in (1..5u64).enumerate() {
            let now_ms = now_ms as i64 * 10_000;
            let actions = observer.step(ObserverEvent::Tick, now_ms);
            let Some(ObserverAction::Fetch(_, _, body)) = actions.into_iter().next() else { break };
            let mut response = model.fetch(0, &body, 9, 0);
            let partition = &mut response.topics[0].partitions[0];
            if request > 2 {
                partition.records = Some(Bytes::from(bytes.clone()));
                partition.high_watermark = high_watermark;
                partition.diverging_epoch = diverging
                    .map(|(epoch, end_offset)| levada_wire::fetch::EpochEnd { epoch, end_offset });
                partition.snapshot_id =
                    snapshot.map(|(end_offset, epoch)| SnapshotId { end_offset, epoch });
                partition.error_code = if codes.0 % 3 == 0 { codes.1 } else { 0 };
            }
            observer.step(ObserverEvent::Fetched(request, response), now_ms);
        }
    }
}
