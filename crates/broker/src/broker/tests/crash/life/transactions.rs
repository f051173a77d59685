//! Transactions of a life, and the offsets that are committed in them and outside.

use std::future::Future;
use std::time::Duration;

use levada_coordination::group::Producer;
use levada_coordination::group::request::{CommitPartition, CommitRequest, CommitTopic, TxnCommitRequest};
use levada_coordination::txn::TxnState;
use levada_coordination::txn::coordinator::Described;
use levada_coordination::txn::request::{AddRequest, EndRequest, InitRequest, ProducerIdentity, Protocol};
use levada_coordination::txn::{Coordinator, Keyed, Request, TopicPartition, TxnError};
use levada_wire::Uuid;
use rand::RngExt;

use super::{FIRST, Incarnation, Life};
use crate::broker::tests::crash::facts::Span;
use crate::replica::OFFSETS_TOPIC;
use crate::transaction::Membership;

/// A transactional id with the producer that owns it.
#[derive(Clone, Copy)]
pub(super) struct Owned {
    owner: ProducerIdentity,
    /// The number of the transaction that is open, and what it has committed for its group.
    open: Option<(usize, Option<i64>)>,
}

/// The group whose offsets are committed by transactions of an id.
pub(in crate::broker::tests::crash) fn copier(id: &str) -> String {
    format!("copier-{id}")
}

impl Life {
    /// Takes up a transactional id: begins a transaction or continues with one, writes, and commits
    /// it or not, or leaves it open.
    pub(super) fn transaction(&mut self, end: Option<bool>) -> bool {
        let id = format!("t{}", self.random.random_range(0..2));
        // A client of the newer protocol begins while the last transaction is still being
        // completed.
        if self.ways.protocol() == Protocol::Classic || self.random.random_bool(0.5) {
            self.settle(&id);
        }
        if !self.transactions.contains_key(&id) || self.random.random_bool(0.2) {
            self.take_up(&id);
        }
        let Owned { owner, open } = self.transactions[&id];
        let (number, mut offset) = open.unwrap_or_else(|| {
            self.facts.ends.push(None);
            (self.facts.ends.len() - 1, None)
        });
        if self.ways.protocol() == Protocol::EpochBump {
            // The first records begin it, without a request of their own.
            let now = self.recorder.count();
            self.facts.transactions.push((id.clone(), None, Span { began: now, acknowledged: now }));
        }
        for _ in 0..self.random.random_range(1..3) {
            let at = self.pick();
            let partition = self.pick_partition(at);
            if self.ways.protocol() == Protocol::Classic {
                self.add(&id, owner, &self.facts.topics[at].name.clone(), partition);
            }
            self.append(at, partition, owner, Some((&id, number)));
        }
        if self.random.random_bool(0.4) {
            offset = Some(self.written as i64);
            self.facts.proposed.push((copier(&id), self.written as i64, self.recorder.count()));
            self.commit_in_transaction(&id, owner);
        }
        let open = Some((number, offset)).filter(|_| end.is_none());
        self.transactions.insert(id.clone(), Owned { owner, open });
        if let Some(commit) = end {
            self.end(&id, (number, offset), commit);
        }
        true
    }

    fn take_up(&mut self, id: &str) {
        let init = InitRequest {
            transactional_id: id.to_owned(),
            timeout_ms: 600_000,
            expected: None,
            enable_two_phase_commit: false,
            keep_prepared: false,
        };
        // Leaves an open transaction without an end.
        let (owner, _) = self.ask(id, None, init);
        self.transactions.insert(id.to_owned(), Owned { owner, open: None });
        self.settle(id);
    }

    fn end(&mut self, id: &str, (number, offset): (usize, Option<i64>), commit: bool) {
        let owner = self.transactions[id].owner;
        let end = EndRequest {
            transactional_id: id.to_owned(),
            producer_id: owner.producer_id,
            producer_epoch: owner.producer_epoch,
            protocol: self.ways.protocol(),
            commit,
        };
        let (next, span) = self.ask(id, Some(commit), end);
        if self.ways.protocol() == Protocol::EpochBump {
            self.transactions.insert(id.to_owned(), Owned { owner: next, open: None });
        }
        self.facts.ends[number] = Some((commit, span));
        if let Some(offset) = offset.filter(|_| commit) {
            // Counts for consumers with the marker, for which only the coordinator waits.
            self.settle(id);
            let span = Span { began: span.began, acknowledged: self.recorder.count() };
            self.facts.commits.push((copier(id), 0, offset, span));
        }
    }

    fn add(&mut self, id: &str, owner: ProducerIdentity, topic: &str, partition: i32) {
        let add = AddRequest {
            transactional_id: id.to_owned(),
            producer_id: owner.producer_id,
            producer_epoch: owner.producer_epoch,
            protocol: Protocol::Classic,
            partitions: vec![TopicPartition { topic: topic.to_owned(), partition }],
        };
        self.ask(id, None, add);
    }

    /// Asks the transaction coordinator until it has time.
    fn ask<R, T>(&mut self, id: &str, decision: Option<bool>, request: R) -> (T, Span)
    where
        R: Request<Coordinator, Answer = Result<T, TxnError>> + Keyed + Clone,
    {
        let (answer, span) = self.span(|life| {
            let now = life.now();
            now.run(until_taken(|| now.broker.coordinators().txns().ask(request.clone())))
        });
        self.facts.transactions.push((id.to_owned(), decision, span));
        (answer, span)
    }

    /// Waits until the last transaction has all its markers.
    fn settle(&self, id: &str) {
        settle(self.now(), id);
    }

    fn commit_in_transaction(&mut self, id: &str, owner: ProducerIdentity) {
        let group = copier(id);
        let partition = self.now().broker.coordinators().groups().partition_of(&group).unwrap();
        if self.ways.protocol() == Protocol::Classic {
            self.add(id, owner, OFFSETS_TOPIC, partition);
        }
        let request = TxnCommitRequest {
            api_version: 5,
            group_id: group,
            member_id: String::new(),
            group_instance_id: None,
            generation: -1,
            producer: Producer { id: owner.producer_id, epoch: owner.producer_epoch },
            topics: vec![commit_of(0, self.written as i64)],
        };
        let now = self.now();
        let offsets = now.broker.replicas().partitions().by_name(OFFSETS_TOPIC, partition).unwrap();
        let claim = Membership { transactional_id: id, producer: owner, protocol: self.ways.protocol() };
        now.run(async {
            let _held = until_taken(|| now.broker.transactions().hold(&offsets, claim)).await;
            now.broker.coordinators().groups().ask(request).await.unwrap()
        });
    }

    /// Commits an offset outside of transactions.
    pub(super) fn commit(&mut self) -> bool {
        let group = format!("g{}", self.random.random_range(0..3));
        let (partition, offset) = (self.random.random_range(0..2), self.random.random_range(0..1_000));
        let request = CommitRequest {
            api_version: 8,
            group_id: group.clone(),
            member_id: String::new(),
            group_instance_id: None,
            generation: -1,
            retention_ms: None,
            topics: vec![commit_of(partition, offset)],
        };
        let ((), span) = self.span(|life| {
            let now = life.now();
            let committed = now.run(now.broker.coordinators().groups().ask(request)).unwrap();
            assert!(committed.iter().flat_map(|topic| &topic.partitions).all(|(_, error)| error.is_none()));
        });
        self.facts.commits.push((group, partition, offset, span));
        true
    }
}

fn commit_of(index: i32, offset: i64) -> CommitTopic {
    let partitions = vec![CommitPartition { index, offset, leader_epoch: -1, metadata: None }];
    CommitTopic { name: FIRST.to_owned(), topic_id: Uuid::ZERO, partitions }
}

/// Asks again as long as the transaction before is still being completed, as a client does.
pub(super) async fn until_taken<T, F: Future<Output = Result<T, TxnError>>>(mut ask: impl FnMut() -> F) -> T {
    loop {
        match ask().await {
            Ok(taken) => return taken,
            Err(TxnError::ConcurrentTransactions) => tokio::task::yield_now().await,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Waits until the transaction of an id that was decided has all its markers.
pub(in crate::broker::tests::crash) fn settle(now: &Incarnation, id: &str) {
    let coordinator = || now.broker.coordinators().txns().view(id, |one| one.describe(id));
    let is_ending = || {
        let state = coordinator().and_then(Result::ok).map(|described: Described| described.state);
        matches!(state, Some(TxnState::PrepareCommit | TxnState::PrepareAbort))
    };
    now.run(async {
        let ended = async {
            while is_ending() {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
        assert!(ended.is_ok(), "transaction {id} does not end: {:?}", coordinator());
    });
}
