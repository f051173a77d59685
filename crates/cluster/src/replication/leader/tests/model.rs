//! A leader among followers that fetch, restart and lose their unacknowledged records, and a
//! controller whose requests and answers get lost. The controller's ISR is the truth: each of its
//! members must have everything below the high watermark at all times.

use std::collections::VecDeque;

use levada_testing::scaled;
use proptest::prelude::*;

use super::*;

const NODES: [i32; 3] = [1, 2, 3];

#[derive(Clone, Debug)]
enum Op {
    Append(i64),
    /// The follower copies this number of records, and fetches.
    Fetch {
        replica: i32,
        copied: i64,
    },
    /// The follower loses its records above this share of the high watermark it may have, and comes
    /// back with another broker epoch. The controller has taken it out of the ISR before.
    Restart(i32),
    Pass(i64),
    CheckLag,
    /// The controller processes the change that was sent, if there is one.
    Decide,
    /// The change is processed, but the response is lost: the change is sent again.
    LoseAnswer,
    Answer,
    Metadata,
    /// The controller elects this broker once more.
    Elect,
}

fn op() -> impl Strategy<Value = Op> {
    let follower = 2..=3;
    prop_oneof![
        3 => (1..5_i64).prop_map(Op::Append),
        8 => (follower.clone(), 0..6_i64).prop_map(|(replica, copied)| Op::Fetch { replica, copied }),
        1 => follower.prop_map(Op::Restart),
        2 => (1..40_000_i64).prop_map(Op::Pass),
        2 => Just(Op::CheckLag),
        4 => Just(Op::Decide),
        1 => Just(Op::LoseAnswer),
        4 => Just(Op::Answer),
        4 => Just(Op::Metadata),
        1 => Just(Op::Elect),
    ]
}

struct Model {
    leader: Leader,
    log_end: i64,
    followers: [i64; 2],
    /// The registration that the controller has committed.
    truth: LedRegistration,
    broker_epochs: [i64; 2],
    /// States that the leader has not read yet, with the broker epochs.
    metadata: VecDeque<(LedRegistration, [i64; 2])>,
    seen_epochs: [i64; 2],
    sent: Option<IsrChange>,
    answer: Option<(u64, Result<CommittedIsr, i16>)>,
    now_ms: i64,
}

impl Model {
    fn new() -> Self {
        let truth = LedRegistration {
            leader_epoch: 1,
            partition_epoch: 0,
            replicas: NODES.to_vec(),
            isr: NODES.to_vec(),
        };
        Self {
            leader: Leader::new(1, LIMITS, &truth, LedLog { log_end: 0, high_watermark: 0 }, 0),
            log_end: 0,
            followers: [0; 2],
            truth,
            broker_epochs: [10; 2],
            metadata: VecDeque::new(),
            seen_epochs: [10; 2],
            sent: None,
            answer: None,
            now_ms: 0,
        }
    }

    fn run(&mut self, op: Op) {
        let before = self.leader.high_watermark();
        match op {
            Op::Append(count) => {
                self.log_end += count;
                let seen = self.seen_epochs;
                let effects = self.leader.appended(self.log_end, &standing_of(seen), self.now_ms);
                self.take(effects);
            }
            Op::Fetch { replica, copied } => self.fetch(replica, copied),
            Op::Restart(replica) => self.restart(replica),
            Op::Pass(ms) => self.now_ms += ms,
            Op::CheckLag => {
                let effects = self.leader.check_lag(self.log_end, self.now_ms);
                self.take(effects);
            }
            Op::Decide => {
                if let Some(change) = self.sent.take() {
                    self.answer = Some((change.number, self.decide(&change)));
                }
            }
            Op::LoseAnswer => {
                if let Some(change) = self.sent.clone() {
                    let _ = self.decide(&change);
                }
            }
            Op::Answer => self.answer(),
            Op::Metadata => self.read_metadata(),
            Op::Elect => {
                self.truth.leader_epoch += 1;
                self.commit(self.truth.isr.clone());
            }
        }
        assert!(self.leader.high_watermark() >= before, "the high watermark has fallen");
        self.check();
    }

    /// Members of the controller's ISR have what is below the high watermark.
    fn check(&self) {
        let high = self.leader.high_watermark();
        assert!(high <= self.log_end);
        for id in self.truth.isr.iter().filter(|id| **id != 1) {
            let end = self.followers[place(*id)];
            assert!(end >= high, "replica {id} in the ISR ends at {end}, the high watermark is {high}");
        }
    }

    fn fetch(&mut self, replica: i32, copied: i64) {
        let at = place(replica);
        self.followers[at] = (self.followers[at] + copied).min(self.log_end);
        let fetch = FollowerFetch {
            replica,
            broker_epoch: self.broker_epochs[at],
            leader_epoch: self.leader.leader_epoch(),
            offset: self.followers[at],
            log_start: 0,
            leader_end: self.log_end,
        };
        let seen = self.seen_epochs;
        let fetched = self.leader.fetched(fetch, self.log_end, &standing_of(seen), self.now_ms);
        self.take(fetched.expect("no fetch comes from an earlier life"));
    }

    fn restart(&mut self, replica: i32) {
        let at = place(replica);
        if self.truth.isr.contains(&replica) {
            self.commit(self.truth.isr.iter().copied().filter(|id| *id != replica).collect());
        }
        self.broker_epochs[at] += 1;
        // An unclean stop: no part of the log is certain.
        self.followers[at] = 0;
        self.metadata.push_back((self.truth.clone(), self.broker_epochs));
    }

    fn decide(&mut self, change: &IsrChange) -> Result<CommittedIsr, i16> {
        if change.leader_epoch != self.truth.leader_epoch {
            return Err(ErrorCode::FencedLeaderEpoch.code());
        }
        if change.partition_epoch != self.truth.partition_epoch {
            return Err(ErrorCode::InvalidUpdateVersion.code());
        }
        let is_stale = |&(id, epoch): &(i32, i64)| {
            id != 1 && epoch != NO_BROKER_EPOCH && epoch != self.broker_epochs[place(id)]
        };
        if change.isr.iter().any(is_stale) {
            return Err(ErrorCode::IneligibleReplica.code());
        }
        self.commit(change.isr.iter().map(|(id, _)| *id).collect());
        let LedRegistration { leader_epoch, partition_epoch, isr, .. } = self.truth.clone();
        Ok(CommittedIsr { leader_epoch, partition_epoch, isr })
    }

    fn commit(&mut self, isr: Vec<i32>) {
        self.truth.partition_epoch += 1;
        self.truth.isr = isr;
        self.metadata.push_back((self.truth.clone(), self.broker_epochs));
    }

    fn answer(&mut self) {
        let Some((number, answer)) = self.answer.take() else { return };
        let seen = self.seen_epochs;
        let answer = answer.as_ref().map_err(|code| *code);
        let (outcome, effects) = self.leader.answered(number, answer, &standing_of(seen), self.now_ms);
        if let ChangeOutcome::Retry(change) = outcome {
            self.sent = Some(change);
        }
        self.take(effects);
    }

    fn read_metadata(&mut self) {
        let Some((registered, epochs)) = self.metadata.pop_front() else { return };
        self.seen_epochs = epochs;
        let effects = self.leader.lead(&registered, self.log_end, &standing_of(epochs), self.now_ms);
        self.take(effects);
    }

    fn take(&mut self, effects: Effects) {
        if let Some(high) = effects.high_watermark {
            assert_eq!(high, self.leader.high_watermark());
        }
        if let Some(change) = effects.change {
            assert!(change.isr.iter().any(|(id, _)| *id == 1), "a leader stays in its ISR");
            // A change replaces the abandoned one.
            self.sent = Some(change);
        }
    }
}

fn place(replica: i32) -> usize {
    usize::try_from(replica - 2).expect("2 and 3 follow")
}

fn standing_of(epochs: [i64; 2]) -> impl Fn(i32) -> Option<BrokerStanding> {
    move |id| Some(BrokerStanding { epoch: epochs[place(id)], is_fenced: false, is_stopping: false })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(400), ..ProptestConfig::default() })]

    #[test]
    fn isr_members_have_everything_below_high_watermark(
        ops in proptest::collection::vec(op(), 1..120)
    ) {
        let mut model = Model::new();
        for op in ops {
            model.run(op);
        }
    }

    #[test]
    fn faultless_leader_ends_with_full_isr(
        ops in proptest::collection::vec(op(), 1..60)
    ) {
        let mut model = Model::new();
        for op in ops {
            model.run(op);
        }
        // Followers fetch, the controller answers, and the metadata arrives.
        for _ in 0..4 {
            for op in [Op::Decide, Op::Answer] {
                model.run(op);
            }
            while !model.metadata.is_empty() {
                model.run(Op::Metadata);
            }
            for replica in [2, 3] {
                model.run(Op::Fetch { replica, copied: i64::MAX / 2 });
                model.run(Op::Decide);
                model.run(Op::Answer);
            }
        }
        let mut isr = model.truth.isr.clone();
        isr.sort_unstable();
        prop_assert_eq!(isr, NODES.to_vec());
        prop_assert_eq!(model.leader.high_watermark(), model.log_end);
    }
}
